"""The commands of ``dpepo``. Each reads its words, hands them on, and lets `dpepo.cli.guard` speak when something is wrong."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dpepo import __version__
from dpepo.cli.compare import compare
from dpepo.cli.data import data
from dpepo.cli.envs import envs
from dpepo.cli.export import export
from dpepo.cli.guard import INTERRUPTED, guarded, terminate_like_interrupt
from dpepo.cli.jobs import load_job, own_command, read_request, run_job
from dpepo.cli.models import models
from dpepo.cli.play import play
from dpepo.cli.plot import plot
from dpepo.cli.preflight import check_packages, check_world
from dpepo.cli.progress import make_progress
from dpepo.cli.sweep import sweep
from dpepo.cli.table import table
from dpepo.cli.view import view
from dpepo.demo.worlds import find_demo
from dpepo.keys import key_rows
from dpepo.recipes import config_yaml

app = typer.Typer(
    name="dpepo",
    help="Train LLM agents that explore several copies of a task at once.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpepo {__version__}")
        raise typer.Exit


Items = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE.yaml] [KEY=VALUE]...", help="A recipe file, and settings that win over it.", show_default=False
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in run.dir.")]
Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]
Keys = Annotated[bool, typer.Option("--keys", help="List every key with its default and meaning instead.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong request, 130 interrupted and resumable."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # text of a model must not end a job in a terminal without Unicode
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dpepo")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    return 0


@app.callback()
def _options(version: Version = False) -> None:
    """Train LLM agents that explore several copies of a task at once."""


@app.command()
def synth(items: Items = None, resume: Resume = False, debug: Debug = False) -> None:
    """Record demonstrations for the cold start."""
    with guarded(debug=debug):
        run_job("synth", items or [], resume=resume)


@app.command()
def sft(items: Items = None, resume: Resume = False, debug: Debug = False) -> None:
    """Train a model on demonstrations (supervised)."""
    with guarded(debug=debug):
        run_job("sft", items or [], resume=resume)


@app.command()
def train(items: Items = None, resume: Resume = False, debug: Debug = False) -> None:
    """Improve a model by reinforcement learning."""
    with guarded(debug=debug):
        run_job("train", items or [], resume=resume)


@app.command("eval")
def evaluate(items: Items = None, resume: Resume = False, debug: Debug = False) -> None:
    """Measure how often a policy succeeds."""
    with guarded(debug=debug):
        run_job("eval", items or [], resume=resume)


app.command()(export)


@app.command()
def demo(
    world: Annotated[str, typer.Option("--world", help="scienceworld, or alfworld.")] = "scienceworld",
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Root of all randomness.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the demo in the run folder.")] = False,
    debug: Debug = False,
) -> None:
    """Teach a small model, from cold start to report, in ten minutes."""
    with guarded(debug=debug):
        find_demo(world)
        check_packages(("torch", "transformers"), extra="demo", needed_for="dpepo demo")
        check_world(world)
        progress = make_progress()
        try:
            with terminate_like_interrupt():
                job = load_job("dpepo.demo.pipeline:run_demo")
                result = job(out, world=world, seed=seed, resume=resume, progress=progress)
        except KeyboardInterrupt:
            progress.finish()
            again = f"{own_command()} demo --world {world} --out {shlex.quote(str(out))} --seed {seed} --resume"
            typer.echo(f"Interrupted. What is done is in {out}. Go on with: {again}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        finally:
            progress.finish()
        typer.echo(result.as_text(command=own_command()))


@app.command()
def config(items: Items = None, keys: Keys = False, debug: Debug = False) -> None:
    """Print what a recipe resolves to, defaults included."""
    with guarded(debug=debug):
        if keys:
            typer.echo("\n".join(["| key | default | meaning |", "|---|---|---|", *key_rows()]))
            return
        typer.echo(config_yaml(read_request(items or [])), nl=False)


app.command()(envs)
app.add_typer(data)
app.command()(models)
app.command()(play)
app.command()(plot)
app.command()(sweep)
app.command()(compare)
app.command()(table)
app.command()(view)
