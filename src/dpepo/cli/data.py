"""The commands ``dpepo data export`` and ``dpepo data import``: demonstrations as files for other trainers, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import describe, guarded, terminate_like_interrupt
from dpepo.cli.jobs import load_job, own_command, read_request
from dpepo.cli.preflight import check_world
from dpepo.cli.progress import make_progress
from dpepo.errors import ConfigError, TaskError
from dpepo.runs.rundir import RunFolder

data = typer.Typer(
    name="data",
    help="Write demonstrations for other trainers, and read what others wrote.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FORMATS_HELP = (
    "turns (a row per turn), conversations (a row per episode), trl, llamafactory-sharegpt, llamafactory-alpaca, ms-swift, "
    "or openrlhf."
)

Source = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a JSONL file of episodes.")]
Format = Annotated[str, typer.Option("--format", help=FORMATS_HELP)]
Out = Annotated[Path, typer.Option("--out", help="The file to write (.jsonl, .json, .parquet), or a folder for train.jsonl.")]
Stage = Annotated[
    str, typer.Option("--stage", help="Which episodes of the run, e.g. rl; by default its demonstrations.", show_default=False)
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Rows of dpepo, or conversations: .jsonl, .json or .parquet.")]
RunOut = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder to write, for sft.demonstrations.")]
Items = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE.yaml] [KEY=VALUE]...",
        help="The world whose tasks conversations name, e.g. env.world=alfworld, and further settings.",
        show_default=False,
    ),
]
Replay = Annotated[
    bool, typer.Option("--replay", help="Play conversations again in env.world; keep what succeeds, in prompts of dpepo.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


@data.command("export")
def export_command(run: Source, out: Out, format: Format = "turns", stage: Stage = "", debug: Debug = False) -> None:
    """Write episodes as rows that dpepo or another trainer reads."""
    with guarded(debug=debug):
        if not run.exists():
            raise TaskError(f"There is no {run}")
        typer.echo(str(load_job("dpepo.synthesis.formats:export_data")(run, format=format, out=out, stage=stage)))


@data.command("import")
def import_command(file: File, out: RunOut, items: Items = None, replay: Replay = False, debug: Debug = False) -> None:
    """Make demonstrations of rows: those of dpepo come back as they were, conversations of others as they are."""
    with guarded(debug=debug):
        if not file.is_file():
            raise TaskError(f"There is no file {file}")
        config = read_request([*(items or []), f"run.dir={out}"])
        if replay:
            if not items:
                raise ConfigError("--replay needs the world to play in. Try: env.world=alfworld")
            check_world(config.env.world)
        progress = make_progress()
        run = RunFolder.create(out, config=config, job="import")
        try:
            with terminate_like_interrupt():
                result = load_job("dpepo.synthesis.formats:import_data")(
                    config, source=file, run=run, progress=progress, resolve=bool(items), replay=replay
                )
        except BaseException as error:
            if not run.discard_unused():
                run.record(failed=describe(error) if isinstance(error, Exception) else "interrupted")
            raise
        finally:
            progress.finish()
            run.close()
        run.finish(result.model_dump(mode="json"))
        typer.echo(f"{result}\nRun folder: {out}\nLearn from it: {own_command()} sft sft.demonstrations={out}")
