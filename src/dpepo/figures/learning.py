"""Learning curves: a number over the steps of training, a line per method, seeds as a band."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from dpepo.errors import did_you_mean
from dpepo.figures.options import Band, Options
from dpepo.figures.picture import Axis, Line, NothingToShow, Picture, Point, caption_of, split_lines
from dpepo.figures.sources import Material, Run
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.stats import t_interval, wilson_interval

_COUNTS = {"episode/success_rate": "episode/n", "val/success_rate": "val/n"}
_WORDS = {
    "episode/success_rate": "training episodes solved",
    "val/success_rate": "validation episodes solved",
    "episode/turns": "turns per training episode",
    "episode/actions_per_turn": "actions per turn",
    "episode/distinct_share": "exploration share (distinct / all actions)",
}

_Series = list[tuple[float, float, int]]  # step, value, episodes behind it (0: unknown)


def make(material: Material, options: Options) -> Picture:
    """A line per method.

    Raises:
        NothingToShow: No run recorded the metric.
    """
    found: dict[str, list[_Series]] = {}
    for run in material.runs:
        series = _series(run, options)
        if series:
            found.setdefault(_name(run), []).append(series)
    if not found:
        raise NothingToShow(_missing(material, options.metric))
    share = options.metric.endswith(("success_rate", "_share"))
    lines = tuple(
        Line(name, _points(repeats, options.band, share=share), colour=number)
        for number, (name, repeats) in enumerate(found.items())
    )
    stage = "step of training" if all(run.job == "sft" for run in material.runs) else "step of reinforcement learning"
    x = Axis(label=stage, integer=True)
    y = Axis(label=_WORDS.get(options.metric, options.metric), percent=share, from_zero=share)
    panels, columns = split_lines(lines, x=x, y=y)
    seeds = sorted({len(repeats) for repeats in found.values()})
    validated = not options.metric.startswith("val/") and options.smooth > 1
    return Picture(
        kind="learning",
        title=f"Learning curves: {y.label}",
        caption=caption_of(
            f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''} per method."
            if len(seeds) == 1
            else f"{seeds[0]} to {seeds[-1]} seeds per method.",
            f"Each point is the mean of up to {options.smooth} steps." if validated else "",
            _band_text(found, options),
            "Grey: the other methods." if columns else "",
            material.source,
        ),
        panels=panels,
        columns=columns,
        axes=f"{y.label}, over the {x.label}" if columns else "",
    )


def _name(run: Run) -> str:
    return "after cold start" if run.job == "demo" and run.method == "demo" else run.method


def _series(run: Run, options: Options) -> _Series:
    rows = sorted((row for row in _training(run) if options.metric in row.values), key=lambda row: row.step)
    values: _Series = []
    for row in rows:
        value, n = row.values[options.metric], row.values.get(_COUNTS.get(options.metric, ""))
        if isinstance(value, int | float):
            values.append((float(row.step), float(value), int(n) if isinstance(n, int | float) else 0))
    size = 1 if options.metric.startswith("val/") else options.smooth
    return [_window(values[start : start + size]) for start in range(0, len(values), size)]


def _training(run: Run) -> list[MetricsRow]:
    return [row for row in run.metrics if row.stage in ("rl", "sft")]


def _window(values: _Series) -> tuple[float, float, int]:
    counted = sum(n for _, _, n in values)
    value = sum(v * n for _, v, n in values) / counted if counted else fmean(v for _, v, _ in values)
    return fmean(step for step, _, _ in values), value, counted


def _points(repeats: Sequence[_Series], band: Band, *, share: bool) -> tuple[Point, ...]:
    if len(repeats) == 1:
        return tuple(_single(step, value, n) for step, value, n in repeats[0])
    steps = sorted(set.intersection(*({step for step, _, _ in one} for one in repeats)))
    points = []
    for step in steps:
        values = [value for one in repeats for at, value, _ in one if at == step]
        low, high = min(values), max(values)
        if band is Band.T and len(values) > 2:
            over = t_interval(values)
            low, high = over.mean - (over.half_width or 0.0), over.mean + (over.half_width or 0.0)
        points.append(Point(step, fmean(values), max(0.0, low) if share else low, min(1.0, high) if share else high))
    return tuple(points)


def _single(step: float, value: float, n: int) -> Point:
    if not n:
        return Point(step, value)
    bounds = wilson_interval(round(value * n), n)
    return Point(step, value, bounds.low, bounds.high)


def _band_text(found: dict[str, list[_Series]], options: Options) -> str:
    repeats = {len(some) for some in found.values()}
    parts = []
    if max(repeats) > 1:
        t = options.band is Band.T and max(repeats) > 2
        parts.append("95 % t-interval of the mean over seeds" if t else "lowest to highest seed, line: their mean")
    if 1 in repeats and options.metric in _COUNTS:
        parts.append("95 % Wilson intervals over the episodes of one run")
    return f"Bands: {', or '.join(parts)}." if parts else ""


def _missing(material: Material, metric: str) -> str:
    words = ", ".join(material.words)
    known = sorted({name for run in material.runs for row in _training(run) for name in row.values})
    if not known:
        return f"{words}: no training is recorded in there. Runs of dpepo train, sweeps and demos hold learning curves"
    return f"{words}: no run recorded the metric {metric!r}. {did_you_mean(metric, known)}"
