"""Run folders with real evaluations on the toy world, as the command line leaves them: for tables and comparisons."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.toy_jobs import Notes, open_run, toy_config

from dpepo.evaluation import evaluate, run_eval
from dpepo.rollout import play_settings
from dpepo.runs import RunFolder
from dpepo.runs.summary import ResultRow, Summary, write_summary
from dpepo.types import Episode, EpisodeView

LOST_TASKS = ("env.num_envs=1", "env.options.fail_at=1", "env.options.fault_action=open box", "tasks.eval.split=train")
"""Settings under which some of the toy world's episodes are lost to a broken environment."""


def evaluated(folder: Path, *settings: str) -> Path:
    """A finished run of ``dpepo eval`` by the random agent, unless the settings say otherwise."""
    config = toy_config(folder, "eval.policy=random", *settings)
    run = open_run(config, "eval")
    try:
        run.finish(run_eval(config, run=run, progress=Notes()).model_dump(mode="json"))
    finally:
        run.close()
    return folder


def several_stages(folder: Path) -> Path:
    """A run with two evaluations and a summary, as the demo leaves it."""
    from dpepo.envs import LocalPool, load_world
    from dpepo.rollout import cast_policy

    config = toy_config(folder, "eval.policy=random")
    run = open_run(config, "demo")
    rows = []
    with load_world("toy", config.env.options) as world, LocalPool(world) as pool:
        tasks = world.tasks("dev")[:10]
        for num_envs in (1, 2):
            stage = f"eval-rl-k{num_envs}"
            policy = cast_policy("random", tasks, config=config, pool=pool, key="eval.policy", ledger=folder / "usage.json")
            progress = Notes()
            episodes = evaluate(
                tasks,
                settings=play_settings(config, num_envs=num_envs, temperature=0.7),
                policy=policy,
                pool=pool,
                config=config,
                run=run,
                progress=progress,
                stage=stage,
            )
            rows.append(
                ResultRow(
                    label="after RL",
                    stage=stage,
                    split="dev",
                    num_envs=num_envs,
                    temperature=0.7,
                    max_turns=3,
                    successes=sum(episode.success for episode in episodes),
                    n=len(episodes),
                )
            )
    write_summary(folder, Summary(title="two evaluations", table=tuple(rows)))
    run.finish({})
    run.close()
    return folder


def episodes_in(folder: Path, stage: str = "eval") -> list[Episode]:
    """The episodes of a stage, all whole."""
    problems: list[str] = []
    found = [line.episode for line in RunFolder.open(folder).read_episodes(stage=stage, problems=problems)]
    assert problems == []
    return found


def change_run_file(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Edit run.json, as another version or a crash might have left it."""
    path = folder / "run.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def unfinished(folder: Path, *, keep: int) -> Path:
    """The run as a kill leaves it: some episodes, the next one cut in half, and no result."""
    [file] = (folder / "episodes").glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:keep]) + lines[keep][: len(lines[keep]) // 2])
    change_run_file(folder, lambda content: [session.pop("finished") for session in content["sessions"]])
    change_run_file(folder, lambda content: [session.pop("result") for session in content["sessions"]])
    return folder


def from_another_version(folder: Path) -> Path:
    """The run with a setting that this version does not know."""
    path = folder / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "teleport:\n  speed: 3\n", encoding="utf-8")
    return folder


def column(lines: Sequence[str], label: str) -> str:
    """The line of a printed table that begins with a label."""
    return next(line for line in lines if line.startswith(label))


class Idle:
    """An agent that never gets anywhere."""

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        return "<think>so</think><parallel><env_1>look</env_1></parallel>"
