"""What a sweep has shown so far: means and intervals over seeds, read from the finished evaluations' run folders."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dpepo.runs.files import write_atomic
from dpepo.runs.rundir import RunFolder
from dpepo.runs.stats import MeanInterval, t_interval
from dpepo.sweep.plan import Plan, Unit
from dpepo.sweep.spec import Evaluation, Variant
from dpepo.types import Record

MARKDOWN, CSV, JSON = "results.md", "results.csv", "results.json"
PLUS_MINUS = "±"


class Result(Record):
    """One number of the table: a variant, a way of playing, and success or pass@k, over the seeds that are done."""

    variant: str
    variant_label: str
    evaluation: str
    evaluation_label: str
    tries: int  # k of pass@k; 1: success rate
    by_seed: dict[int, float]  # rates in [0, 1]
    mean: float
    half_width: float | None  # of the 95 % t-interval over seeds; None for one seed
    n: int  # seeds
    episodes: int  # finished episodes behind each seed's number, smallest first
    lost: int  # episodes lost to faults, all seeds together
    actions_per_episode: float  # in all copies together
    minus_baseline: tuple[float, float | None] | None  # mean and half width of the differences seed by seed; None: no baseline


class SweepResults(Record):
    """Everything measured, in the order of the sweep file."""

    title: str
    notes: tuple[str, ...]
    baseline: str  # label of the variant that others are compared with; empty: none
    seeds: tuple[int, ...]
    results: tuple[Result, ...]
    minutes: dict[str, float]  # variant to minutes of training, mean over seeds
    missing: tuple[str, ...]  # units that are not finished


def collect(plan: Plan, done: Collection[str]) -> SweepResults:
    """Read the results of the units that are finished.

    Args:
        plan: The sweep.
        done: Ids of the finished units; looking for them is left to the caller, who may know them.
    """
    spec = plan.sweep.spec
    units = [unit for unit in plan.units if unit.variant]
    finished = [unit for unit in units if unit.id in done]
    played = {unit.id: _played(unit) for unit in finished}
    rates = {
        (variant.name, evaluation.name, tries): {
            unit.seed: _rate(played[unit.id][evaluation.name], tries)
            for unit in finished
            if unit.variant == variant.name and _has(played[unit.id][evaluation.name], tries)
        }
        for variant in spec.variants
        for evaluation in spec.evaluate
        for tries in evaluation.tries
    }
    results = [
        _result(
            variant,
            evaluation,
            tries,
            by_seed=rates[variant.name, evaluation.name, tries],
            baseline=None if spec.baseline in ("", variant.name) else rates[spec.baseline, evaluation.name, tries],
            evals=[played[unit.id][evaluation.name] for unit in finished if unit.variant == variant.name],
        )
        for variant in spec.variants
        for evaluation in spec.evaluate
        for tries in evaluation.tries
        if rates[variant.name, evaluation.name, tries]
    ]
    return SweepResults(
        title=spec.title,
        notes=spec.notes,
        baseline=next((variant.title for variant in spec.variants if variant.name == spec.baseline), ""),
        seeds=spec.seeds,
        results=tuple(results),
        minutes=_minutes(finished),
        missing=tuple(unit.id for unit in units if unit not in finished),
    )


def _played(unit: Unit) -> dict[str, dict[str, Any]]:
    """The result of each evaluation of a unit, as its job recorded it."""
    return {name: _recorded(folder) for name, folder in unit.evaluations.items()}


def _recorded(folder: Path) -> dict[str, Any]:
    sessions = RunFolder.open(folder).sessions
    return dict(next(session["result"] for session in reversed(sessions) if "finished" in session))


def _has(result: Mapping[str, Any], tries: int) -> bool:
    return tries == 1 or str(tries) in result["pass_at"]


def _rate(result: Mapping[str, Any], tries: int) -> float:
    return float(result["success_rate"] if tries == 1 else result["pass_at"][str(tries)])


def _result(
    variant: Variant,
    evaluation: Evaluation,
    tries: int,
    *,
    by_seed: Mapping[int, float],
    baseline: Mapping[int, float] | None,
    evals: Sequence[Mapping[str, Any]],
) -> Result:
    over = t_interval(list(by_seed.values()))
    shared = [seed for seed in by_seed if baseline is not None and seed in baseline]
    difference = t_interval([by_seed[seed] - baseline[seed] for seed in shared]) if baseline is not None and shared else None
    return Result(
        variant=variant.name,
        variant_label=variant.title,
        evaluation=evaluation.name,
        evaluation_label=evaluation.title,
        tries=tries,
        by_seed=dict(by_seed),
        mean=over.mean,
        half_width=over.half_width,
        n=over.n,
        episodes=min(int(result["n"]) for result in evals),
        lost=sum(int(result["lost"]) for result in evals),
        actions_per_episode=fmean(float(result["turns"]) * float(result["actions_per_turn"]) for result in evals),
        minus_baseline=None if difference is None else (difference.mean, difference.half_width),
    )


def _minutes(units: Sequence[Unit]) -> dict[str, float]:
    minutes: dict[str, list[float]] = {}
    for unit in units:
        for run in unit.runs:
            if run.job == "train":
                minutes.setdefault(unit.variant, []).append(float(_recorded(run.folder)["minutes"]))
    return {variant: fmean(values) for variant, values in minutes.items()}


def write_results(results: SweepResults, folder: Path) -> None:
    """Write table and numbers into the sweep's folder: Markdown, CSV (a line per number) and JSON."""
    write_atomic(folder / MARKDOWN, as_markdown(results))
    write_atomic(folder / CSV, _as_csv(results))
    write_atomic(folder / JSON, json.dumps(results.model_dump(mode="json"), indent=1) + "\n")


def _as_csv(results: SweepResults) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("variant", "evaluation", "tries", "mean", "half_width", "n", "episodes", "lost", "actions_per_episode")
    writer.writerow([*names, "minus_baseline", "minus_baseline_half_width", *(f"seed_{seed}" for seed in results.seeds)])
    for result in results.results:
        difference = result.minus_baseline or ("", "")
        seeds = [result.by_seed.get(seed, "") for seed in results.seeds]
        writer.writerow([*(getattr(result, name) for name in names), *difference, *seeds])
    return text.getvalue()


def as_markdown(results: SweepResults) -> str:
    """The whole report: title, notes, table, how to read it, what is missing."""
    lines = [f"# {results.title}", ""]
    for note in results.notes:
        lines += [note, ""]
    head, *rows = table(results)
    lines += [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows), ""]
    lines += [READING, ""]
    if results.missing:
        lines += [f"Not finished: {', '.join(results.missing)}.", ""]
    return "\n".join(lines)


READING = (
    f"Mean {PLUS_MINUS} half the width of the 95 % t-interval over seeds; in brackets the number of seeds. Intervals say how "
    "far runs with other seeds lie apart, not how well the tasks represent others. A difference is taken seed by seed; it says "
    "something where its interval leaves out 0. Actions: mean per episode of the first column, in all copies together."
)


def as_text(results: SweepResults) -> str:
    """The table for a terminal."""
    rows = table(results)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    missing = [f"Not finished: {', '.join(results.missing)}."] if results.missing else []
    return "\n".join([results.title, "", *lines, "", READING, *missing])


def table(results: SweepResults) -> list[list[str]]:
    """Head and rows: a line per variant, a column per evaluation and k; then what belongs to the first of these."""
    columns = list(dict.fromkeys((result.evaluation, result.evaluation_label, result.tries) for result in results.results))
    cells = {(result.variant, result.evaluation, result.tries): result for result in results.results}
    labels = dict.fromkeys((result.variant, result.variant_label) for result in results.results)
    with_baseline = bool(results.baseline and columns)
    head = ["variant", *(label + (f", pass@{tries}" if tries > 1 else "") for _, label, tries in columns)]
    head += [f"minus {results.baseline}"] if with_baseline else []
    head += ["actions", "minutes of RL"]
    rows = []
    for name, label in labels:
        row = [label, *(_cell(cells.get((name, evaluation, tries))) for evaluation, _, tries in columns)]
        first = cells.get((name, columns[0][0], columns[0][2]))
        row += [_difference(first)] if with_baseline else []
        row += [
            f"{first.actions_per_episode:.1f}" if first else "",
            f"{results.minutes[name]:.1f}" if name in results.minutes else "",
        ]
        rows.append(row)
    return [head, *rows]


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    return _spread(MeanInterval(result.mean, result.half_width, result.n), "{:.3f}") + f" ({result.n})"


def _difference(result: Result | None) -> str:
    if result is None or result.minus_baseline is None:
        return ""
    mean, half = result.minus_baseline
    return _spread(MeanInterval(mean, half, 0), "{:+.3f}")


def _spread(value: MeanInterval, form: str) -> str:
    mean = form.format(value.mean)
    return mean if value.half_width is None else f"{mean} {PLUS_MINUS} {value.half_width:.3f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
