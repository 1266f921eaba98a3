"""Tables of success rates: methods by lists of tasks and task types, as in the paper's Tables 1, 2, 4, 6 and 8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from dpepo.evaluation.measured import Measured
from dpepo.evaluation.tables.columns import MEANS, SPLIT_NOTES, parts, rate_columns
from dpepo.evaluation.tables.methods import Method, labels_of, methods_of, playing_notes
from dpepo.evaluation.tables.model import MEASURED, Cell, Column, Row, Table
from dpepo.evaluation.tables.published import Published
from dpepo.runs.stats import t_interval
from dpepo.types import Record

MEAN_OF_RUNS = "±: half the width of the 95 % t-interval over runs with other seeds, whose number stands in brackets."
ONE_RUN = "[ ]: 95 % Wilson interval over episodes; it takes them to be independent."


class RateOptions(Record):
    """What a table of success rates shows."""

    title: str
    types: str = "first"  # whose task types have columns: see `dpepo.evaluation.tables.columns`
    tries: tuple[int, ...] = (1,)  # k of pass@k, a line each; 1 is success
    differences: bool = False  # a column per list with the difference to the baseline
    baseline: str = ""  # name of the method that others are compared with; empty: the first
    always: tuple[str, ...] = ()  # conditions that every label names


def rates_table(measured: Sequence[Measured], options: RateOptions, *, published: Sequence[Published] = ()) -> Table:
    """The table.

    Args:
        measured: Evaluations; those of one label, played alike on one list of tasks, are one number: the mean over them.
        options: What to show.
        published: Tables of the paper to show beside.
    """
    methods = methods_of(measured)
    worlds = {one.conditions.world for one in measured}
    keys = [key for method in methods for key in _keys(method)]
    keys += [key for table in published for key in table.columns if not worlds or parts(key)[0] in worlds]
    columns = rate_columns(keys, types=options.types)
    lines = [
        (label if k == 1 else f"{label}, pass@{k}", {column.key: _cell(method, column.key, k) for column in columns})
        for method, label in zip(methods, labels_of(methods, always=options.always), strict=True)
        for k in options.tries
    ]
    rows = [Row(label=label, cells=tuple(cells.values())) for label, cells in lines]
    if options.differences and len(methods) > 1:
        columns, rows = _with_differences(columns, rows, methods, options)
    beside = [row for table in published for row in table.rows(columns)]
    rows = [row.model_copy(update={"group": MEASURED if beside else ""}) for row in rows] + beside
    notes = playing_notes(methods, measured) if methods else []
    return Table(
        title=options.title, columns=tuple(columns), rows=tuple(rows), notes=(*notes, *_reading(columns, rows, published))
    )


def _keys(method: Method) -> Iterator[str]:
    for column, same in method.by_column.items():
        yield column
        for one in same:
            yield from (f"{column}//{name}" for name in one.result.by_type)


def _cell(method: Method, key: str, k: int) -> Cell:
    world, split, task_type = parts(key)
    if split:
        same = method.by_column.get(f"{world}/{split}")
        return _rate(same, task_type, k) if same else Cell()
    lists = [method.by_column.get(f"{world}/{name}") for name in MEANS[world]]
    return _mean_of_lists([_rate(same, "", k) for same in lists if same]) if all(lists) else Cell()


def _rate(same: Sequence[Measured], task_type: str, k: int) -> Cell:
    """The number of one method on one list, or on one task type of it."""
    single = [_of_one(one, task_type, k) for one in same]
    cells = [cell for cell in single if cell.value is not None]
    lost = sum(cell.lost for cell in single)
    if not cells:
        return Cell(text=f"all {lost} lost", lost=lost) if lost else Cell()
    if len(same) == 1:
        return cells[0]
    over = t_interval([cell.value for cell in cells if cell.value is not None])
    half = over.half_width
    return Cell(
        text=f"{100 * over.mean:.1f}" + ("" if half is None else f" ± {100 * half:.1f}") + f" ({over.n})",
        value=over.mean,
        low=None if half is None else over.mean - half,
        high=None if half is None else over.mean + half,
        n=sum(cell.n or 0 for cell in cells),
        lost=lost,
        runs=over.n,
    )


def _of_one(one: Measured, task_type: str, k: int) -> Cell:
    result = one.result
    if k > 1:
        value = None if task_type else result.pass_at.get(k)
        return Cell() if value is None else Cell(text=f"{100 * value:.1f}", value=value, n=result.n, lost=result.lost)
    if task_type:
        of_type = result.by_type.get(task_type)
        if of_type is None:
            return Cell()
        value, n, lost, (low, high) = of_type.success_rate, of_type.n, of_type.lost, of_type.interval
        text = "" if value is None else f"{100 * value:.1f}"
    else:
        n, lost, (low, high) = result.n, result.lost, result.interval
        value = result.success_rate if n else None
        text = "" if value is None else f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    return Cell(text=text, value=value, low=low, high=high, n=n, lost=lost) if value is not None else Cell(lost=lost)


def _mean_of_lists(cells: Sequence[Cell]) -> Cell:
    values = [cell.value for cell in cells if cell.value is not None]
    if len(values) < len(cells):
        return Cell()
    return Cell(text=f"{100 * fmean(values):.1f}", value=fmean(values), n=sum(cell.n or 0 for cell in cells))


def _with_differences(
    columns: Sequence[Column], rows: Sequence[Row], methods: Sequence[Method], options: RateOptions
) -> tuple[list[Column], list[Row]]:
    """A column behind each list with the difference to the baseline, seed by seed."""
    base = next((method for method in methods if method.name == options.baseline), methods[0])
    totals = [column.key for column in columns if parts(column.key)[1] and not parts(column.key)[2]]
    new_columns: list[Column] = []
    for column in columns:
        new_columns.append(column)
        if column.key in totals:
            new_columns.append(Column(key=f"{column.key} minus baseline", group=column.group, name=f"minus {base.name}"))
    new_rows = []
    tries = [k for _ in methods for k in options.tries]
    owners = [method for method in methods for _ in options.tries]
    for row, method, k in zip(rows, owners, tries, strict=True):
        cells: list[Cell] = []
        for column, cell in zip(columns, row.cells, strict=True):
            cells.append(cell)
            if column.key in totals:
                cells.append(Cell() if method is base else _difference(method, base, column.key, k))
        new_rows.append(row.model_copy(update={"cells": tuple(cells)}))
    return new_columns, new_rows


def _difference(method: Method, base: Method, key: str, k: int) -> Cell:
    mine, theirs = ({one.seed: _of_one(one, "", k).value for one in m.by_column.get(key, ())} for m in (method, base))
    pairs = [(value, theirs.get(seed)) for seed, value in mine.items()]
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    if not differences:
        return Cell()
    over = t_interval(differences)
    half = over.half_width
    text = f"{100 * over.mean:+.1f}" + ("" if half is None else f" ± {100 * half:.1f}")
    bounds = (None, None) if half is None else (over.mean - half, over.mean + half)
    return Cell(text=text, value=over.mean, low=bounds[0], high=bounds[1], runs=over.n)


def _reading(columns: Sequence[Column], rows: Sequence[Row], published: Sequence[Published]) -> Iterator[str]:
    texts = [cell.text for row in rows for cell in row.cells]
    yield "Success in percent."
    if any("[" in text for text in texts):
        yield ONE_RUN
    if any("±" in text for text in texts):
        yield MEAN_OF_RUNS
    if any(column.name == "mean" for column in columns):
        yield "mean: of the lists' rates, each list counting once."
    for column in columns:
        split = parts(column.key)[1]
        if split in SPLIT_NOTES:
            yield f"{SPLIT_NOTES[split]}."
    for table in published:
        if table.note:
            yield f"Table {table.table}: {table.note}"
