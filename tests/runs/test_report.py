"""The report of a finished run, without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.sample_episodes import HOSTILE, hostile_episode, lifespan_episode, lost_episode, write_sample_run

from dpepo.errors import RunFolderError
from dpepo.runs.episodes import write_episodes
from dpepo.runs.report import choose_episodes, headline, results_table, write_report
from dpepo.runs.stats import wilson_interval
from dpepo.runs.summary import ResultRow, Summary, write_summary


def row(
    label: str,
    successes: int,
    n: int,
    *,
    num_envs: int = 4,
    tries: int = 1,
    split: str = "test",
    stage: str = "",
    lost: int = 0,
) -> ResultRow:
    return ResultRow(
        label=label,
        stage=stage,
        split=split,
        num_envs=num_envs,
        tries=tries,
        temperature=1.0,
        max_turns=3,
        successes=successes,
        n=n,
        lost=lost,
    )


def visible(page: Path) -> str:
    """The page's own words: markup, scripts and styles taken away."""
    text = re.sub(r"<(script|style).*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def test_rows_of_two_policies_stand_on_one_line_with_their_difference() -> None:
    (line,) = results_table([row("before", 70, 192), row("after", 158, 192)])
    before, after = line.cells
    assert before is not None
    assert after is not None
    assert before.interval == wilson_interval(70, 192)
    assert line.change is not None
    difference, interval = line.change
    assert difference == pytest.approx(88 / 192)
    assert interval.low < difference < interval.high


def test_newcombes_interval_agrees_with_the_published_example() -> None:
    """Newcombe 1998, table II, example (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339."""
    (line,) = results_table([row("b", 48, 80), row("a", 56, 70)])
    assert line.change is not None
    assert line.change[1].low == pytest.approx(0.0524, abs=5e-5)
    assert line.change[1].high == pytest.approx(0.3339, abs=5e-5)


def test_lines_are_grouped_by_split_and_the_first_row_makes_the_headline() -> None:
    table = [
        row("a", 1, 4),
        row("a", 1, 4, split="train"),
        row("a", 2, 4, num_envs=1),
        row("b", 3, 4),
        row("b", 2, 4, split="train"),
    ]
    lines = results_table(table)
    assert [(line.block.split(",")[0], line.how, line.starts_block) for line in lines] == [
        ("test", "4 environments (K = 4)", True),
        ("test", "one environment (K = 1)", False),
        ("train", "4 environments (K = 4)", True),
    ]
    assert headline(lines) is lines[0]
    assert lines[1].cells[1] is None
    assert lines[1].change is None


def test_one_policy_alone_or_nothing_counted_gives_no_headline_and_no_crash(tmp_path: Path) -> None:
    assert headline(results_table([row("only", 1, 4)])) is None
    assert headline(results_table([])) is None
    assert headline(results_table([row("a", 0, 0), row("b", 0, 0)])) is None
    write_summary(tmp_path, Summary(title="Nothing yet", table=(row("a", 0, 0),)))
    assert "Nothing yet" in visible(write_report(tmp_path))


def test_no_success_at_all_is_shown_as_zero_with_its_interval(tmp_path: Path) -> None:
    write_summary(tmp_path, Summary(title="Hard", table=(row("before", 0, 20), row("after", 0, 20))))
    words = visible(write_report(tmp_path))
    assert "0.0 %" in words
    assert "0.0 % to 16.1 %" in words


def test_lost_episodes_stand_beside_the_rate_with_both_denominators(tmp_path: Path) -> None:
    """V10: four episodes, two won, one lost to a fault: 2 of 3, and 2 of 4 = 50 % shown apart."""
    write_summary(tmp_path, Summary(title="Faults", table=(row("after", 2, 3, lost=1),)))
    words = visible(write_report(tmp_path))
    assert "66.7 % 2 of 3" in words
    assert "1 lost to faults, not counted; as failures: 50.0 %" in words


def test_settings_of_the_evaluation_are_stated(tmp_path: Path) -> None:
    """V07: K, turn limit and temperature are on the page."""
    write_summary(tmp_path, Summary(title="Run", table=(row("after", 2, 3, tries=4, num_envs=1),)))
    words = visible(write_report(tmp_path))
    assert "one environment (K = 1), best of 4 tries (pass@4)" in words
    assert "test, temperature 1, at most 3 turns" in words


def test_episodes_are_chosen_by_rule_the_first_turned_and_the_first_unsolved(tmp_path: Path) -> None:
    good = [lifespan_episode(v, skill=1.0, num_envs=4, seed=v) for v in range(6)]
    bad = [lifespan_episode(v, skill=-1.0, num_envs=4, seed=v) for v in range(6)]
    unsolved = [episode for episode in bad if not episode.success]
    write_episodes(tmp_path / "episodes", "before", 0, [lost_episode(), *bad])
    write_episodes(tmp_path / "episodes", "after", 0, [*good, *unsolved[:1]])
    summary = Summary(title="x", table=(row("B", 0, 6, stage="before"), row("A", 6, 7, stage="after")))
    first, second, third = choose_episodes(tmp_path, summary)
    assert first.line.episode == unsolved[0]
    assert second.line.episode.task == first.line.episode.task
    assert second.line.episode.success
    assert not third.line.episode.success
    assert third.key == "after-0000.7"


def test_stages_without_episodes_show_none(tmp_path: Path) -> None:
    assert choose_episodes(tmp_path, Summary(title="x", table=(row("B", 0, 6, stage="gone"), row("A", 6, 7)))) == []


def test_texts_of_the_summary_and_of_episodes_cannot_add_markup(tmp_path: Path) -> None:
    evil = HOSTILE[1]
    write_episodes(tmp_path / "episodes", "after", 0, [hostile_episode()])
    write_summary(tmp_path, Summary(title=evil, notes=(evil,), table=(row(evil, 1, 2, stage="after"),), commands=(evil,)))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<script>window" not in page
    assert page.count("<script") == 3  # theme, data, ours


def test_a_whole_sample_run_gives_every_section(tmp_path: Path) -> None:
    write_sample_run(tmp_path, groups=2)
    words = visible(write_report(tmp_path))
    for part in (
        "In plain words",
        "Learning curve",
        "Before and after",
        "A few episodes to read",
        "How it was made",
        "pass@4",
        "four blind picks",
    ):
        assert part in words


def test_a_run_without_summary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="does not exist"):
        write_report(tmp_path)
