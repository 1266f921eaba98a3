"""Run folders with sample episodes in them: what tests of pictures are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.sample_episodes import lifespan_episode, write_sample_run

from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode

WORLD = ("env.world=scienceworld", "tasks.eval.split=test")


def play(num_envs: int, *, skill: float, seed: int = 0, tasks: int = 10, tries: int = 2) -> list[Episode]:
    """Episodes of several tries at several tasks."""
    return [
        lifespan_episode(variation, skill=skill, num_envs=num_envs, seed=seed, sibling=number, split="test")
        for variation in range(tasks)
        for number in range(tries)
    ]


def eval_run(path: Path, episodes: Iterable[Episode], *settings: str, finished: bool = True) -> Path:
    """A run of ``dpepo eval``."""
    config = load_config(None, [*WORLD, *settings, f"run.dir={json.dumps(str(path))}"])
    run = RunFolder.create(path, config=config, job="eval")
    run.write_episodes("eval", 0, episodes)
    if finished:
        run.finish({})
    run.close()
    return path


def train_run(path: Path, rows: Sequence[Mapping[str, float]], *settings: str) -> Path:
    """A run of ``dpepo train`` that has recorded these numbers, a row per step."""
    config = load_config(None, [*WORLD, *settings, f"run.dir={json.dumps(str(path))}"])
    run = RunFolder.create(path, config=config, job="train")
    for step, row in enumerate(rows, start=1):
        run.metrics.log("rl", step, row)
    run.finish({})
    return path


def learning_rows(values: Sequence[float], *, n: int = 20) -> list[dict[str, float]]:
    """Success and times per step."""
    times = {"timing_s/sample": 2.0, "timing_s/env": 1.0, "timing_s/rollout": 3.5, "timing_s/update": 4.0}
    return [{"episode/success_rate": value, "episode/n": float(n), **times} for value in values]


def demo_run(path: Path) -> Path:
    """A finished demo with its evaluations and its summary."""
    run = RunFolder.create(path, config=load_config(None, [*WORLD, f"run.dir={json.dumps(str(path))}"]), job="demo")
    for step, row in enumerate(learning_rows([0.2, 0.4, 0.6]), start=1):
        run.metrics.log("rl", step, row)
    run.finish({})
    write_sample_run(path, groups=1, extras=False)
    return path


SWEEP = """
title: Sample
settings: [env.world=scienceworld, tasks.eval.split=test]
seeds: [0, 1]
cold_starts: {shared: []}
variants:
  - {name: sft, label: cold start only, train: false}
  - {name: k1, label: "DPEPO, K = 1", settings: [env.num_envs=1]}
  - {name: dpepo, label: "DPEPO, K = 4"}
evaluate:
  - {name: as-trained, label: K as trained}
"""


def sweep_folder(path: Path, *, unfinished: Sequence[str] = ()) -> Path:
    """A sweep of three variants with two seeds; of the named units the evaluation has not ended."""
    path.mkdir(parents=True)
    (path / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    for name, num_envs, skill in (("sft", 4, 0.1), ("k1", 1, 0.3), ("dpepo", 4, 0.5)):
        for seed in (0, 1):
            folder = path / f"seed-{seed}" / name
            settings = (f"seed={seed}", f"env.num_envs={num_envs}", "model.path=builtin:search-base")
            if name != "sft":
                train_run(folder / "train", learning_rows([0.1 + 0.1 * seed, 0.5 + 0.1 * seed]), *settings)
            episodes = play(num_envs, skill=skill, seed=seed)
            done = f"seed-{seed}/{name}" not in unfinished
            eval_run(folder / "eval-as-trained", episodes, *settings, finished=done)
    return path
