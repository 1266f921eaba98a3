"""The command ``dpepo table``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.errors import RequestError, did_you_mean
from dpepo.runs.files import write_atomic

Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Run folders, RUN#STAGE, or folders of runs, e.g. a sweep's.", show_default=False),
]
Kind = Annotated[str, typer.Option("--kind", help="results, ablation, cost, dynamics, no-cold-start or memory.")]
Format = Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="Name of a method: once per RUN, in their order.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="PATTERN", help="Only evaluations of this name, e.g. '*eval-one-copy'.")
]
Types = Annotated[str, typer.Option("--types", help="Task types: of the first list of each world, of all lists, or none.")]
Tries = Annotated[list[int] | None, typer.Option("--tries", min=1, help="Show pass@K as well; 1 is success. May be repeated.")]
Baseline = Annotated[str, typer.Option("--baseline", help="Method that an ablation compares with.", show_default="the first")]
Window = Annotated[int, typer.Option("--window", min=0, help="RL steps to a line of dynamics; 0: a tenth of the run.")]
Published = Annotated[bool, typer.Option("--published", help="Show the paper's numbers beside, marked as such.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the table into a file instead.")]


def table(
    runs: Runs = None,
    kind: Kind = "results",
    form: Format = "text",
    label: Labels = None,
    only: Only = None,
    types: Types = "first",
    tries: Tries = None,
    baseline: Baseline = "",
    window: Window = 0,
    published: Published = False,
    out: Out = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Put evaluations into a table, in the shape of one of the paper's."""
    with guarded(debug=debug):
        from dpepo.evaluation.tables import FORMATS, build_table
        from dpepo.evaluation.tables.build import TableRequest

        if form not in FORMATS:
            raise RequestError(f"--format: there is no {form!r}. {did_you_mean(form, FORMATS)}")
        request = TableRequest(
            sources=runs or (),
            kind=kind,
            labels=label or (),
            only=only or (),
            types=types,
            tries=tries or (1,),
            baseline=baseline,
            window=window,
            published=published,
        )
        text = FORMATS[form](build_table(request))
        if out is None:
            typer.echo(text)
            return
        try:
            write_atomic(out, text + "\n")
        except OSError as error:
            raise RequestError(f"Cannot write {out}: {error.strerror or error}") from None
        typer.echo(f"Wrote {out}.")
