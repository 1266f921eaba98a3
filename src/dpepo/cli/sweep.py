"""The command ``dpepo sweep``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import FAILED, INTERRUPTED, guarded, terminate_like_interrupt
from dpepo.cli.jobs import load_job, own_command
from dpepo.cli.preflight import check_packages, check_request
from dpepo.cli.progress import make_progress
from dpepo.config import Config
from dpepo.errors import RunFolderError
from dpepo.runs.files import write_atomic
from dpepo.sweep.plan import Plan, Unit, plan_sweep
from dpepo.sweep.results import as_text, collect, write_results
from dpepo.sweep.spec import load_sweep

SWEEP_FILE = "sweep.yaml"  # in the sweep's folder: the file as it was at the last start

File = Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="A sweep file, e.g. recipes/ablation.yaml.")]
More = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings for every run.", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", help="The sweep's folder.", show_default="runs/NAME_OF_THE_FILE")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time; more than one run in processes of their own.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Run only these and what they need, e.g. 'seed-0/*'; may be repeated."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the sweep in its folder; what is finished is not repeated.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs and start nothing.")]


def sweep(
    file: File,
    settings: More = None,
    out: Out = None,
    jobs: Jobs = 1,
    only: Only = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Run variants of a recipe over several seeds and compare them in one table."""
    with guarded(debug=debug):
        folder = Path("runs") / file.stem if out is None else out
        plan = plan_sweep(load_sweep(file, settings or ()), out=folder, only=only or ())
        if dry_run:
            typer.echo("\n".join(_listing(plan)))
            return
        _check(plan)
        _claim(plan, resume=resume)
        words = ["sweep", str(file), *(settings or ()), "--out", str(folder), "--resume"]
        _run(plan, jobs=jobs, command=words)


def _listing(plan: Plan) -> list[str]:
    units = [unit for unit in plan.units if unit.id in plan.selected]
    lines = [
        f"{unit.id}{'  (finished)' if unit.finished else ''}: {', '.join(run.folder.name for run in unit.runs)}"
        for unit in units
    ]
    left = sum(not run.finished for unit in units for run in unit.runs)
    return [*lines, f"{len(units)} runs of {sum(len(unit.runs) for unit in units)} jobs, {left} jobs to do, in {plan.out}"]


def _check(plan: Plan) -> None:
    """Refuse what cannot work before the first run starts; what differs in seed and folders only is checked once."""
    checked: set[str] = set()
    for unit in plan.units:
        for run in unit.runs if unit.id in plan.selected else ():
            config = _without_places(run.config, plan=plan, first=unit.runs[0].config)
            key = f"{run.job} {config.model_dump_json(exclude={'seed', 'run'})}"
            if run.job == "sft":  # its demonstrations are still to be made
                check_packages(("torch", "transformers"), extra="train", needed_for="dpepo sweep")
            elif key not in checked:
                check_request(run.job, config)
            checked.add(key)


def _without_places(config: Config, *, plan: Plan, first: Config) -> Config:
    """The configuration with the model that the sweep starts from, in the place of one that it is still to make."""
    if not Path(config.model.path).is_relative_to(plan.out):
        return config
    start = next((run.config.model for unit in plan.units for run in unit.runs if run.job == "sft"), first.model)
    return config.model_copy(update={"model": config.model.model_copy(update={"path": start.path})})


def _claim(plan: Plan, *, resume: bool) -> None:
    kept = plan.out / SWEEP_FILE
    if kept.exists() and not resume:
        raise RunFolderError(f"The folder {plan.out} already holds a sweep. Choose another one with --out, or go on: --resume")
    if not kept.exists() and plan.out.is_dir() and any(plan.out.iterdir()):
        raise RunFolderError(f"The folder {plan.out} is not empty and holds no sweep. Choose another one: --out")
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, plan.sweep.text)
    except OSError as error:
        raise RunFolderError(f"Cannot write the folder {plan.out}: {error.strerror or error}. Try: --out") from None


def _run(plan: Plan, *, jobs: int, command: Sequence[str]) -> None:
    progress = make_progress()

    done = {unit.id for unit in plan.units if unit.id not in plan.selected and unit.finished}

    def on_unit(unit: Unit) -> None:
        done.add(unit.id)
        write_results(collect(plan, done), plan.out)

    try:
        with terminate_like_interrupt():
            if jobs == 1:
                failures = load_job("dpepo.sweep.runner:run_units")(plan, progress=progress, on_unit=on_unit)
            else:
                own = [sys.executable, "-m", "dpepo", *command]
                run = load_job("dpepo.sweep.runner:run_in_processes")
                failures = run(plan, jobs=jobs, command=own, progress=progress, on_unit=on_unit)
    except KeyboardInterrupt:
        progress.finish()
        again = f"{own_command()} {shlex.join(command)}" + (f" --jobs {jobs}" if jobs > 1 else "")
        typer.echo(f"Interrupted. What is done is in {plan.out}. Go on with: {again}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        progress.finish()
    results = collect(plan, done)
    write_results(results, plan.out)
    typer.echo(as_text(results) if results.results else "No variant is finished.")
    typer.echo(f"Table: {plan.out / 'results.md'} (numbers: results.csv, results.json)")
    if failures:
        for failure in failures:
            typer.echo(f"{failure.unit} failed: {failure.reason}", err=True)
        raise typer.Exit(FAILED)
