"""The command ``dpepo export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.cli.jobs import load_job
from dpepo.cli.preflight import check_packages
from dpepo.errors import ConfigError

Source = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint, or a model or adapter folder.")]
Merge = Annotated[bool, typer.Option("--merge", help="Add the LoRA adapter to its base model and write a whole model.")]
CheckpointName = Annotated[
    str, typer.Option("--checkpoint", metavar="STEP", help="A step, best, or latest.", show_default="latest")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The folder to write; by default beside RUN.")]
Base = Annotated[str, typer.Option("--base", help="The adapter's base model, where it is not found under its name.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float32 or bfloat16.", show_default="as the base model is stored")]


def export(
    run: Source,
    merge: Merge = False,
    checkpoint: CheckpointName = "",
    out: Out = None,
    base: Base = "",
    dtype: Dtype = "",
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Write a trained model as a standard folder that transformers or PEFT loads."""
    with guarded(debug=debug):
        if dtype not in ("", "float32", "bfloat16"):
            raise ConfigError(f"--dtype: {dtype!r} is neither float32 nor bfloat16")
        check_packages(("torch", "transformers", "peft"), extra="train", needed_for="dpepo export")
        job = load_job("dpepo.training.export:export_model")
        typer.echo(str(job(run, out=out, merge=merge, checkpoint=checkpoint, base=base, dtype=dtype)))
