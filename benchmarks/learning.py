"""One optimiser step on turn-level samples: dpepo beside a plain padded batch and TRL's losses, on identical token ids.

    python benchmarks/learning.py [--large] [--long] [--tokens 16384] [--tasks 8] [--json FILE]

Samples are real: groups of the demo's recipe, played in ScienceWorld by the base model that ships with dpepo. ``--large``
takes the first 16 of them and a 100M-class model with random weights, ``--long`` the same model and 16 long prompts instead,
the oracle's turns with full observations. Every contestant runs in a fresh process on one thread in float32 and may have
``--tokens`` tokens in one forward pass, padding included. It makes one step to warm up and then more; CPU seconds are those of
the process, memory is the most it grew during the steps, gradients and the optimiser's moments included.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).parents[1] / "src" / "dpepo" / "demo" / "lifespan.yaml"
FEW = 16  # samples for the large model and of long prompts


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


def measure(name: str, kind: str, file: Path, *, large: bool, tokens: int, steps: int, gradient: Path) -> dict[str, float]:
    """One contestant in this process."""
    from learning_contestants import CONTESTANTS, load_model, save_gradient

    from dpepo.types import TrainingSample

    samples = [TrainingSample.model_validate(entry) for entry in json.loads(file.read_text())]
    step = CONTESTANTS[name](load_model(large=large), samples, kind=kind, tokens=tokens)
    with Peak() as peak:
        loss = save_gradient(step, gradient)
        began = time.process_time()
        for _ in range(steps):
            step()
        seconds = (time.process_time() - began) / steps
    total = sum(len(s.prompt_token_ids) + len(s.token_ids) for s in samples)
    return {"seconds": seconds, "tokens_per_s": total / seconds, "memory": peak.mb, "loss": loss}


def make_samples(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Samples of the kind asked for, with log-probabilities of the model that is trained."""
    if asked.samples and asked.samples.exists():
        return json.loads(asked.samples.read_text())  # type: ignore[no-any-return]
    samples = long_samples(FEW) if asked.long else demo_samples(asked.tasks)
    if asked.large:
        samples = samples[:FEW]
    if asked.large:
        from learning_contestants import load_model, own_logprobs

        from dpepo.types import TrainingSample

        parsed = [TrainingSample.model_validate(entry) for entry in samples]
        samples = _numbered(own_logprobs(load_model(large=asked.large), parsed))
    if asked.samples:
        asked.samples.write_text(json.dumps(samples))
    return samples


def main() -> None:
    """Make samples, measure all contestants, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--tasks", type=int, default=8, help="groups of 8 siblings")
    parser.add_argument("--large", action="store_true", help=f"a 100M-class model, on {FEW} samples")
    parser.add_argument("--long", action="store_true", help=f"the same on {FEW} long prompts instead of the demo's")
    parser.add_argument("--tokens", type=int, default=16_384, help="of a forward pass, padding included; actor.micro_tokens")
    parser.add_argument("--steps", type=int, default=3, help="measured, after one to warm up")
    parser.add_argument("--samples", type=Path, help="where samples are kept for another run")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=["rl", "sft"], help="of step; default: both")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.large |= asked.long  # the small model has no words for them
    if asked.contestant:
        gradient = asked.folder / asked.contestant
        given = {"large": asked.large, "tokens": asked.tokens, "steps": asked.steps}
        print(json.dumps(measure(asked.contestant, asked.kind, asked.folder / "samples.json", **given, gradient=gradient)))
        return
    from learning_contestants import compare_gradients

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = make_samples(asked)
        (folder / "samples.json").write_text(json.dumps(samples))
        figures["samples"] = share = repeated_share(samples)
        print(_described(share, tokens=asked.tokens))
        print("\n".join(TABLE), flush=True)
        for kind in [asked.kind] if asked.kind else ["rl", "sft"]:
            figures[kind] = {one: _run(one, kind, folder, asked) for one in ("plain", "trl", "dpepo")}
            for one, found in figures[kind].items():
                found |= compare_gradients(folder / one, folder / "plain")
                print(_line(kind, one, figures[kind]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))


TABLE = (
    "| step | contestant | tokens/s of CPU | dpepo is | peak MB | of plain | loss | gradient norm | gradient off by at most |",
    "|---|---|---|---|---|---|---|---|---|",
)


def _described(share: dict[str, float], *, tokens: int) -> str:
    return (
        f"{share['samples']} samples, {share['prompt_tokens']} prompt and {share['reply_tokens']} reply tokens, forward passes "
        f"of at most {tokens} tokens. Of the prompt tokens {share['in_equal_prompts']:.0%} stand in equal prompts and "
        f"{share['in_shared_beginnings']:.0%} in shared beginnings: computing each once could be at most {share['bound']:.2f} "
        "times faster per token\n"
    )


def _line(kind: str, name: str, found: dict[str, dict[str, float]]) -> str:
    one, plain = found[name], found["plain"]
    cells = (
        f"{one['tokens_per_s']:.0f}",
        f"{found['dpepo']['tokens_per_s'] / one['tokens_per_s']:.2f}x",
        f"{one['memory']:.0f}",
        f"{one['memory'] / plain['memory']:.2f}",
        f"{one['loss']:.6f}",
        f"{one['norm']:.5f}",
        f"{one['difference']:.1e}",
    )
    return f"| {kind} | {name} | {' | '.join(cells)} |"


def _run(name: str, kind: str, folder: Path, asked: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--contestant", name, "--kind", kind, "--folder", str(folder)]
    command += ["--tokens", str(asked.tokens), "--steps", str(asked.steps), *(["--large"] if asked.large else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{name} ({kind}) failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
