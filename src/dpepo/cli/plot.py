"""The command ``dpepo plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.cli.jobs import load_job
from dpepo.cli.preflight import check_packages
from dpepo.errors import ConfigError, did_you_mean
from dpepo.figures import ALL, KINDS, Band, Material, NothingToShow, Options, Picture, find_material, make_picture

_SUFFIXES = (".png", ".svg")
_DEFAULTS = Options()

What = Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(KINDS)}, or {ALL}.")]
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN", help="Run folders, sweeps, demos, folders of runs; NAME=RUN names one.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="The file (.png or .svg); for all: a folder.", show_default="KIND.png, or the folder figures"),
]
Dark = Annotated[bool, typer.Option("--dark", help="Light lines on dark ground.")]
Svg = Annotated[bool, typer.Option("--svg", help="SVG in place of PNG, where --out does not say.")]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="PATTERN", help="Only methods called so; may be repeated.")]
Way = Annotated[str, typer.Option("--way", help="The way of playing to show.", show_default="the first one played")]
Metric = Annotated[str, typer.Option("--metric", help="learning: a name of docs/metrics.md.")]
Smooth = Annotated[int, typer.Option("--smooth", min=1, help="learning: steps that one point is the mean of.")]
BandOf = Annotated[Band, typer.Option("--band", help="learning: range of the seeds, or the t-interval of their mean.")]
Tokenizer = Annotated[
    str, typer.Option("--tokenizer", help="prompts: a model folder; lengths are in its tokens, not in words.")
]
Templates = Annotated[str, typer.Option("--templates", help="prompts: a template set.", show_default="that of the run")]
Episodes = Annotated[int, typer.Option("--episodes", min=1, help="prompts: at most so many episodes, evenly spaced.")]


def plot(
    kind: What,
    runs: Runs,
    out: Out = None,
    dark: Dark = False,
    svg: Svg = False,
    only: Only = None,
    way: Way = "",
    metric: Metric = _DEFAULTS.metric,
    smooth: Smooth = _DEFAULTS.smooth,
    band: BandOf = _DEFAULTS.band,
    tokenizer: Tokenizer = "",
    templates: Templates = "",
    episodes: Episodes = _DEFAULTS.episodes,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")] = False,
) -> None:
    """Draw a picture of what was played or trained in some runs."""
    with guarded(debug=debug):
        if kind not in (*KINDS, ALL):
            raise ConfigError(f"There is no picture {kind!r}. {did_you_mean(kind, [*KINDS, ALL])}")
        check_packages(("matplotlib",), extra="plots", needed_for="dpepo plot")
        options = Options(
            way=way,
            metric=metric,
            smooth=smooth,
            band=band,
            tokenizer=tokenizer,
            templates=templates,
            episodes=episodes,
        )
        suffix = ".svg" if svg else ".png"
        if kind != ALL:
            target = _target(out or Path(f"{kind}{suffix}"))
            material = find_material(runs, only=only or ())
            _write(make_picture(kind, material, options), target, dark=dark)
            _tell(material)
            return
        folder = out or Path("figures")
        if folder.is_file() or folder.suffix in _SUFFIXES:
            raise ConfigError(f"--out {folder}: all pictures need a folder. Try: --out figures")
        _write_all(find_material(runs, only=only or ()), options, folder=folder, suffix=suffix, dark=dark)


def _target(path: Path) -> Path:
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"--out {path}: the file must end in {' or '.join(_SUFFIXES)}")
    return path


def _write_all(material: Material, options: Options, *, folder: Path, suffix: str, dark: bool) -> None:
    """Every picture that the data allow; what is left out is listed with the reason."""
    left: list[NothingToShow] = []
    for kind in KINDS:
        try:
            picture = make_picture(kind, material, options)
        except NothingToShow as reason:
            left.append(reason)
            typer.echo(f"Left out: {kind}. {reason}")
            continue
        _write(picture, folder / f"{kind}{suffix}", dark=dark)
    _tell(material)
    if len(left) == len(KINDS):
        raise NothingToShow("None of the pictures could be drawn.")


def _write(picture: Picture, path: Path, *, dark: bool) -> None:
    typer.echo(f"Wrote {load_job('dpepo.figures.drawing:write_picture')(picture, path, dark=dark)}: {picture.title}.")
    for note in picture.notes:
        typer.echo(f"  {note}")


def _tell(material: Material) -> None:
    for note in dict.fromkeys(material.notes):
        typer.echo(note, err=True)
