"""The demo from cold start to report: demonstrations, SFT, evaluation, RL, evaluation again, in one run folder.

Every stage is the ordinary job of the same name, run on ``lifespan.yaml``; each goes on where an interrupted one stopped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dpepo.config import Config, TaskSelection
from dpepo.demo.story import tell
from dpepo.envs import load_world, make_pool, select_tasks
from dpepo.evaluation import EvalResult, evaluate, summarise
from dpepo.recipes import load_config
from dpepo.rollout import load_policy, play_settings
from dpepo.runs.progress import Progress
from dpepo.runs.report import write_report
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import ResultRow, Summary, write_summary
from dpepo.runs.viewer import write_viewer
from dpepo.synthesis import run_synth
from dpepo.training.rl import run_train
from dpepo.training.sft import run_sft
from dpepo.types import Record

RECIPE = Path(__file__).with_name("lifespan.yaml")
BEFORE, AFTER = "after cold start", "after RL"


class Cell(NamedTuple):
    """One way of playing that is evaluated before and after RL."""

    split: str
    num_envs: int  # K
    temperature: float
    episodes_per_task: int
    tries: tuple[int, ...] = (1,)  # k of the pass@k that are shown


CELLS = (
    Cell("test", 4, 1.0, 4),
    Cell("test", 1, 1.0, 4, tries=(1, 4)),
    Cell("test", 4, 0.0, 1),
    Cell("test", 1, 0.0, 1),
    Cell("train", 4, 1.0, 2),
    Cell("train", 1, 1.0, 2),
)
SPLIT_NAMES = {"test": "held-out variations (test)", "train": "training variations"}


class DemoResult(Record):
    """What the demo brought."""

    run: str  # the folder
    report: str  # the page to open
    rows: tuple[ResultRow, ...]
    commands: tuple[str, ...]  # to try next
    minutes: float  # of this session


def run_demo(out: Path, *, seed: int, resume: bool, progress: Progress) -> DemoResult:
    """Run the demo, or go on with it.

    Args:
        out: The run folder.
        seed: Root of all randomness.
        resume: Go on with the demo in the folder instead of refusing it.
        progress: Who shows how far it is.

    Raises:
        RequestError: The folder holds something else, or ScienceWorld cannot be used here.
    """
    began = time.monotonic()
    overrides = [f"seed={seed}", f"run.dir={out}", f"run.resume={str(resume).lower()}", f"sft.demonstrations={out}"]
    config = load_config(RECIPE, overrides)
    run = RunFolder.create(out, config=config, job="demo")
    try:
        run_synth(config, run=run, progress=progress)
        sft = run_sft(config, run=run.part("sft"), progress=progress)
        rows = _evaluate(_with_model(config, sft.checkpoint), label=BEFORE, run=run, progress=progress)
        rl = run_train(_with_model(config, sft.checkpoint), run=run.part("rl"), progress=progress)
        rows += _evaluate(_with_model(config, rl.checkpoint), label=AFTER, run=run, progress=progress)
        minutes = (time.monotonic() - began) / 60.0
        summary = tell(run, rows=rows, config=config, rl=rl, minutes=minutes)
        result = _write_pages(run, summary=summary, minutes=minutes)
        run.finish({row.label + " " + stage_name(row): row.rate for row in rows})
        return result
    finally:
        run.close()


def stage_name(row: ResultRow) -> str:
    """The stage of a row's episodes, without the policy: e.g. "test-k4-t1.0"."""
    return row.stage.partition("-")[2].partition("-")[2]


def _with_model(config: Config, checkpoint: str) -> Config:
    model = config.model.model_copy(update={"path": str(Path(checkpoint) / "model")})
    return config.model_copy(update={"model": model})


def _evaluate(config: Config, *, label: str, run: RunFolder, progress: Progress) -> list[ResultRow]:
    """All cells with one policy; held-out variations are played here and nowhere else."""
    which = {BEFORE: "sft", AFTER: "rl"}[label]
    rows: list[ResultRow] = []
    policy = load_policy(config.model, sampling=config.sampling)
    with load_world(config.env.world, config.env.options) as world, make_pool(config.env) as pool:
        for cell in CELLS:
            names = config.tasks.train.names
            tasks = select_tasks(world, TaskSelection(names=names, split=cell.split), seed=config.seed)
            evaluation = config.eval.model_copy(update={"episodes_per_task": cell.episodes_per_task})
            stage = f"eval-{which}-{cell.split}-k{cell.num_envs}-t{cell.temperature:g}"
            progress.start(
                f"evaluate {label}, K = {cell.num_envs}, {cell.split}",
                total=len(tasks) * cell.episodes_per_task,
                unit="episodes",
            )
            episodes = evaluate(
                tasks,
                settings=play_settings(
                    config, num_envs=cell.num_envs, temperature=cell.temperature, over_limit=config.eval.over_limit
                ),
                policy=policy,
                pool=pool,
                config=config.model_copy(update={"eval": evaluation}),
                run=run,
                progress=progress,
                stage=stage,
            )
            progress.finish()
            rows += _rows(
                summarise(episodes), cell, label=label, stage=stage, max_turns=config.rollout.max_turns, num_tasks=len(tasks)
            )
    return rows


def _rows(result: EvalResult, cell: Cell, *, label: str, stage: str, max_turns: int, num_tasks: int) -> list[ResultRow]:
    rows = []
    for tries in cell.tries:
        plain = tries == 1
        solved = round(result.pass_at.get(tries, 0.0) * num_tasks)
        rows.append(
            ResultRow(
                label=label,
                stage=stage,
                split=SPLIT_NAMES[cell.split],
                num_envs=cell.num_envs,
                tries=tries,
                temperature=cell.temperature,
                max_turns=max_turns,
                successes=result.successes if plain else solved,
                n=result.n if plain else num_tasks,
                lost=result.lost,
            )
        )
    return rows


def _write_pages(run: RunFolder, *, summary: Summary, minutes: float) -> DemoResult:
    write_summary(run.path, summary)
    write_viewer(run.path)
    report = write_report(run.path)
    return DemoResult(run=str(run.path), report=str(report), rows=summary.table, commands=summary.commands, minutes=minutes)


def table_rows(rows: Sequence[ResultRow]) -> list[tuple[str, str, str]]:
    """The before/after table as text: how it was played, before, after, each with its 95 % interval and n."""
    before = [row for row in rows if row.label == BEFORE]
    after = [row for row in rows if row.label == AFTER]
    return [(_how(b), _rate(b), _rate(a)) for b, a in zip(before, after, strict=True)]


def _how(row: ResultRow) -> str:
    sampling = "greedy" if row.temperature == 0 else f"temperature {row.temperature:g}"
    tries = "" if row.tries == 1 else f", pass@{row.tries}"
    return f"{row.split}, K = {row.num_envs}{tries}, {sampling}"


def _rate(row: ResultRow) -> str:
    from dpepo.runs.stats import wilson_interval

    low, high = wilson_interval(row.successes, row.n)
    return f"{row.successes / max(1, row.n):.3f} [{low:.2f}, {high:.2f}] n={row.n}"
