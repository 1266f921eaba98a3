"""Metrics are written line by line and survive crashes and repeats."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpepo.runs.metrics import MetricsLog, read_metrics


def test_what_is_logged_is_read_back(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log("rl", 1, {"actor/pg_loss": 0.5, "success": 0.25})
    log.log("eval", 0, {"n": 200, "label": "after SFT"})
    first, second = read_metrics(log.path).rows
    assert (first.stage, first.step, first.values) == ("rl", 1, {"actor/pg_loss": 0.5, "success": 0.25})
    assert (second.stage, second.values["label"]) == ("eval", "after SFT")


def test_of_a_step_done_twice_the_second_counts(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step, loss in ((1, 1.0), (2, 2.0), (2, 3.0)):
        log.log("rl", step, {"loss": loss})
    assert [(row.step, row.values["loss"]) for row in read_metrics(log.path).rows] == [(1, 1.0), (2, 3.0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_leave_the_file_readable_by_every_json_reader(tmp_path: Path, value: float) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log("rl", 1, {"loss": value})
    json.loads(log.path.read_text(), parse_constant=pytest.fail)
    assert read_metrics(log.path).rows[0].values == {"loss": None}


def test_a_line_cut_by_a_crash_is_reported_and_the_next_line_is_whole(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log("rl", 1, {"loss": 1.0})
    with log.path.open("a") as file:
        file.write('{"stage": "rl", "st')
    assert "line 2 is cut off" in read_metrics(log.path).problems[0]
    log.log("rl", 2, {"loss": 2.0})
    found = read_metrics(log.path)
    assert [row.step for row in found.rows] == [1, 2]
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    "line", ["[1]", "3", "{}", '{"stage": "rl", "step": "x", "time": 0}', "nonsense", "\ufeff", "[" * 100_000]
)
def test_damaged_lines_are_reported_and_left_out(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{line}\n{{"stage": "rl", "step": 1, "time": 0.0}}\n', encoding="utf-8")
    found = read_metrics(path)
    assert [row.step for row in found.rows] == [1]
    assert "line 1" in found.problems[0]


def test_fields_that_the_line_itself_needs_cannot_be_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="step"):
        MetricsLog(tmp_path / "metrics.jsonl").log("rl", 1, {"step": 3})


def test_no_file_holds_nothing(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == ((), ())
