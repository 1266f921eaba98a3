"""What the demo's report says in plain words, and the levels its numbers are compared with. Reads the run, writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from dpepo.config import Config
from dpepo.demo.worlds import DemoWorld
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import CurvePoint, Fact, ResultRow, Summary
from dpepo.training.rl import TrainResult

_WINDOW = 10  # RL steps that one training point of the curve is a mean of


def tell(
    run: RunFolder, *, demo: DemoWorld, rows: Sequence[ResultRow], config: Config, rl: TrainResult, minutes: float
) -> Summary:
    """The summary of a finished demo."""
    settings, trained = f"{run.path}/config.yaml", f"model.path={run.path}/checkpoints/rl"
    return Summary(
        title="dpepo demo: exploring copies of a task in parallel",
        subtitle=demo.subtitle,
        notes=demo.notes,
        curve=tuple(curve(run.read_metrics().rows, num_envs=config.env.num_envs, tasks=demo.dev_tasks)),
        curve_axis="RL step",
        table=tuple(rows),
        references=tuple(demo.levels(run)),
        facts=(
            Fact(name="seed", value=str(config.seed)),
            Fact(
                name="RL steps",
                value=f"{rl.steps}, each {config.train.tasks_per_step} tasks x {config.train.group_size} episodes",
            ),
            Fact(name="time of RL", value=f"{rl.minutes:.1f} min"),
            Fact(name="time of this session", value=f"{minutes:.1f} min"),
            Fact(name="algorithm", value=f"{config.algorithm.name}, step reward on the scale {config.step_reward.scale}"),
        ),
        commands=(
            f"dpepo view {run.path}",
            f"dpepo eval {settings} {trained} run.dir=runs/greedy eval.temperature=0",
            f"dpepo train {settings} {trained} run.dir=runs/more train.steps=50 seed=7",
        ),
    )


def curve(rows: Sequence[MetricsRow], *, num_envs: int, tasks: str) -> Iterator[CurvePoint]:
    """Success on dev tasks where it was measured, and on the tasks trained on as means over ten steps.

    Args:
        rows: Metrics of the whole run.
        num_envs: K.
        tasks: What the dev tasks are called.
    """
    steps = [row for row in rows if row.stage == "rl"]
    for row in steps:
        if "val/success_rate" in row.values:
            value, n = float(row.values["val/success_rate"] or 0.0), int(row.values["val/n"] or 0)
            yield CurvePoint(step=row.step, series=f"{tasks}, K = {num_envs}", value=value, n=n)
    played = [
        (row.step, float(row.values["episode/success_rate"] or 0.0)) for row in steps if "episode/success_rate" in row.values
    ]
    for start in range(0, len(played), _WINDOW):
        window = played[start : start + _WINDOW]
        value = fmean(rate for _, rate in window)
        yield CurvePoint(step=window[-1][0], series=f"while training, K = {num_envs} (mean of {_WINDOW} steps)", value=value)
