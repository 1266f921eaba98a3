"""Two evaluations on the same tasks: real runs, pairs counted by hand, and everything that may be wrong with a folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.eval_runs import (
    LOST_TASKS,
    change_run_file,
    episodes_in,
    evaluated,
    from_another_version,
    several_stages,
    unfinished,
)

from dpepo.errors import RequestError, RunFolderError
from dpepo.evaluation.compare import compare_runs, paired_test
from dpepo.protocol import prompt
from dpepo.runs.stats import mcnemar_exact, newcombe_paired_interval

ALL = ("tasks.eval.names=[room,house]",)  # 20 tasks


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "random": evaluated(folder / "random", *ALL),
        "oracle": evaluated(folder / "oracle", *ALL, "eval.policy=oracle", "rollout.max_turns=6"),
        "one copy": evaluated(folder / "one", *ALL, "eval.num_envs=1", "eval.temperature=0.5", "eval.over_limit=ignore"),
        "rooms": evaluated(folder / "rooms", "tasks.eval.names=[room]", "seed=3"),
        "four tries": evaluated(folder / "four", *ALL, "eval.episodes_per_task=4"),
    }


def test_one_episode_per_task_is_compared_by_mcnemars_test_on_the_pairs(runs: dict[str, Path]) -> None:
    solved = {name: {episode.task.id: episode.success for episode in episodes_in(runs[name])} for name in ("random", "oracle")}
    only_a = sum(solved["random"][task] and not solved["oracle"][task] for task in solved["random"])
    only_b = sum(solved["oracle"][task] and not solved["random"][task] for task in solved["random"])
    both = sum(solved["oracle"][task] and solved["random"][task] for task in solved["random"])
    assert only_b > 0
    found = compare_runs(str(runs["random"]), str(runs["oracle"]))
    assert found.tasks == 20
    assert (found.test.a_better, found.test.b_better, found.test.equal) == (only_a, only_b, 20 - only_a - only_b)
    assert found.test.difference == pytest.approx((only_b - only_a) / 20)
    assert found.test.p_value == mcnemar_exact(only_a, only_b)
    assert found.test.interval == newcombe_paired_interval(both, only_a, only_b, 20 - both - only_a - only_b)
    assert found.by_type["room"][0] == found.by_type["house"][0] == 10


def test_the_other_way_round_everything_changes_sign(runs: dict[str, Path]) -> None:
    one = compare_runs(str(runs["random"]), str(runs["oracle"])).test
    other = compare_runs(str(runs["oracle"]), str(runs["random"])).test
    assert other.difference == pytest.approx(-one.difference)
    assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]))
    assert other.p_value == one.p_value


def test_several_episodes_per_task_are_compared_by_their_rates_with_a_seed(runs: dict[str, Path]) -> None:
    found = compare_runs(str(runs["random"]), str(runs["four tries"]), seed=1)
    assert found.test.p_by == "sign-flip test over tasks" and found.test.interval_by == "paired bootstrap over tasks"
    assert found == compare_runs(str(runs["random"]), str(runs["four tries"]), seed=1)
    low, high = found.test.interval
    assert low <= found.test.difference <= high
    rates: dict[str, list[bool]] = {}
    for episode in episodes_in(runs["four tries"]):
        rates.setdefault(episode.task.id, []).append(episode.success)
    expected = sum(sum(won) / 4 for won in rates.values()) / 20 - found.a.shared.success_rate
    assert found.test.difference == pytest.approx(expected)


def test_a_run_beside_itself_shows_no_difference(runs: dict[str, Path]) -> None:
    found = compare_runs(str(runs["random"]), str(runs["random"]))
    assert (found.test.difference, found.test.p_value, found.warnings) == (0.0, 1.0, ())
    assert found.test.interval[0] < 0 < found.test.interval[1]


def test_everything_that_was_not_played_alike_is_named_and_the_comparison_goes_on(runs: dict[str, Path]) -> None:
    found = compare_runs(str(runs["random"]), str(runs["one copy"]))
    [warning] = found.warnings
    for part in ("K: 2 and 1", "temperature: 0.0 and 0.5", "rule above K: fail and ignore"):
        assert part in warning
    assert "Attention: not played alike" in str(found)
    assert "turn limit: 3 and 6" in compare_runs(str(runs["random"]), str(runs["oracle"])).warnings[0]


def test_tasks_that_only_one_has_are_counted_and_left_out(runs: dict[str, Path]) -> None:
    found = compare_runs(str(runs["random"]), str(runs["rooms"]))
    assert (found.tasks, found.a.only, found.b.only) == (10, 10, 0)
    assert found.a.shared.played == 10 and found.a.whole.played == 20
    assert "taken from other lists: task types: ['room', 'house'] and ['room']" in found.warnings[0]
    assert "10 tasks in both; 10 only in A, 0 only in B" in str(found)


def test_runs_without_a_task_in_common_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    other = evaluated(tmp_path / "train", "tasks.eval.split=train", "tasks.eval.limit=2")
    with pytest.raises(RequestError, match=r"20 tasks of toy dev.*2 tasks of toy train.*no finished task in common"):
        compare_runs(str(runs["random"]), str(other))


def test_lost_episodes_are_counted_apart_and_their_tasks_left_out(tmp_path: Path) -> None:
    """V10."""
    broken = evaluated(tmp_path / "broken", *LOST_TASKS)
    whole = evaluated(tmp_path / "whole", *LOST_TASKS, "env.options.fault_action=dance")
    found = compare_runs(str(whole), str(broken))
    lost = sum(episode.outcome is None for episode in episodes_in(broken))
    assert 0 < lost < 20
    assert (found.b.whole.lost, found.a.whole.lost, found.tasks, found.a.only) == (lost, 0, 20 - lost, lost)
    assert f"lost to faults: 0 of 20 episodes of A, {lost} of 20 of B" in str(found)


def test_other_words_under_the_same_settings_are_noticed(tmp_path: Path, runs: dict[str, Path]) -> None:
    words = tmp_path / "words"
    shutil.copytree(prompt._FOLDER / "compact", words)
    one = evaluated(tmp_path / "one", f"prompt.templates={words}")
    first = words / "first_turn.j2"
    first.write_text("Please. " + first.read_text(encoding="utf-8"), encoding="utf-8")
    other = evaluated(tmp_path / "other", f"prompt.templates={words}")
    found = compare_runs(str(one), str(other))
    assert found.warnings == ("the first prompts of 10 tasks are worded differently, e.g. of toy/room/20",)
    assert "wording of the prompt" in compare_runs(str(one), str(runs["random"])).warnings[0]


def test_tasks_that_begin_otherwise_are_noticed(tmp_path: Path) -> None:
    """As after an update of a world: the settings are equal, the words of the world are not."""
    one, other = evaluated(tmp_path / "one"), evaluated(tmp_path / "other")
    [file] = (other / "episodes").glob("*.jsonl")
    goal = episodes_in(other)[0].goal
    file.write_text(file.read_text(encoding="utf-8").replace(goal, "Sit down."), encoding="utf-8")
    [warning] = compare_runs(str(one), str(other)).warnings
    assert "begin otherwise" in warning


def test_half_written_episodes_and_unfinished_runs_are_said(tmp_path: Path, runs: dict[str, Path]) -> None:
    cut = unfinished(evaluated(tmp_path / "cut", *ALL), keep=7)
    found = compare_runs(str(runs["random"]), str(cut))
    assert (found.tasks, found.a.only) == (7, 13)
    assert any("line 8" in note for note in found.notes)
    assert any("not finished; 7 episodes so far" in note for note in found.notes)


def test_one_episode_only_and_no_success_at_all_are_shown_for_what_they_are(tmp_path: Path) -> None:
    settings = ("tasks.eval.ids=[toy/room/20]", "eval.policy=tests.support.eval_runs:Idle")
    one, other = evaluated(tmp_path / "one", *settings), evaluated(tmp_path / "other", *settings, "seed=1")
    found = compare_runs(str(one), str(other))
    assert (found.tasks, found.test.difference, found.test.p_value) == (1, 0.0, 1.0)
    assert found.test.interval[0] < -0.7 and found.test.interval[1] > 0.7
    assert "success                   0.000 (0 of 1)  0.000 (0 of 1)" in str(found)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: shutil.rmtree(folder / "episodes"), "holds no evaluation"),
        (lambda folder: (folder / "run.json").unlink(), r"holds no run \(no run.json\)"),
        (lambda folder: (folder / "run.json").write_text("{"), "not a run of dpepo, or damaged"),
        (lambda folder: (folder / "config.yaml").unlink(), "configuration .* cannot be read"),
        (from_another_version, "configuration .* cannot be read.*teleport"),
    ],
    ids=["no episodes", "no run.json", "half a run.json", "no config", "another version"],
)
def test_a_folder_that_cannot_be_read_is_refused_with_a_sentence(
    tmp_path: Path, runs: dict[str, Path], damage: Callable[[Path], object], says: str
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(runs["rooms"], folder)
    damage(folder)
    with pytest.raises(RunFolderError, match=f"(?s){says}"):
        compare_runs(str(folder), str(runs["random"]))


def test_a_result_of_another_version_is_counted_again_from_the_episodes(tmp_path: Path, runs: dict[str, Path]) -> None:
    folder = tmp_path / "r"
    shutil.copytree(runs["rooms"], folder)
    change_run_file(folder, lambda content: content["sessions"][-1].update(result={"success_rate": 0.99}))
    found = compare_runs(str(folder), str(runs["rooms"]))
    assert found.a.whole.success_rate == found.b.whole.success_rate


def test_a_run_with_several_evaluations_needs_a_choice(tmp_path: Path) -> None:
    folder = several_stages(tmp_path / "demo")
    with pytest.raises(RunFolderError, match=r"holds 2 evaluations\. Choose one: .*demo#eval-rl-k1, "):
        compare_runs(str(folder), str(folder))
    with pytest.raises(RunFolderError, match=r"no evaluation 'eval-rl-k3'\. Did you mean 'eval-rl-k"):
        compare_runs(f"{folder}#eval-rl-k3", str(folder))
    found = compare_runs(f"{folder}#eval-rl-k1", f"{folder}#eval-rl-k2")
    assert "K: 1 and 2" in found.warnings[0]
    assert (found.a.conditions.temperature, found.a.conditions.split, found.a.policy) == (0.7, "dev", "after RL")
    (folder / "summary.json").unlink()
    found = compare_runs(f"{folder}#eval-rl-k1", f"{folder}#eval-rl-k2")
    assert found.a.conditions.temperature is None
    assert "the temperature of one of them is not recorded" in found.warnings


@pytest.mark.parametrize("single", [True, False])
def test_nothing_but_ties_says_nothing(single: bool) -> None:
    rates = {f"toy/room/{number}": 0.0 for number in range(12)}
    test = paired_test(rates, rates, sorted(rates), single=single)
    assert (test.difference, test.p_value, test.equal) == (0.0, 1.0, 12)
