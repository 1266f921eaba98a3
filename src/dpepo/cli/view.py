"""``dpepo view``: the page of one run, or a server for a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded, terminate_like_interrupt
from dpepo.cli.jobs import load_job
from dpepo.errors import RequestError, RunFolderError
from dpepo.runs.rundir import no_run


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder; with --serve, a folder of runs.")],
    out: Annotated[Path | None, typer.Option("--out", help="The HTML file to write; by default inside the run folder.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve all runs below the folder to browsers on this machine, until Ctrl-C.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port of --serve; by default a free one.", show_default=False),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Write a page that shows a run's episodes turn by turn, or serve the pages of many runs."""
    with guarded(debug=debug):
        if serve:
            if out is not None:
                raise RequestError("--out writes one page and --serve serves many. Leave one of them out.")
            _serve(run, port=port or 0)
            return
        if port is not None:
            raise RequestError("--port is for --serve. Try: dpepo view --serve FOLDER --port N")
        if not (run / "run.json").is_file() and not (run / "episodes").is_dir():
            raise RunFolderError(no_run(run))
        page = load_job("dpepo.runs.viewer:write_viewer")(run, out)
        typer.echo(f"Wrote {page}. Open it in a browser.")


def _serve(folder: Path, *, port: int) -> None:
    """Serve until interrupted, which is how this ends well."""
    with load_job("dpepo.runs.serve:serving")(folder, port=port) as server, terminate_like_interrupt():
        typer.echo(f"Runs in {folder}: {server.address}  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Ended.")
