"""What a table is, whatever it shows and however it is printed. Pure data."""

from __future__ import annotations

from dpepo.types import Record

MEASURED = "Measured here"  # group of our rows where published ones stand beside them


class Column(Record):
    """One column of numbers."""

    key: str  # e.g. "alfworld/valid_seen//pick_and_place_simple", "turns"
    group: str = ""  # head above several columns
    name: str


class Cell(Record):
    """One number, with what is known about it. An empty cell has no value: nothing was measured."""

    text: str = ""  # as shown
    value: float | None = None
    low: float | None = None  # 95 % interval
    high: float | None = None
    n: int | None = None  # episodes behind it, lost ones left out
    lost: int = 0  # episodes lost to faults
    runs: int = 1  # runs that it is a mean of, e.g. seeds


class Row(Record):
    """One line."""

    label: str
    group: str = ""  # rows of one group stand together under its name
    cells: tuple[Cell, ...]  # one per column
    published: bool = False  # read in a paper, not measured here


class Table(Record):
    """A table with its title and what has to be known to read it."""

    title: str
    label_name: str = "method"  # head of the labels
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def number(value: float | None, form: str = "{:.1f}") -> Cell:
    """A plain number; None is an empty cell."""
    return Cell() if value is None else Cell(text=form.format(value), value=value)
