"""One optimiser step on turn-level samples: dpepo beside a plain padded batch and TRL's losses, on identical token ids.

    python benchmarks/learning.py [--json FILE] [--tasks 8] [--large]

Samples are real: groups of the demo's recipe, played in ScienceWorld by the base model that ships with dpepo; for
``--large`` (a 100M-class model with random weights) 16 of long prompts, the oracle's turns with full observations. Every
contestant runs in a fresh process on one thread in float32, makes one step to warm up and then three; CPU seconds are those of
the process, memory is the most it grew during the steps.

plain: prompts padded on the left and replies on the right to the longest of all, logits of every position, as the authors'
code does.
trl: ``GRPOTrainer._compute_loss`` and ``SFTTrainer.compute_loss`` of TRL, on batches padded to the longest of each batch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).parents[1] / "src" / "dpepo" / "demo" / "lifespan.yaml"
BATCH = 32  # sequences per forward pass of plain and trl, the paper's mini-batch
STEPS = 3
KL, CLIP = 0.02, 0.2


class Peak:
    """The most that resident memory grew, in MB, while it was watched."""

    def __enter__(self) -> Peak:
        import psutil

        process = psutil.Process()
        self._before = self._most = process.memory_info().rss
        self._done = threading.Event()

        def watch() -> None:
            while not self._done.wait(0.002):
                self._most = max(self._most, process.memory_info().rss)

        self._thread = threading.Thread(target=watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.mb = (self._most - self._before) / 2**20


def demo_samples(tasks: int) -> list[dict[str, Any]]:
    """Samples of one RL step of the demo, with their advantages."""
    from dpepo.algorithms import load_algorithm
    from dpepo.envs import load_world, make_pool, select_tasks
    from dpepo.learning import build_samples
    from dpepo.protocol import PromptBuilder
    from dpepo.recipes import load_config
    from dpepo.rewards import score_episode
    from dpepo.rollout import load_policy, play_groups, play_settings
    from dpepo.types import EpisodeGroup

    config = load_config(RECIPE, [f"train.tasks_per_step={tasks}", "env.workers=1"])
    with load_world(config.env.world, config.env.options) as world:
        chosen = select_tasks(world, config.tasks.train, seed=0)[:tasks]
    with make_pool(config.env) as pool:
        played = play_groups(
            chosen,
            group_size=config.train.group_size,
            seed=0,
            settings=play_settings(config),
            policy=load_policy(config.model, sampling=config.sampling),
            pool=pool,
            prompts=PromptBuilder(config.prompt),
        )
    groups = [
        EpisodeGroup(task=task, siblings=tuple(score_episode(one, config.step_reward) for one in siblings))
        for task, siblings in zip(chosen, played, strict=True)
    ]
    return _numbered(build_samples(load_algorithm(config.algorithm).advantages_many(groups)))


def long_samples(count: int) -> list[dict[str, Any]]:
    """Turns of the oracle with the default words and full observations; a word's id is its hash."""
    from dpepo.config import PromptConfig
    from dpepo.envs import LocalPool, load_world
    from dpepo.protocol import PromptBuilder
    from dpepo.rollout import AgentPolicy, OracleAgent, play_episode
    from dpepo.types import TrainingSample

    found = []
    with load_world("scienceworld", {}) as world:
        pool = LocalPool(world)
        episode = play_episode(
            world.task("scienceworld/boil/3"),
            policy=AgentPolicy(OracleAgent(pool.expert_many)),
            num_envs=4,
            max_turns=count,
            world=pool,
            prompts=PromptBuilder(PromptConfig()),
        )
    for number, turn in enumerate(episode.turns[:count]):
        prompt = _hashed(" ".join(message.content for message in turn.prompt.messages))
        reply = _hashed(turn.completion.text)
        found.append(
            TrainingSample(
                prompt_token_ids=prompt, token_ids=reply, logprobs=(-1.0,) * len(reply), advantage=(-1.0) ** number, turn=number
            )
        )
    return _numbered(found)


def _hashed(text: str) -> tuple[int, ...]:
    import re
    import zlib

    return tuple(1 + zlib.crc32(word.encode()) % 31_999 for word in re.findall(r"\w+|\W", text) if word != " ")


def _numbered(samples: Sequence[Any]) -> list[dict[str, Any]]:
    return [json.loads(sample.model_dump_json()) for sample in samples]


def repeated_share(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many prompt tokens stand in the same place after the same tokens in an earlier sample."""
    seen: set[int] = set()
    total = repeated = equal = replies = 0
    prompts: set[tuple[int, ...]] = set()
    for sample in samples:
        ids = tuple(sample["prompt_token_ids"])
        total += len(ids)
        replies += len(sample["token_ids"])
        equal += len(ids) if ids in prompts else 0
        prompts.add(ids)
        state = 0
        for token in ids:
            state = hash((state, token))
            repeated += state in seen
            seen.add(state)
    return {
        "samples": len(samples),
        "prompt_tokens": total,
        "reply_tokens": replies,
        "in_equal_prompts": equal / total,
        "in_shared_beginnings": repeated / total,
        "bound": (total + replies) / (total - repeated + replies),
    }


def load_model(large: bool) -> Any:
    """The demo's base, or a 100M-class model with random weights."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not large:
        from dpepo.config import ModelConfig
        from dpepo.policies import load_hf

        return load_hf(ModelConfig(path="builtin:search-base", device="cpu"))[0]
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = Qwen2Config(
        vocab_size=32_000,
        hidden_size=640,
        intermediate_size=1_920,
        num_hidden_layers=16,
        num_attention_heads=10,
        num_key_value_heads=2,
        max_position_embeddings=16_384,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(shape).eval()


Step = Callable[[], tuple[float, float]]  # one step; returns loss and gradient norm


def dpepo_step(model: Any, samples: list[Any], kind: str) -> Step:
    """The learner as jobs use it, the optimiser included."""
    from dpepo.config import ActorConfig
    from dpepo.learning import Learner, freeze

    config = ActorConfig(kl_coef=KL if kind == "rl" else 0.0, lr=1e-12, micro_tokens=2_048, max_grad_norm=1e9)
    learner = Learner(model, config=config, reference=freeze(model) if kind == "rl" else None)

    def step() -> tuple[float, float]:
        if kind == "sft":
            told = learner.supervised_step(samples)
            return told["sft/loss"], told["sft/grad_norm"]
        told = learner.update(samples)
        return told["actor/pg_loss"] + KL * told["actor/kl_loss"], told["actor/grad_norm"]

    return step


def _padded(samples: Sequence[Any], *, longest_prompt: int, longest_reply: int) -> dict[str, Any]:
    import torch

    def line(ids: Sequence[Any], size: int, *, left: bool) -> list[Any]:
        gap = [0] * (size - len(ids))
        return [*gap, *ids] if left else [*ids, *gap]

    return {
        "prompt_ids": torch.tensor([line(s.prompt_token_ids, longest_prompt, left=True) for s in samples]),
        "prompt_mask": torch.tensor([line([1] * len(s.prompt_token_ids), longest_prompt, left=True) for s in samples]),
        "completion_ids": torch.tensor([line(s.token_ids, longest_reply, left=False) for s in samples]),
        "completion_mask": torch.tensor([line([1] * len(s.token_ids), longest_reply, left=False) for s in samples]),
        "old_per_token_logps": torch.tensor(
            [line(s.logprobs, longest_reply, left=False) for s in samples], dtype=torch.float32
        ),
        "advantages": torch.tensor([s.advantage for s in samples]),
    }


def _logprobs(model: Any, batch: dict[str, Any]) -> Any:
    import torch

    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits.float()
    reply = batch["completion_ids"].shape[1]
    logits = logits[:, -reply - 1 : -1]
    return torch.log_softmax(logits, -1).gather(-1, batch["completion_ids"].unsqueeze(-1)).squeeze(-1)


def plain_step(model: Any, samples: list[Any], kind: str) -> Step:
    """Everything padded to the longest of all, logits of all positions."""
    import copy

    import torch

    reference = copy.deepcopy(model).requires_grad_(False) if kind == "rl" else None
    longest = max(len(s.prompt_token_ids) for s in samples), max(len(s.token_ids) for s in samples)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-12)
    total = sum(len(s.token_ids) for s in samples)

    def step() -> tuple[float, float]:
        loss_sum = 0.0
        optimizer.zero_grad()
        for start in range(0, len(samples), BATCH):
            batch = _padded(samples[start : start + BATCH], longest_prompt=longest[0], longest_reply=longest[1])
            mask = batch["completion_mask"]
            new = _logprobs(model, batch)
            if kind == "sft":
                loss = -(new * mask).sum() / total
            else:
                with torch.no_grad():
                    kept = _logprobs(reference, batch)
                ratio = (new - batch["old_per_token_logps"]).exp()
                advantages = batch["advantages"].unsqueeze(1)
                policy = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
                kl = (kept - new).exp() - (kept - new) - 1
                loss = ((policy + KL * kl) * mask).sum() / total
            loss.backward()
            loss_sum += loss.item()
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
        optimizer.step()
        return loss_sum, norm

    return step


def trl_step(model: Any, samples: list[Any], kind: str) -> Step:
    """TRL's own loss functions on batches padded to their longest, in order of length, as TRL's samplers can give."""
    import copy

    import torch

    trainer, workshop = _trl_trainer(model, kind)
    reference = copy.deepcopy(model).requires_grad_(False) if kind == "rl" else None
    ordered = sorted(samples, key=lambda s: len(s.prompt_token_ids) + len(s.token_ids))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-12)
    total = sum(len(s.token_ids) for s in samples)

    def step() -> tuple[float, float]:
        loss_sum = 0.0
        optimizer.zero_grad()
        for start in range(0, len(ordered), BATCH):
            part = ordered[start : start + BATCH]
            count = sum(len(s.token_ids) for s in part)
            if kind == "sft":
                loss = trainer.compute_loss(model, _labelled(part)) * count / total
            else:
                batch = _padded(
                    part,
                    longest_prompt=max(len(s.prompt_token_ids) for s in part),
                    longest_reply=max(len(s.token_ids) for s in part),
                )
                with torch.no_grad():
                    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
                    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
                    kept = trainer._get_per_token_logps_and_entropies(reference, ids, mask, batch["completion_ids"].shape[1])[0]
                loss = trainer._compute_loss(model, {**batch, "ref_per_token_logps": kept}) * count / total
            loss.backward()
            loss_sum += loss.item()
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
        optimizer.step()
        return loss_sum, norm

    step.workshop = workshop  # type: ignore[attr-defined]
    return step


def _labelled(samples: Sequence[Any]) -> dict[str, Any]:
    import torch

    longest = max(len(s.prompt_token_ids) + len(s.token_ids) for s in samples)
    ids, labels, masks = [], [], []
    for s in samples:
        line = [*s.prompt_token_ids, *s.token_ids]
        gap = longest - len(line)
        ids.append(line + [0] * gap)
        labels.append([-100] * len(s.prompt_token_ids) + list(s.token_ids) + [-100] * gap)
        masks.append([1] * len(line) + [0] * gap)
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "attention_mask": torch.tensor(masks)}


def _trl_trainer(model: Any, kind: str) -> tuple[Any, Any]:
    """A trainer of TRL around the model; its own data, sampling and logging are not used."""
    import datasets
    from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

    from dpepo.config import ModelConfig
    from dpepo.policies.models import load_tokenizer

    tokenizer = load_tokenizer(ModelConfig(path="builtin:search-base"))
    workshop = tempfile.TemporaryDirectory()
    common = {"output_dir": workshop.name, "use_cpu": True, "bf16": False, "report_to": [], "gradient_checkpointing": False}
    if kind == "sft":
        data = datasets.Dataset.from_list([{"prompt": "a", "completion": "b"}])
        return SFTTrainer(model=model, args=SFTConfig(**common), train_dataset=data, processing_class=tokenizer), workshop
    data = datasets.Dataset.from_list([{"prompt": "a"}] * 8)
    settings = GRPOConfig(
        **common, beta=KL, epsilon=CLIP, loss_type="bnpo", temperature=1.0, per_device_train_batch_size=8, num_generations=8
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=data,
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train(False)
    return trainer, workshop


CONTESTANTS = {"dpepo": dpepo_step, "plain": plain_step, "trl": trl_step}


def measure(name: str, kind: str, file: Path, *, large: bool) -> dict[str, float]:
    """One contestant in this process."""
    from dpepo.types import TrainingSample

    samples = [TrainingSample.model_validate(entry) for entry in json.loads(file.read_text())]
    model = load_model(large)
    step = CONTESTANTS[name](model, samples, kind)
    with Peak() as peak:
        loss, norm = step()
        began = time.process_time()
        for _ in range(STEPS):
            step()
        seconds = (time.process_time() - began) / STEPS
    tokens = sum(len(s.prompt_token_ids) + len(s.token_ids) for s in samples)
    return {"seconds": seconds, "tokens_per_s": tokens / seconds, "memory": peak.mb, "loss": loss, "norm": norm}


def main() -> None:
    """Make samples, measure all contestants, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tasks", type=int, default=8, help="groups of 8 siblings")
    parser.add_argument("--large", action="store_true", help="a 100M-class model on 16 long samples")
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=["rl", "sft"], help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contestant:
        print(json.dumps(measure(asked.contestant, asked.kind, asked.samples, large=asked.large)))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.json"
        samples = long_samples(16) if asked.large else demo_samples(asked.tasks)
        file.write_text(json.dumps(samples))
        share = repeated_share(samples)
        equal, shared = share["in_equal_prompts"], share["in_shared_beginnings"]
        print(
            f"{share['samples']} samples, {share['prompt_tokens']} prompt and {share['reply_tokens']} reply tokens. "
            f"Of the prompt tokens {equal:.0%} stand in equal prompts and {shared:.0%} in shared beginnings: "
            f"computing each once could be at most {share['bound']:.2f} times faster per token\n"
        )
        print(
            "| step | contestant | tokens/s of CPU | dpepo is | memory MB | loss | gradient norm |\n"
            "|---|---|---|---|---|---|---|"
        )
        figures: dict[str, Any] = {"samples": share}
        for kind in ("rl", "sft"):
            found = {name: _run(name, kind, file, large=asked.large) for name in CONTESTANTS}
            for name, one in found.items():
                ratio = found["dpepo"]["tokens_per_s"] / one["tokens_per_s"]
                print(
                    f"| {kind} | {name} | {one['tokens_per_s']:.0f} | {ratio:.2f}x | {one['memory']:.0f} | {one['loss']:.6f} "
                    f"| {one['norm']:.5f} |",
                    flush=True,
                )
            figures[kind] = found
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))


def _run(name: str, kind: str, file: Path, *, large: bool) -> dict[str, float]:
    command = [
        sys.executable,
        __file__,
        "--contestant",
        name,
        "--kind",
        kind,
        "--samples",
        str(file),
        *(["--large"] if large else []),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{name} ({kind}) failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
