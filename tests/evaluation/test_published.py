"""The paper's numbers as data: they agree with each other as the paper's tables do, and are never taken for measured ones."""

from __future__ import annotations

from statistics import fmean

import pytest

from dpepo.evaluation.tables import FORMATS, KINDS, build_table
from dpepo.evaluation.tables.build import TableRequest
from dpepo.evaluation.tables.columns import MEANS, TYPES
from dpepo.evaluation.tables.published import Published, published_tables

TABLES = [table for kind in KINDS for table in published_tables(kind)]
RATES = [table for table in TABLES if any("/" in column for column in table.columns)]
SEEN = {"Pick": 35, "Cool": 25, "Heat": 16, "Look": 13, "Pick2": 24, "Clean": 27}  # games of valid_seen by type, 140 in all


def lines_of(table: Published) -> list[tuple[str, dict[str, float | None]]]:
    return [
        (f"{group} {method}", dict(zip(table.columns, values, strict=True)))
        for group, methods in table.groups.items()
        for method, values in methods.items()
    ]


def test_every_kind_has_its_tables_and_every_number_its_source() -> None:
    assert {kind: [table.table for table in published_tables(kind)] for kind in KINDS} == {
        "results": ["1", "7"],
        "ablation": ["4"],
        "cost": ["3"],
        "dynamics": ["5"],
        "no-cold-start": ["6"],
        "memory": ["8"],
    }
    assert all(table.source.startswith("arXiv 2604.24320v1, Table") for table in TABLES)


@pytest.mark.parametrize("table", RATES, ids=lambda table: f"table {table.table}")
def test_the_means_are_those_of_their_columns(table: Published) -> None:
    for name, values in lines_of(table):
        for world, splits in MEANS.items():
            mean = values.get(world)
            parts = [values[f"{world}/{split}"] for split in splits if f"{world}/{split}" in values]
            known = [part for part in parts if part is not None]
            if mean is not None:
                assert fmean(known) == pytest.approx(mean, abs=0.0501), (name, world)


@pytest.mark.parametrize("table", RATES, ids=lambda table: f"table {table.table}")
def test_the_authors_own_rows_are_rates_of_the_140_games(table: Published) -> None:
    """Rows that they took from other papers are not, e.g. those of GRPO and GiGPO."""
    checked = 0
    for name, values in lines_of(table):
        types = {short: values.get(f"alfworld/valid_seen//{kind}") for kind, short in TYPES.items()}
        if None in types.values() or not any(word in name for word in ("DPEPO", "w/o", "ColdStart", "DeepSeek", "window")):
            continue
        won = {short: SEEN[short] * (rate or 0.0) / 100 for short, rate in types.items()}
        assert all(count == pytest.approx(round(count), abs=0.03) for count in won.values()), name
        assert sum(map(round, won.values())) / 1.4 == pytest.approx(values["alfworld/valid_seen"], abs=0.06), name
        checked += 1
    assert checked or table.table == "7"


def test_the_ablation_and_the_main_table_agree() -> None:
    main = dict(lines_of(published_tables("results")[0]))["Qwen2.5-7B-Instruct DPEPO"]
    assert dict(lines_of(published_tables("ablation")[0]))["Qwen2.5-7B-Instruct DPEPO"] == main


@pytest.mark.parametrize("kind", KINDS)
def test_published_numbers_alone_are_marked_line_by_line(kind: str) -> None:
    made = build_table(TableRequest(kind=kind, published=True))
    assert made.rows and all(row.published and row.group.startswith("arXiv 2604.24320v1") for row in made.rows)
    text = FORMATS["text"](made)
    assert text.count("†") == len(made.rows) + 1
    rows = FORMATS["csv"](made).splitlines()[1:]
    assert rows and all(row.endswith(",true") for row in rows)


def test_numbers_that_do_not_fill_their_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="table 9, g m: 1 numbers, 2 columns"):
        Published(table="9", kinds=("results",), source="s", note="", columns=("a", "b"), groups={"g": {"m": (1.0,)}})
