"""A table as text for a terminal, as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from itertools import groupby

from dpepo.evaluation.tables.model import Column, Row, Table

MARK = "†"
MISSING = "-"
_GAP = "  "
PUBLISHED = "published, not measured here"

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    MARK: r"\textsuperscript{\dag}",
}


def as_text(table: Table) -> str:
    """For a terminal, as wide as it has to be: colours and boxes would not survive a pipe."""
    head = [table.label_name, *(column.name for column in table.columns)]
    cells = [head, *(_cells(row) for row in table.rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(head))]
    groups = _column_groups(table.columns)
    spans = _spans(groups, widths)
    lines = []
    if any(name for name, _ in groups):
        titles = [name.ljust(span) for (name, _), span in zip(groups, spans, strict=True)]
        lines.append(_GAP.join([" " * widths[0], *titles]).rstrip())
    lines.append(_aligned(head, widths))
    for group, rows in _groups(table):
        lines += [group] if group else []
        lines += [_aligned(_cells(row), widths) for row in rows]
    return "\n".join([table.title, "", *lines, *_notes(table)])


def _spans(groups: Sequence[tuple[str, int]], widths: list[int]) -> list[int]:
    """How wide the columns of each group are together; where its name is wider, the first of them grows."""
    spans, place = [], 1
    for name, size in groups:
        span = sum(widths[place : place + size]) + len(_GAP) * (size - 1)
        widths[place] += max(0, len(name) - span)
        spans.append(max(span, len(name)))
        place += size
    return spans


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    label, *numbers = cells
    padded = [label.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))]
    return _GAP.join(padded).rstrip()


def as_markdown(table: Table) -> str:
    """A pipe table; heads of groups stand before the names of their columns."""
    head = [table.label_name, *(f"{column.group} {column.name}".strip() for column in table.columns)]
    lines = [f"**{table.title}**", "", _pipe(head), _pipe(["---", *["---:"] * len(table.columns)])]
    for group, rows in _groups(table):
        lines += [_pipe([f"*{group}*", *[""] * len(table.columns)])] if group else []
        lines += [_pipe(_cells(row)) for row in rows]
    return "\n".join([*lines, *(f"\n{note}" for note in _notes(table) if note)])


def as_latex(table: Table) -> str:
    """A ``tabular`` for the package booktabs, with its notes as comments."""
    groups = _column_groups(table.columns)
    lines = [f"% {line}" for line in [table.title, *(note for note in _notes(table) if note)]]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{size}}}{{c}}{{{escape_latex(name)}}}" for name, size in groups]
        lines.append(" & ".join(["", *spans]) + r" \\")
    lines.append(" & ".join(escape_latex(text) for text in [table.label_name, *(c.name for c in table.columns)]) + r" \\")
    for group, rows in _groups(table):
        lines.append(r"\midrule")
        if group:
            lines.append(rf"\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\emph{{{escape_latex(group)}}}}} \\")
        lines += [" & ".join(escape_latex(text) for text in _cells(row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def as_csv(table: Table) -> str:
    """A line per number, unrounded, with its interval and counts: for programs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", table.label_name, "column", "value", "low", "high", "n", "lost", "runs", "published"])
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.value is not None or cell.lost:
                counts = ["" if value is None else value for value in (cell.value, cell.low, cell.high, cell.n)]
                writer.writerow([row.group, row.label, column.key, *counts, cell.lost, cell.runs, str(row.published).lower()])
    return text.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
}


def escape_latex(text: str) -> str:
    r"""A text as LaTeX shows it.

    >>> print(escape_latex("L0_test, 50 %"))
    L0\_test, 50 \%
    """
    return "".join(_LATEX.get(character, character) for character in text)


def _cells(row: Row) -> list[str]:
    label = f"{row.label} {MARK}" if row.published else row.label
    return [label, *(cell.text or MISSING for cell in row.cells)]


def _groups(table: Table) -> list[tuple[str, list[Row]]]:
    return [(group, list(rows)) for group, rows in groupby(table.rows, key=lambda row: row.group)]


def _column_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    return [(group, len(list(same))) for group, same in groupby(columns, key=lambda column: column.group)]


def _notes(table: Table) -> list[str]:
    marked = [f"{MARK} {PUBLISHED}."] if any(row.published for row in table.rows) else []
    return ["", *table.notes, *marked] if table.notes or marked else []


def _pipe(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
