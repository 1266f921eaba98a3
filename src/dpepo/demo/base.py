"""Makes the base models that ship with the demos: ``python -m dpepo.demo.base --world alfworld FOLDER``.

A Qwen3 of 0.8 M parameters learns the form of prompts and replies, and to copy names: for ScienceWorld from the made-up
problems of `dpepo.demo.search`, which take nothing but the *names* of rooms and things from the training variations; for
ALFWorld from training games with exchanged names (`dpepo.demo.household`). It has seen no fact about things, and no held-out
task.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dpepo.config import ActorConfig, ModelConfig, PromptConfig, TaskSelection
from dpepo.demo.household import TASK, play_household
from dpepo.demo.household_words import SEARCH, household_tokenizer
from dpepo.demo.search import draw_problem, play_problem
from dpepo.demo.words import build_tokenizer
from dpepo.envs import World, load_world, select_tasks
from dpepo.learning import Learner
from dpepo.policies import load_hf
from dpepo.protocol import PromptBuilder, encode_prompt
from dpepo.types import EpisodeView, TrainingSample

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TASKS = ("lifespan-longest-lived", "lifespan-shortest-lived")
WORLD_OPTIONS = {"simplifications": "easy", "observation": "compact", "valid_actions": "none"}
ROOMS = (
    "art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room", "outside", "workshop",
)  # fmt: skip
PROMPTS = PromptConfig(templates="compact")
LEARNING_RATE, WARMUP_STEPS = 2e-3, 100
SEED = 5

Turns = Iterator[tuple[EpisodeView, str]]
"""What is seen before a turn, and the reply to give."""


class Progress(NamedTuple):
    """Where the making of the base model is."""

    step: int
    loss: float  # per reply token
    tokens_per_second: float


def collect_names(world: World) -> list[str]:
    """Names of things in all rooms of the training variations that the demo's tasks start from, sorted."""
    names: set[str] = set()
    for task in select_tasks(world, TaskSelection(names=TASKS, split="train"), seed=0):
        env = world.make(task.id)
        names.update(env.reset().objects)
        names.update(env.step("teleport to outside").objects)
        env.close()
    env = world.make(f"{world.name}/{TASKS[0]}/0")
    env.reset()
    for room in ROOMS:
        names.update(env.step(f"teleport to {room}").objects)
    env.close()
    return sorted(names)


def create_model(folder: Path, *, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write an untrained model and its tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=352,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(SEED)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def search_turns(names: Sequence[str], *, seed: int) -> Turns:
    """Made-up problems without end."""
    rng = random.Random(seed)
    while True:
        yield from play_problem(draw_problem(rng, names=names, rooms=ROOMS), rng, rooms=ROOMS)


def household_turns(world: World, *, seed: int, searching: float = 1.0) -> Turns:
    """Training games with exchanged names, without end.

    Args:
        world: ALFWorld with compact observations.
        seed: Of everything.
        searching: Share of the turns of nothing but search that are shown. Most turns are, and none of them copies the name of
            a thing.
    """
    rng = random.Random(seed)
    tasks = select_tasks(world, TaskSelection(names=(TASK,), split="generated_train"), seed=0)
    while True:
        for view, reply in play_household(world, rng.choice(tasks).id, rng):
            if SEARCH not in reply or rng.random() < searching:
                yield view, reply


def as_samples(turns: Turns, tokenizer: PreTrainedTokenizerBase) -> Iterator[TrainingSample]:
    """Turns as training samples."""
    prompts = PromptBuilder(PROMPTS)
    for view, reply in turns:
        ids = (*tokenizer.encode(reply, add_special_tokens=False), int(tokenizer.eos_token_id))
        yield TrainingSample(
            prompt_token_ids=tuple(encode_prompt(tokenizer, prompts.build(view))),
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            advantage=1.0,
        )


def train_base(folder: Path, turns: Turns, *, steps: int, batch: int) -> Iterator[Progress]:
    """Train the model in a folder on turns and write it back; yields every hundred steps."""
    model, tokenizer = load_hf(ModelConfig(path=str(folder)))
    learner = Learner(model, config=ActorConfig(lr=LEARNING_RATE, weight_decay=0.05, kl_coef=0.0, micro_tokens=2048))
    stream = as_samples(turns, tokenizer)
    began, num_tokens = time.monotonic(), 0
    for step in range(1, steps + 1):
        samples = [next(stream) for _ in range(batch)]
        num_tokens += sum(len(sample.prompt_token_ids) + len(sample.token_ids) for sample in samples)
        rate = 0.5 * (1.0 + math.cos(math.pi * step / steps)) * min(1.0, step / WARMUP_STEPS)
        metrics = learner.supervised_step(samples, lr=LEARNING_RATE * rate)
        if step % 100 == 0 or step == steps:
            yield Progress(step, metrics["sft/loss"], num_tokens / (time.monotonic() - began))
    model.save_pretrained(folder)


def main() -> None:
    """Make a base model from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the model is written; made when missing")
    parser.add_argument("--world", choices=("scienceworld", "alfworld"), default="scienceworld", help="whose demo it is for")
    parser.add_argument("--steps", type=int, default=4500, help="optimiser steps; for ALFWorld two thirds of them on all turns")
    parser.add_argument("--batch", type=int, default=16, help="samples per step")
    args = parser.parse_args()
    if args.world == "scienceworld":
        with load_world("scienceworld", WORLD_OPTIONS) as world:
            names = collect_names(world)
        create_model(args.folder, tokenizer=build_tokenizer(names, rooms=ROOMS))
        _tell(train_base(args.folder, search_turns(names, seed=SEED), steps=args.steps, batch=args.batch))
        return
    create_model(args.folder, tokenizer=household_tokenizer())
    world = load_world("alfworld", {"observation": "compact"})
    last = args.steps // 3
    for steps, searching, seed in ((args.steps - last, 1.0, SEED), (last, 0.25, SEED + 1)):
        turns = household_turns(world, seed=seed, searching=searching)
        _tell(train_base(args.folder, turns, steps=steps, batch=args.batch))


def _tell(made: Iterator[Progress]) -> None:
    for progress in made:
        line = f"step {progress.step}  loss {progress.loss:.3f}  {progress.tokens_per_second:.0f} tokens/s\n"
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
