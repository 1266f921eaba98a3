"""Running a job from the command line: read the request, check it, open the run folder, and only then import the job."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from dpepo.cli.guard import INTERRUPTED, describe, terminate_like_interrupt, write_traceback
from dpepo.cli.preflight import check_request
from dpepo.cli.progress import make_progress
from dpepo.config import Config
from dpepo.errors import ConfigError, DpepoError, RequestError
from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder

JOBS = {
    "synth": "dpepo.synthesis.job:run_synth",
    "sft": "dpepo.training.sft:run_sft",
    "train": "dpepo.training.rl:run_train",
    "eval": "dpepo.evaluation.job:run_eval",
}


def read_request(items: Sequence[str], *, resume: bool = False) -> Config:
    """Take the words after a command apart: at most one recipe file, any number of ``section.key=value``.

    Raises:
        ConfigError: There are two recipes, or a setting is wrong.
    """
    recipes = [item for item in items if "=" not in item]
    if len(recipes) > 1:
        raise ConfigError(
            f"Only one recipe can be read at a time, got {' and '.join(recipes)}. Settings have the form key=value."
        )
    overrides = [item for item in items if "=" in item] + (["run.resume=true"] if resume else [])
    return load_config(Path(recipes[0]) if recipes else None, overrides)


def run_job(job: str, items: Sequence[str], *, resume: bool) -> None:
    """Run one job to its end; errors leave as exceptions for `dpepo.cli.guard`.

    Args:
        job: A key of `JOBS`.
        items: Recipe and overrides as typed.
        resume: Go on with the run in the folder.
    """
    config = read_request(items, resume=resume)
    check_request(job, config)
    run = RunFolder.create(Path(config.run.dir), config=config, job=job)
    progress = make_progress()
    run.notes_to(progress.note)
    try:
        with terminate_like_interrupt():
            result = load_job(JOBS[job])(config, run=run, progress=progress)
    except KeyboardInterrupt:
        progress.finish()
        run.record(interrupted=True)
        typer.echo(f"Interrupted. What is done is in {run.path}. Go on with: {_again(job, items)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        progress.finish()
        if not (isinstance(error, RequestError) and run.discard_unused()):
            run.record(failed=describe(error))
        if not isinstance(error, DpepoError):
            write_traceback(error, run.path / "error.txt")
        raise
    finally:
        progress.finish()
        run.close()
    run.finish(_plain(result))
    if result is not None:
        typer.echo(str(result))
    typer.echo(f"Run folder: {run.path}\nRead its episodes: {own_command()} view {shlex.quote(str(run.path))}")


def load_job(path: str) -> Callable[..., Any]:
    """Import a job by ``module:function``; this is where torch and friends come in."""
    module, _, function = path.partition(":")
    job: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return job


def own_command() -> str:
    """How this program is started here, for commands that a person can copy: not every shell finds ``dpepo``."""
    if shutil.which("dpepo") is not None or Path(sys.argv[0]).name != "dpepo":
        return "dpepo"
    return shlex.quote(os.path.relpath(sys.argv[0]))


def _again(job: str, items: Sequence[str]) -> str:
    return f"{own_command()} {shlex.join([job, *items, '--resume'])}"


def _plain(result: Any) -> Mapping[str, Any]:
    """A job's result as JSON values for run.json."""
    if hasattr(result, "model_dump"):
        return dict(result.model_dump(mode="json"))
    if hasattr(result, "_asdict"):
        return dict(result._asdict())
    return {} if result is None else {"result": str(result)}
