"""summary.json: written whole, read back, and refused with a sentence when it is something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from dpepo.errors import RunFolderError
from dpepo.runs.summary import CurvePoint, Fact, Reference, ResultRow, Summary, read_summary, write_summary

ROW = ResultRow(label="after RL", split="test", num_envs=4, temperature=1.0, successes=3, n=4)


def test_a_summary_survives_the_way_to_disk_and_back(tmp_path: Path) -> None:
    summary = Summary(
        title="A run",
        notes=("Said plainly.",),
        curve=(CurvePoint(step=-1, series="K = 4", value=0.25, n=8),),
        table=(ROW,),
        references=(Reference(label="blind", value=0.33),),
        facts=(Fact(name="seed", value="0"),),
        commands=("dpepo view RUN",),
    )
    write_summary(tmp_path, summary)
    assert read_summary(tmp_path) == summary
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_rate_counts_successes_unless_an_estimate_is_given() -> None:
    assert ROW.rate == 0.75
    assert ROW.model_copy(update={"value": 0.7}).rate == 0.7
    assert ROW.model_copy(update={"successes": 0, "n": 0}).rate is None


def test_more_successes_than_episodes_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"successes \(5\) cannot exceed n \(4\)"):
        ResultRow(label="x", split="test", num_envs=1, temperature=0, successes=5, n=4)


def test_a_run_without_a_summary_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"unfinished.*dpepo view"):
        read_summary(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"title": 3}', '{"title": "x", "table": [{"label": "y"}]}', '{"title": "x", "new": 1}']
)
def test_a_damaged_or_foreign_summary_is_named_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "summary.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"summary\.json is not a summary that this version of dpepo reads") as caught:
        read_summary(tmp_path)
    assert "\n" not in str(caught.value)
