"""Tables from real run folders, whole and damaged ones, in all kinds and formats."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.eval_runs import (
    LOST_TASKS,
    change_run_file,
    column,
    episodes_in,
    evaluated,
    from_another_version,
    several_stages,
    unfinished,
)

from dpepo.errors import RequestError, RunFolderError
from dpepo.evaluation.measured import find_measured
from dpepo.evaluation.tables import FORMATS, build_table
from dpepo.evaluation.tables.build import TableRequest
from dpepo.evaluation.tables.model import Table
from dpepo.runs import RunFolder, wilson_interval
from dpepo.runs.stats import t_interval

ALL = ("tasks.eval.names=[room,house]",)  # 20 tasks
SWEEP = """
baseline: two
variants:
  - {name: two, label: "two copies"}
  - {name: one, label: "one copy"}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "random": evaluated(folder / "random", *ALL),
        "oracle": evaluated(folder / "oracle", *ALL, "eval.policy=oracle"),
        "test": evaluated(folder / "test", *ALL, "tasks.eval.split=test"),
    }


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of a sweep of two variants and three seeds; one is missing, as in a sweep that is not done."""
    folder = tmp_path_factory.mktemp("sweep") / "s"
    for seed in range(3):
        for name, num_envs in (("one", 1), ("two", 2)):
            if (seed, name) != (2, "one"):
                place = folder / f"seed-{seed}" / name / "eval-dev"
                evaluated(place, *ALL, f"seed={seed}", f"eval.num_envs={num_envs}", "eval.episodes_per_task=2")
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    return folder


def table(*sources: Path | str, kind: str = "results", **more: object) -> Table:
    return build_table(TableRequest(sources=[str(source) for source in sources], kind=kind, **more))  # type: ignore[arg-type]


def lines(made: Table, form: str = "text") -> list[str]:
    return FORMATS[form](made).splitlines()


def numbers(made: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(FORMATS["csv"](made))))


# Success rates


def test_a_method_has_a_line_with_its_rate_by_type_and_its_interval(runs: dict[str, Path]) -> None:
    made = table(runs["random"], runs["oracle"])
    won = [episode for episode in episodes_in(runs["random"]) if episode.success]
    rate, rooms = len(won) / 20, sum(episode.task.name == "room" for episode in won) / 10
    low, high = wilson_interval(len(won), 20)
    assert f"{100 * rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]" in column(lines(made), "random")
    found = {(row["method"], row["column"]): row for row in numbers(made)}
    assert float(found["random", "toy/dev"]["value"]) == rate
    assert float(found["random", "toy/dev"]["low"]) == pytest.approx(low)
    assert float(found["random", "toy/dev//room"]["value"]) == pytest.approx(rooms)
    assert found["oracle", "toy/dev"]["n"] == "20" and found["oracle", "toy/dev"]["published"] == "false"


def test_how_everything_was_played_stands_below(runs: dict[str, Path]) -> None:
    """V07: K, turn limit and temperature are stated, and the number of tasks behind the rates (V04)."""
    text = "\n".join(lines(table(runs["random"], runs["oracle"])))
    assert "All played with: K = 2, 3 turns, temperature 0" in text
    assert "asking for more than K fails" in text
    assert "toy/dev: 20 tasks." in text


def test_what_was_played_differently_stands_in_the_labels(runs: dict[str, Path], tmp_path: Path) -> None:
    other = evaluated(tmp_path / "K = 1", *ALL, "eval.num_envs=1", "eval.temperature=0.7")
    made = table(runs["random"], other)
    assert [row.label for row in made.rows] == ["random; K = 2; temperature 0", "K = 1; temperature 0.7"]
    assert "K = " not in made.notes[0]


def test_lists_of_tasks_are_columns_and_one_label_is_one_line(runs: dict[str, Path]) -> None:
    made = table(runs["random"], runs["test"], labels=["chance", "chance"])
    assert [row.label for row in made.rows] == ["chance"]
    assert [column.key for column in made.columns] == ["toy/dev//house", "toy/dev//room", "toy/dev", "toy/test"]
    every = table(runs["random"], runs["test"], labels=["chance", "chance"], types="all")
    assert len(every.columns) == 6 and len(table(runs["test"], types="none").columns) == 1
    with pytest.raises(RunFolderError, match="1 labels for 2 runs"):
        table(runs["random"], runs["test"], labels=["chance"])


def test_other_tasks_in_the_same_column_are_named(runs: dict[str, Path], tmp_path: Path) -> None:
    """V04: 10 tasks beside 20 are not passed over in silence."""
    text = "\n".join(table(runs["random"], evaluated(tmp_path / "rooms", "tasks.eval.names=[room]")).notes)
    assert "toy/dev: 10 or 20 tasks (NOT THE SAME NUMBER FOR ALL)" in text
    assert "toy/dev: task types differ" in text


def test_lost_episodes_are_left_out_and_said_with_the_other_denominator(tmp_path: Path) -> None:
    """V10."""
    folder = evaluated(tmp_path / "broken", *LOST_TASKS)
    played = episodes_in(folder)
    lost, won = sum(episode.outcome is None for episode in played), sum(episode.success for episode in played)
    [row] = [row for row in numbers(table(folder)) if row["column"] == "toy/train"]
    assert (row["n"], row["lost"]) == (str(20 - lost), str(lost))
    assert float(row["value"]) == pytest.approx(won / (20 - lost))
    assert any(
        f"{lost} of 20 episodes lost to faults" in n and f"success {100 * won / 20:.1f} %" in n for n in table(folder).notes
    )


def test_several_tries_are_lines_of_their_own(tmp_path: Path) -> None:
    made = table(evaluated(tmp_path / "r", *ALL, "eval.episodes_per_task=2"), tries=(1, 2))
    assert [row.label for row in made.rows] == ["r", "r, pass@2"]
    first, second = (row.cells[-1].value for row in made.rows)
    assert first is not None and second is not None and second >= first
    assert any("20 tasks, 2 episodes each" in note for note in made.notes)


def test_a_world_of_many_types_shows_its_total_only(runs: dict[str, Path]) -> None:
    names = [f"type-{number}" for number in range(7)]
    [one] = find_measured([str(runs["random"])], note=pytest.fail)
    by_type = dict.fromkeys(names, one.result.by_type["room"])
    from dpepo.evaluation.tables.columns import rate_columns

    keys = ["w/test", *(f"w/test//{name}" for name in by_type)]
    assert [column.key for column in rate_columns(keys, types="first")] == ["w/test"]
    assert len(rate_columns(keys, types="all")) == 8


# Sweeps


def test_the_seeds_of_a_sweep_are_one_number_with_its_spread(sweep: Path) -> None:
    made = table(sweep, kind="ablation")
    assert [row.label for row in made.rows] == ["two copies; K = 2", "one copy; K = 1"]  # in the sweep's order
    rates = {
        (seed, name): RunFolder.open(sweep / f"seed-{seed}" / name / "eval-dev").sessions[-1]["result"]["success_rate"]
        for seed, name in [(0, "one"), (0, "two"), (1, "one"), (1, "two"), (2, "two")]
    }
    found = {(row["method"], row["column"]): row for row in numbers(made)}
    two = found["two copies; K = 2", "toy/dev"]
    mean, half, n = t_interval([rates[seed, "two"] for seed in range(3)])
    assert half is not None
    assert float(two["value"]) == pytest.approx(mean)
    assert (two["runs"], n) == ("3", 3)
    assert float(two["high"]) == pytest.approx(mean + half)
    difference = found["one copy; K = 1", "toy/dev minus baseline"]
    assert float(difference["value"]) == pytest.approx(sum(rates[s, "one"] - rates[s, "two"] for s in (0, 1)) / 2)
    assert "minus two copies" in lines(made)[3]


def test_the_baseline_can_be_chosen_and_evaluations_too(sweep: Path) -> None:
    assert "minus one copy" in lines(table(sweep, kind="ablation", baseline="one copy"))[3]
    with pytest.raises(RequestError, match=r"--baseline: there is no 'one cop'\. Did you mean 'one copy'"):
        table(sweep, kind="ablation", baseline="one cop")
    assert [row.label for row in table(sweep, only=["*/seed-0/one/*"]).rows] == ["one copy"]
    with pytest.raises(RunFolderError, match=r"--only .* fits nothing"):
        table(sweep, only=["*eval-test"])


def test_a_run_with_several_evaluations_has_a_line_for_each_way_of_playing(tmp_path: Path) -> None:
    folder = several_stages(tmp_path / "demo")
    made = table(folder)
    assert [row.label for row in made.rows] == ["demo, after RL; K = 1", "demo, after RL; K = 2"]
    assert any("temperature 0.7" in note for note in made.notes)
    assert [row.label for row in table(f"{folder}#eval-rl-k2").rows] == ["demo, after RL"]
    (folder / "summary.json").unlink()
    assert any("temperature not recorded" in note for note in table(folder).notes)


# Cost, memory, training


def test_costs_are_means_per_episode(runs: dict[str, Path]) -> None:
    played = episodes_in(runs["random"])
    found = {row["column"]: float(row["value"]) for row in numbers(table(runs["random"], kind="cost"))}
    assert found["turns"] == pytest.approx(sum(len(episode.turns) for episode in played) / 20)
    assert found["actions"] == pytest.approx(sum(episode.num_actions for episode in played) / 20)
    assert found["seconds"] == pytest.approx(sum(turn.seconds for episode in played for turn in episode.turns) / 20)
    assert found["reply_tokens"] == 0.0  # the random agent has no tokens


def test_memories_are_lines_in_the_order_of_their_size(tmp_path: Path) -> None:
    for name in ("full", "compact", "window 12", "window 2"):
        memory, _, window = name.partition(" ")
        evaluated(tmp_path / name.replace(" ", ""), f"prompt.memory={memory}", *([f"prompt.window={window}"] if window else []))
    made = table(*(tmp_path / name for name in ("full", "compact", "window12", "window2")), kind="memory", labels=["m"] * 4)
    assert [row.label for row in made.rows] == ["m; window 2", "m; window 12", "m; compact memory", "m; full memory"]


def test_training_is_shown_in_windows_of_steps(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "rl", config=RunFolder.open(evaluated(tmp_path / "e")).config, job="train")
    for step in range(1, 6):
        values = {"episode/success_rate": step / 10, "episode/actions_per_turn": 2.0, "episode/turns": 3.0}
        spread = {"episode/actions_per_turn_std": 1.0, "response_length/mean": 50.0}
        run.metrics.log("rl", step, values | spread | ({"val/success_rate": 0.25} if step == 2 else {}))
    run.finish({})
    run.close()
    made = table(tmp_path / "rl", kind="dynamics", window=2)
    assert [(row.label, row.group) for row in made.rows] == [(label, str(tmp_path / "rl")) for label in ("1-2", "3-4", "5")]
    assert [cell.value for cell in made.rows[0].cells] == pytest.approx([2.0, 1.0, 150.0, 3.0, 15.0, 25.0])
    assert made.rows[1].cells[-1].text == ""  # nothing was evaluated there
    assert len(table(tmp_path / "rl", kind="dynamics").rows) == 5
    with pytest.raises(RunFolderError, match="no reinforcement learning there"):
        table(tmp_path / "e", kind="dynamics")


# Folders that are not as they should be


def test_half_written_and_unfinished_runs_are_counted_and_said(tmp_path: Path) -> None:
    cut = unfinished(evaluated(tmp_path / "cut", *ALL), keep=5)
    made = table(cut)
    assert {row["n"] for row in numbers(made) if row["column"] == "toy/dev"} == {"5"}
    assert any("line 6" in note for note in made.notes)
    assert any("not finished; 5 episodes so far" in note for note in made.notes)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (from_another_version, "configuration"),
        (lambda folder: (folder / "run.json").write_text("[]"), "damaged"),
        (lambda folder: shutil.rmtree(folder / "episodes"), "no episodes yet"),
        (lambda folder: unfinished(folder, keep=0), "no whole episode"),
    ],
    ids=["another version", "damaged", "no episodes", "half an episode"],
)
def test_a_run_that_cannot_be_read_is_named_beside_the_others_and_refused_alone(
    tmp_path: Path, runs: dict[str, Path], damage: Callable[[Path], object], says: str
) -> None:
    folder = tmp_path / "bad"
    shutil.copytree(runs["random"], folder)
    damage(folder)
    made = table(folder, runs["oracle"])
    assert [row.label for row in made.rows] == ["oracle"]
    assert any("bad" in note and says in note and "left out" in note for note in made.notes)
    with pytest.raises(RunFolderError):
        table(folder)


def test_a_result_of_another_version_is_counted_again(tmp_path: Path, runs: dict[str, Path]) -> None:
    folder = tmp_path / "random"
    shutil.copytree(runs["random"], folder)
    change_run_file(folder, lambda content: content["sessions"][-1].update(result={"success_rate": 0.99}))
    assert table(folder).rows == table(runs["random"]).rows


def test_no_success_and_a_single_episode_are_shown_with_their_wide_intervals(tmp_path: Path) -> None:
    idle = ("eval.policy=tests.support.eval_runs:Idle",)
    nothing, single = (
        evaluated(tmp_path / "nothing", *idle),
        evaluated(tmp_path / "single", *idle, "tasks.eval.ids=[toy/room/20]"),
    )
    assert "0.0 [0.0, 27.8]" in column(lines(table(nothing)), "nothing")
    assert "0.0 [0.0, 79.3]" in column(lines(table(single)), "single")


def test_where_all_episodes_of_a_type_are_lost_the_cell_says_so(tmp_path: Path, runs: dict[str, Path]) -> None:
    folder = tmp_path / "random"
    shutil.copytree(runs["random"], folder)

    def lose_rooms(content: dict[str, dict[str, dict[str, dict[str, object]]]]) -> None:
        content["sessions"][-1]["result"]["by_type"]["room"].update(successes=0, n=0, lost=10)  # type: ignore[index]

    change_run_file(folder, lose_rooms)
    assert "all 10 lost" in column(lines(table(folder)), "random")


def test_requests_that_mean_nothing_are_refused(tmp_path: Path, runs: dict[str, Path]) -> None:
    with pytest.raises(RequestError, match=r"there is no 'ablations'\. Did you mean 'ablation'"):
        table(runs["random"], kind="ablations")
    with pytest.raises(RequestError, match="--types: 'some' is none of first, all, none"):
        table(runs["random"], types="some")
    with pytest.raises(RequestError, match="Nothing to show"):
        table()
    with pytest.raises(RunFolderError, match="There is no folder"):
        table(tmp_path / "gone")
    with pytest.raises(RunFolderError, match="no evaluation there"):
        table(tmp_path)


# Formats


def test_every_format_shows_every_number(runs: dict[str, Path]) -> None:
    made = table(runs["random"], runs["oracle"], published=True, kind="cost")
    cells = [cell.text for row in made.rows for cell in row.cells if cell.text]
    for form in ("text", "markdown", "latex"):
        shown = "\n".join(lines(made, form))
        assert all(cell in shown for cell in cells), form
        assert "published, not measured here" in shown, form
    assert len(numbers(made)) == len(cells)


def test_markdown_and_latex_are_well_formed_whatever_the_labels_hold(runs: dict[str, Path]) -> None:
    made = table(runs["random"], runs["oracle"], labels=["a|b_c & 50 %", "{x}\\y"])
    rows = [line for line in lines(made, "markdown") if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {5}
    latex = lines(made, "latex")
    body = [line for line in latex if line.endswith(r"\\")]
    assert r"a|b\_c \& 50 \%" in body[-2] and r"\{x\}\textbackslash{}y" in body[-1]
    assert {line.replace(r"\&", "").count(" & ") for line in body[1:]} == {3}
    assert latex[-1] == r"\end{tabular}" and r"\begin{tabular}{lrrr}" in latex
    assert r"\multicolumn{3}{c}{toy dev}" in body[0]
