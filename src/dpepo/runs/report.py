"""``report.html`` of a finished run: what was done in plain words, the learning curve, the results, and a few episodes to read.

Reads ``summary.json`` (`dpepo.runs.summary`) and the episode files; writes one self-contained page. The rules by which the page
chooses are fixed, so that nothing is picked by hand: see `headline` and `choose_episodes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpepo.runs.curve_chart import NUM_COLOURS, curve_svg, series_names
from dpepo.runs.episode_page import Pool, episode_detail, episode_row
from dpepo.runs.episodes import EpisodeLine, read_episodes
from dpepo.runs.stats import Interval, wilson_interval
from dpepo.runs.summary import ResultRow, Summary, read_summary
from dpepo.runs.viewer import episode_key
from dpepo.runs.web_page import json_for_script, render_page, write_page

_Line = tuple[str, float, int, int, int | None]  # what rows of one table line share: split, temperature, K, tries, T
_Recorded = tuple[str, EpisodeLine]  # key and episode


class Cell(NamedTuple):
    """One result as the page shows it."""

    row: ResultRow
    rate: float  # in [0, 1]
    interval: Interval


class TableLine(NamedTuple):
    """One line of the results table: how it was played, and a cell per policy."""

    how: str  # environments and tries, e.g. "4 environments (K = 4)"
    block: str  # what several lines share: split, temperature, turn limit
    starts_block: bool
    cells: tuple[Cell | None, ...]  # one per label, in order
    change: tuple[float, Interval] | None  # last cell minus first, in [-1, 1], with its 95 % bounds


class Example(NamedTuple):
    """An episode to read, and why it is here."""

    heading: str
    why: str  # the rule that chose it
    key: str
    line: EpisodeLine


class ReportFigure(NamedTuple):
    """A picture for the page, drawn by whoever asks for the report."""

    title: str
    caption: str
    svg: str  # a whole SVG element, safe to stand in a page as it is


def write_report(run: Path, *, figures: Sequence[ReportFigure] = ()) -> Path:
    """Write ``report.html`` into the folder of a finished run and return its path.

    Args:
        run: The folder.
        figures: Pictures for a section of their own; without any it is left out.

    Raises:
        RunFolderError: the run has no readable ``summary.json``, or the page cannot be written.
    """
    summary = read_summary(run)
    examples = choose_episodes(run, summary)
    lines = results_table(summary.table)
    pool = Pool()
    shown = [_shown(example, pool) for example in examples]
    page = render_page(
        "report.html.j2",
        styles=("base.css", "lanes.css", "report.css"),
        scripts=("lanes.js", "report.js"),
        summary=summary,
        labels=_labels(summary.table),
        lines=lines,
        headline=headline(lines),
        curves=[
            curve_svg(summary.curve, references=summary.references, axis=summary.curve_axis, width=width, height=height)
            for width, height in ((860, 380), (400, 340))
            if summary.curve
        ],
        series=[(name, number % NUM_COLOURS + 1) for number, name in enumerate(series_names(summary.curve))],
        figures=figures,
        examples=examples,
        has_viewer=(run / "viewer.html").is_file(),
        episodes=json_for_script({"examples": shown, "texts": pool.texts, "lists": pool.lists}),
    )
    return write_page(page, run / "report.html")


def _shown(example: Example, pool: Pool) -> dict[str, Any]:
    line = example.line
    row = episode_row(example.key, line.record, stage=line.stage, step=line.step)
    return {"row": row, "detail": episode_detail(example.key, line.record, pool=pool, prompts=True)}


def _labels(table: Sequence[ResultRow]) -> list[str]:
    return list(dict.fromkeys(row.label for row in table))


def results_table(table: Sequence[ResultRow]) -> list[TableLine]:
    """Rows of a summary as lines of a table, in order of first mention; rows that differ only in `label` share a line."""
    labels = _labels(table)
    found: dict[_Line, dict[str, Cell]] = {}
    for row in table:
        by_label = found.setdefault(_kind(row), {})
        if row.rate is not None:
            interval = Interval(*row.interval) if row.interval else wilson_interval(row.successes, row.n)
            by_label[row.label] = Cell(row, row.rate, interval)
    blocks = list(dict.fromkeys(_block(key) for key in found))
    lines: list[TableLine] = []
    for key, by_label in sorted(found.items(), key=lambda item: blocks.index(_block(item[0]))):
        cells = tuple(by_label.get(label) for label in labels)
        starts = not lines or lines[-1].block != _block(key)
        lines.append(TableLine(_how(num_envs=key[2], tries=key[3]), _block(key), starts, cells, _change(cells)))
    return lines


def _how(*, num_envs: int, tries: int) -> str:
    envs = "one environment (K = 1)" if num_envs == 1 else f"{num_envs} environments (K = {num_envs})"
    return envs if tries == 1 else f"{envs}, best of {tries} tries (pass@{tries})"


def _block(line: _Line) -> str:
    split, temperature, _, _, max_turns = line
    parts = [split, "greedy" if temperature == 0 else f"temperature {temperature:g}"]
    if max_turns is not None:
        parts.append(f"at most {max_turns} turn{'s' if max_turns > 1 else ''}")
    return ", ".join(parts)


def _change(cells: Sequence[Cell | None]) -> tuple[float, Interval] | None:
    """Last minus first, with Newcombe's interval of a difference (1998, method 10) built from the two intervals."""
    first, last = cells[0], cells[-1]
    if len(cells) < 2 or first is None or last is None:
        return None
    difference = last.rate - first.rate
    down = math.hypot(last.rate - last.interval.low, first.interval.high - first.rate)
    up = math.hypot(last.interval.high - last.rate, first.rate - first.interval.low)
    return difference, Interval(difference - down, difference + up)


def headline(lines: Sequence[TableLine]) -> TableLine | None:
    """The line of the table that the top of the page repeats: the first one, if it has a result at both ends.

    The job decides by the order in which it writes its rows; nothing is chosen by size.
    """
    return lines[0] if lines and lines[0].change is not None else None


def choose_episodes(run: Path, summary: Summary) -> list[Example]:
    """A few episodes by fixed rules, from the stages of the table's first line (first and last policy).

    1. The first task, in recorded order, that the first policy did not solve and the last one did (same sibling): both.
    2. The first episode that the last policy did not solve, so that failures are seen too.

    Where a rule finds nothing, its episodes are left out. A table without stages shows none.
    """
    if not summary.table:
        return []
    top = summary.table[0]
    same = [row for row in summary.table if row.stage and _kind(row) == _kind(top)]
    if not same:
        return []
    first, last = same[0], same[-1]
    after = _lines(run, last.stage)
    examples: list[Example] = []
    if first.stage != last.stage:
        examples += _turned(first, last, _lines(run, first.stage), after)
    failed = [(key, line) for key, line in after if line.record.outcome is not None and not line.episode.success]
    rule = "The first episode, in recorded order, that was not solved."
    examples += [Example(f"{last.label}: not solved", rule, key, line) for key, line in failed[:1]]
    return examples or [Example(last.label, "The first episode recorded.", key, line) for key, line in after[:1]]


def _turned(first: ResultRow, last: ResultRow, before: list[_Recorded], after: list[_Recorded]) -> list[Example]:
    """The first task that `first` left unsolved and `last` solved, as two examples; empty where there is none."""
    unsolved = {
        (line.episode.task.id, line.episode.sibling): (key, line)
        for key, line in before
        if line.record.outcome is not None and not line.episode.success
    }
    for key, line in after:
        found = unsolved.get((line.episode.task.id, line.episode.sibling))
        if found is not None and line.episode.success:
            rule = f"The first task, in recorded order, that was not solved {first.label} and was solved {last.label}."
            return [
                Example(f"{first.label}: not solved", rule, *found),
                Example(f"{last.label}: solved", "The same task again.", key, line),
            ]
    return []


def _kind(row: ResultRow) -> _Line:
    return row.split, row.temperature, row.num_envs, row.tries, row.max_turns


def _lines(run: Path, stage: str) -> list[_Recorded]:
    places: Counter[tuple[str, int]] = Counter()
    # damaged lines are named by the viewer; here they are simply not chosen
    return [(episode_key(line, places), line) for line in read_episodes(run / "episodes", stage=stage, problems=[])]
