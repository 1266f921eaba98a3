"""Runs the units of a sweep: one after the other in this process, or several at a time in processes of their own."""

from __future__ import annotations

import importlib
import os
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from dpepo.config import Config, EnvConfig
from dpepo.envs import EnvPool, make_pool
from dpepo.errors import DpepoError
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.sweep.plan import Plan, PlannedRun, Unit

LOG_FILE = "log.txt"  # in a unit's folder: what its own process said
_JOBS = {  # imported when one is due: a sweep without training needs no torch
    "synth": "dpepo.synthesis.job:run_synth",
    "sft": "dpepo.training.sft:run_sft",
    "train": "dpepo.training.rl:run_train",
    "eval": "dpepo.evaluation.job:run_eval",
}
_POLL_S = 0.2

OnUnit = Callable[[Unit], None]


class Failure(NamedTuple):
    """A unit that did not come to its end."""

    unit: str
    reason: str


class _Pools:
    """The environments of the runs, kept from one run to the next as long as they fit."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._pools: dict[str, EnvPool] = {}

    def get(self, config: EnvConfig) -> EnvPool:
        key = config.model_dump_json(exclude={"num_envs"})
        if key not in self._pools:
            self._pools[key] = self._stack.enter_context(make_pool(config))
        return self._pools[key]


def run_units(plan: Plan, *, progress: Progress, on_unit: OnUnit) -> list[Failure]:
    """Run what is selected and not yet finished, in this process.

    A unit that fails is noted and the others go on.

    Args:
        plan: What to run.
        progress: Shows each job, as if it ran alone.
        on_unit: Called after every unit that is finished, those of earlier sessions included.

    Returns:
        The units that failed, or could not begin because one they need failed.
    """
    units = {unit.id: unit for unit in plan.units}
    failures: dict[str, Failure] = {}
    with ExitStack() as stack:
        pools = _Pools(stack)
        for place, name in enumerate(plan.selected, start=1):
            unit = units[name]
            if unit.needs in failures:
                failures[name] = Failure(name, f"it needs {unit.needs}, which failed")
                continue
            try:
                if not unit.finished:
                    progress.note(f"{name} ({place} of {len(plan.selected)})")
                    _run_unit(unit, pools=pools, progress=progress)
                on_unit(unit)
            except Exception as error:  # one variant that fails must not cost the others their night
                progress.finish()
                failures[name] = Failure(name, _reason(error))
                progress.note(f"{name} failed: {failures[name].reason}")
    return list(failures.values())


def _run_unit(unit: Unit, *, pools: _Pools, progress: Progress) -> None:
    for planned in unit.runs:
        if not planned.finished:
            _run_job(planned, pools=pools, progress=progress)


def _run_job(planned: PlannedRun, *, pools: _Pools, progress: Progress) -> None:
    """One job in its run folder, with the notes that a command would leave there."""
    run = RunFolder.create(planned.folder, config=planned.config, job=planned.job)
    run.notes_to(progress.note)
    try:
        result = _load(planned.job)(planned.config, run=run, progress=progress, **_pool(planned, pools))
        run.finish({} if result is None else result.model_dump(mode="json"))
    except KeyboardInterrupt:
        run.record(interrupted=True)
        raise
    except Exception as error:
        run.record(failed=_reason(error))
        if not isinstance(error, DpepoError):
            text = "".join(traceback.format_exception(error))
            (run.path / "error.txt").write_text(text, encoding="utf-8", errors="replace")
        raise
    finally:
        run.close()


def _load(job: str) -> Callable[..., Any]:
    module, _, name = _JOBS[job].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def _pool(planned: PlannedRun, pools: _Pools) -> dict[str, EnvPool]:
    """The environments a job plays in; fine-tuning alone needs none."""
    config: Config = planned.config
    return {} if planned.job == "sft" and not config.sft.eval_every else {"pool": pools.get(config.env)}


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, DpepoError) else f"{type(error).__name__}: {error}"


def run_in_processes(plan: Plan, *, jobs: int, command: Sequence[str], progress: Progress, on_unit: OnUnit) -> list[Failure]:
    """Run what is selected and not yet finished, several units at a time, each in a process of its own.

    Args:
        plan: What to run.
        jobs: Processes at a time, at least 1.
        command: Runs the sweep's units in one process when ``--only ID`` is added to it.
        progress: Counts finished units.
        on_unit: Called after every unit that is finished.

    Returns:
        The units that failed, or could not begin because one they need failed.
    """
    waiting = [unit for unit in plan.units if unit.id in plan.selected]
    running: dict[str, subprocess.Popen[bytes]] = {}
    units = {unit.id: unit for unit in waiting}
    done: set[str] = set()
    failures: dict[str, Failure] = {}
    progress.start("sweep", total=len(waiting), unit="runs")
    try:
        while waiting or running:
            for unit in [unit for unit in waiting if not unit.needs or unit.needs in done or unit.needs in failures]:
                if unit.needs in failures:
                    failures[unit.id] = Failure(unit.id, f"it needs {unit.needs}, which failed")
                elif unit.finished:
                    done.add(unit.id)
                    on_unit(unit)
                    progress.skip(1)
                elif len(running) < jobs:
                    running[unit.id] = _start(unit, plan=plan, command=command)
                else:
                    continue
                waiting.remove(unit)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                process, unit = running.pop(name), units[name]
                if process.returncode == 0 and unit.finished:
                    done.add(name)
                    on_unit(unit)
                else:
                    failures[name] = Failure(name, f"exit code {process.returncode}; see {plan.out / name / LOG_FILE}")
                    progress.note(f"{name} failed: {failures[name].reason}")
                progress.advance(1)
            time.sleep(_POLL_S)
    finally:
        _stop(list(running.values()))
    progress.finish()
    return list(failures.values())


def _start(unit: Unit, *, plan: Plan, command: Sequence[str]) -> subprocess.Popen[bytes]:
    folder = plan.out / unit.id
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            [*command, "--only", unit.id], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ)
        )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes politely, so that their run folders can be gone on with, and wait for them."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()
