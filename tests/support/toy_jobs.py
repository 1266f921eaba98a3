"""The toy world, a tiny model that can speak about it, and run folders: what tests of whole jobs are made of."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from dpepo.config import Config
from dpepo.demo.words import build_tokenizer
from dpepo.envs.toy import CONTAINERS, ROOMS, TARGETS, TRAPS
from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import run_synth
from dpepo.training.sft import SftResult, run_sft
from dpepo.types import EpisodeView

PHRASES = (
    "I go on with the plan in environment",
    "and look at something else in the others.",
    "pick at random",
    "go to",
    "open",
    "take",
    "look",
    "Find the",
    "and take it.",
)
SETTINGS = (
    "env.num_envs=2",
    "env.workers=0",
    "env.options.observation=compact",
    "tasks.train.names=[room]",
    "tasks.eval.names=[room]",
    "prompt.templates=compact",
    "model.device=cpu",
    "model.max_length=256",
    "sampling.temperature=1.0",
    "sampling.max_new_tokens=40",
    "rollout.max_turns=3",
    "synth.num_envs=[2]",
    "sft.lr=3e-3",
    "sft.batch_tokens=1024",
    "actor.lr=1e-3",
    "train.allow_overlap=true",
    "train.tasks_per_step=2",
    "train.group_size=4",
    "eval.temperature=0",
)


class Notes:
    """A progress display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: list[str] = []
        self.advanced = 0.0
        self.finished = 0

    def start(self, stage: str, *, total: float | None, unit: str) -> None:
        self.stages.append(f"{stage}: {total:g} {unit}" if total is not None else stage)

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        self.advanced += n

    def skip(self, n: float, **shown: float | int | str) -> None:
        self.advanced += n

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self) -> None:
        self.finished += 1


class Killed(BaseException):
    """Stands for the moment at which a process dies: nothing in the package may catch it."""


class KilledAt(Notes):
    """A progress display that dies after so many units, as a killed process would."""

    def __init__(self, after: float) -> None:
        super().__init__()
        self._after = after

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        super().advance(n, **shown)
        if self.advanced >= self._after:
            raise Killed


class Clumsy:
    """An agent of one's own: it opens the first container and takes what is there, or replies without any tag."""

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        if rng.random() < 0.3:
            return "I do not know"
        seen = view.turns[-1][0].observation if view.turns and view.turns[-1] else view.initial
        takes = [action for action in seen.admissible_actions if action.startswith("take")]
        action = [*takes, *seen.admissible_actions[1:], "look"][0]
        return f"<think>so</think><parallel><env_1>{action}</env_1></parallel>"


def toy_config(folder: Path, *settings: str) -> Config:
    """The settings above, a run folder, and further settings that win."""
    return load_config(None, [*SETTINGS, f"run.dir={folder}", *settings])


def open_run(config: Config, job: str) -> RunFolder:
    return RunFolder.create(Path(config.run.dir), config=config, job=job)


def write_model(folder: Path, *, seed: int = 0, hidden: int = 48, **settings: Any) -> Path:
    """An untrained model and a tokenizer with a token per phrase of the toy world."""
    tokenizer = build_tokenizer([*CONTAINERS, *TARGETS, *TRAPS, *PHRASES], rooms=ROOMS)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
        intermediate_size=2 * hidden,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        **settings,
    )
    torch.manual_seed(seed)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def weights(checkpoint: str | Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint's model or adapter."""
    from safetensors.torch import load_file

    [file] = (Path(checkpoint) / "model").glob("*.safetensors")
    return load_file(file)


def same_weights(one: str | Path, other: str | Path) -> bool:
    """Whether two checkpoints hold the same model to the bit."""
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


class ColdStart(NamedTuple):
    """A small supervised run on demonstrations of a player that acts at random."""

    untrained: Path  # model folder
    demonstrations: Path  # run folder
    run: Path  # run folder of the fine-tuning
    model: Path  # model folder
    result: SftResult


ONE_TASK = ("tasks.train.limit=1", "rollout.max_turns=4")


def make_cold_start(folder: Path) -> ColdStart:
    untrained = write_model(folder / "untrained")
    random_player = ("synth.teacher=random", "synth.keep=all", "synth.episodes_per_task=40")
    config = toy_config(folder / "synth", *ONE_TASK, *random_player)
    run_synth(config, run=open_run(config, "synth"), progress=Notes())
    sft = ("sft.epochs=6", "sft.lr=1e-2", "sft.batch_tokens=768")
    config = toy_config(folder / "sft", f"model.path={untrained}", f"sft.demonstrations={folder / 'synth'}", *sft)
    result = run_sft(config, run=open_run(config, "sft"), progress=Notes())
    return ColdStart(untrained, folder / "synth", folder / "sft", Path(result.checkpoint) / "model", result)
