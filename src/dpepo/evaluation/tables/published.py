"""Numbers of the paper (arXiv 2604.24320), one file per table, for showing beside one's own. They were read, not measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import model_validator

from dpepo.evaluation.tables.model import Cell, Column, Row, number
from dpepo.types import Record

FOLDER = Path(__file__).parents[1] / "published"


class Published(Record):
    """One published table."""

    table: str  # its number in the paper
    kinds: tuple[str, ...]  # of our tables that it belongs beside
    source: str
    note: str
    columns: tuple[str, ...]  # keys as in `Column.key`
    groups: dict[str, dict[str, tuple[float | None, ...]]]  # group of rows to method to its numbers; None: the paper has none

    @model_validator(mode="after")
    def _whole(self) -> Published:
        for group, rows in self.groups.items():
            for method, values in rows.items():
                if len(values) != len(self.columns):
                    raise ValueError(
                        f"table {self.table}, {group} {method}: {len(values)} numbers, {len(self.columns)} columns"
                    )
        return self

    def rows(self, columns: Sequence[Column]) -> list[Row]:
        """Its rows in the columns of another table; those without any number there are left out."""
        places = {key: place for place, key in enumerate(self.columns)}
        found = []
        for group, methods in self.groups.items():
            title = ", ".join(part for part in (self.source, group) if part)
            for method, values in methods.items():
                cells = tuple(_cell(values, places.get(column.key)) for column in columns)
                if any(cell.text for cell in cells):
                    found.append(Row(label=method, group=title, cells=cells, published=True))
        return found


def _cell(values: Sequence[float | None], place: int | None) -> Cell:
    return Cell() if place is None else number(values[place], "{:.2f}" if _fine(values[place]) else "{:.1f}")


def _fine(value: float | None) -> bool:
    """Whether a number was printed with more than one decimal."""
    return value is not None and round(value, 1) != value


def published_tables(kind: str) -> list[Published]:
    """The paper's tables that belong beside one of ours, by number."""
    tables = [
        Published.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.yaml"))
    ]
    return [table for table in tables if kind in table.kinds]
