"""The stages of the demo: demonstrations, SFT, evaluation, RL, evaluation again, pages.

Every stage is the ordinary job of the same name on the demo's recipe, and goes on where an interrupted one stopped.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from dpepo.config import Config, TaskSelection
from dpepo.demo.story import tell
from dpepo.demo.worlds import DemoWorld
from dpepo.envs import EnvPool, load_world, make_pool, select_tasks
from dpepo.evaluation import EvalResult, evaluate, summarise
from dpepo.figures.inside_report import report_figures
from dpepo.rollout import load_policy, play_settings
from dpepo.runs.progress import Progress
from dpepo.runs.report import write_report
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import ResultRow, Summary, write_summary
from dpepo.runs.viewer import write_viewer
from dpepo.synthesis import run_synth
from dpepo.training.rl import run_train
from dpepo.training.sft import run_sft

BEFORE, AFTER = "after cold start", "after RL"
_POLICY = {BEFORE: "sft", AFTER: "rl"}  # as it stands in stage names


class Cell(NamedTuple):
    """One way of playing that is evaluated before and after RL."""

    held_out: bool  # tasks that nothing was trained on, or those that were trained on
    num_envs: int  # K
    temperature: float
    episodes_per_task: int
    tries: tuple[int, ...] = (1,)  # k of the pass@k that are shown


CELLS = (
    Cell(True, 4, 1.0, 4),
    Cell(True, 1, 1.0, 4, tries=(1, 4)),
    Cell(True, 4, 0.0, 1),
    Cell(True, 1, 0.0, 1),
    Cell(False, 4, 1.0, 2),
    Cell(False, 1, 1.0, 2),
)


def play_stages(config: Config, *, demo: DemoWorld, run: RunFolder, progress: Progress, began: float) -> tuple[Path, Summary]:
    """Run all stages, or what is left of them.

    Args:
        config: The demo's recipe.
        demo: Which demo it is.
        run: The demo's folder.
        progress: Who shows how far it is.
        began: When this session began, by the monotonic clock.

    Returns:
        The report page, and what it says.
    """
    with make_pool(config.env) as pool:
        run_synth(config, run=run, progress=progress, pool=pool)
        sft = run_sft(config, run=run.part("sft"), progress=progress)
        trained = _with_model(config, sft.checkpoint)
        rows = _evaluate(trained, demo=demo, label=BEFORE, run=run, progress=progress, pool=pool)
        rl = run_train(trained, run=run.part("rl"), progress=progress, pool=pool)
        rows += _evaluate(_with_model(config, rl.checkpoint), demo=demo, label=AFTER, run=run, progress=progress, pool=pool)
    summary = tell(run, demo=demo, rows=rows, config=config, rl=rl, minutes=(time.monotonic() - began) / 60.0)
    write_summary(run.path, summary)
    write_viewer(run.path)
    return write_report(run.path, figures=report_figures(run.path)), summary


def stage_name(label: str, split: str, cell: Cell) -> str:
    """The stage that an evaluation's episodes are kept under, e.g. "eval-rl-test-k4-t1"."""
    return f"eval-{_POLICY[label]}-{split}-k{cell.num_envs}-t{cell.temperature:g}"


def _with_model(config: Config, checkpoint: str) -> Config:
    return config.model_copy(update={"model": config.model.model_copy(update={"path": checkpoint})})


def _evaluate(
    config: Config, *, demo: DemoWorld, label: str, run: RunFolder, progress: Progress, pool: EnvPool
) -> list[ResultRow]:
    """All cells with one policy; held-out tasks are played here and nowhere else."""
    rows: list[ResultRow] = []
    policy = load_policy(config.model, sampling=config.sampling)
    with load_world(config.env.world, config.env.options) as world:
        for cell in CELLS:
            split = demo.held_out if cell.held_out else config.tasks.train.split
            selection = TaskSelection(names=config.tasks.train.names, split=split, limit=config.tasks.eval.limit)
            tasks = select_tasks(world, selection, seed=config.seed)
            per_task, stage = cell.episodes_per_task, stage_name(label, split, cell)
            progress.start(f"evaluate {label}: {_how(split, cell)}", total=len(tasks) * per_task, unit="episodes")
            episodes = evaluate(
                tasks,
                settings=play_settings(
                    config, num_envs=cell.num_envs, temperature=cell.temperature, over_limit=config.eval.over_limit
                ),
                policy=policy,
                pool=pool,
                config=config.model_copy(update={"eval": config.eval.model_copy(update={"episodes_per_task": per_task})}),
                run=run,
                progress=progress,
                stage=stage,
            )
            progress.finish()
            result = summarise(episodes)
            shown = ResultRow(
                label=label,
                stage=stage,
                split=demo.split_names[split],
                num_envs=cell.num_envs,
                temperature=cell.temperature,
                max_turns=config.rollout.max_turns,
                successes=result.successes,
                n=result.n,
                lost=result.lost,
            )
            rows += _rows(shown, result, tries=cell.tries, num_tasks=len(tasks))
    return rows


def _how(split: str, cell: Cell) -> str:
    return f"{split}, K = {cell.num_envs}, {f'temperature {cell.temperature:g}' if cell.temperature else 'greedy'}"


def _rows(shown: ResultRow, result: EvalResult, *, tries: tuple[int, ...], num_tasks: int) -> list[ResultRow]:
    """A row per k of pass@k; with k tries, n counts tasks."""
    best = {k: {"tries": k, "successes": round(result.pass_at.get(k, 0.0) * num_tasks), "n": num_tasks} for k in tries if k > 1}
    return [shown.model_copy(update=best.get(k, {})) for k in tries]
