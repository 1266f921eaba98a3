"""The command ``dpepo compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.cli.jobs import load_job
from dpepo.errors import RequestError

One = Annotated[str, typer.Argument(metavar="A", help="A run folder with an evaluation; RUN#STAGE where it holds several.")]
Other = Annotated[str, typer.Argument(metavar="B", help="The other one.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the resampling, where tasks were played several times.")]
Format = Annotated[str, typer.Option("--format", help="text or json.")]


def compare(
    a: One,
    b: Other,
    seed: Seed = 0,
    form: Format = "text",
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Compare two evaluations on the tasks that both have, with a paired test."""
    with guarded(debug=debug):
        if form not in ("text", "json"):
            raise RequestError(f"--format: {form!r} is neither text nor json")
        result = load_job("dpepo.evaluation.compare:compare_runs")(a, b, seed=seed)
        typer.echo(result.model_dump_json(indent=1) if form == "json" else str(result))
