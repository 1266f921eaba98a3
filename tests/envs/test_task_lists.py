"""Task lists in files: published ones as they are, plain ones, and those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.alfworld_games import LISTS

from dpepo.config import TaskSelection
from dpepo.envs import load_world, select_tasks
from dpepo.envs.base import World
from dpepo.envs.scienceworld.world import ScienceWorld
from dpepo.envs.task_lists import read_task_list, refuse_overlap, shared_tasks, types_note
from dpepo.envs.toy import ToyWorld
from dpepo.errors import TaskError

IDS = ["toy/room/0", "toy/house/3"]
needs_lists = pytest.mark.skipif(not LISTS.is_dir(), reason=f"the authors' lists are not here ({LISTS})")


def read(path: Path, content: Any, world: World | None = None) -> list[str]:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        parquet.write_table(pa.Table.from_pylist(content), path)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return [task.id for task in read_task_list(str(path), world or ToyWorld()).tasks]


def test_ids_are_read_from_every_kind_of_file_in_their_order(tmp_path: Path) -> None:
    """Case F05: a list and a dict of records name the same tasks."""
    rows = [{"gamefile": task_id, "note": 1} for task_id in IDS]
    assert read(tmp_path / "a.txt", "# a comment\ntoy/room/0\n\n  toy/house/3\n") == IDS
    assert read(tmp_path / "a.json", IDS) == IDS
    assert read(tmp_path / "b.json", rows) == IDS
    assert read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))) == IDS
    assert read(tmp_path / "a.parquet", rows) == IDS


def test_one_of_several_lists_is_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps({"train": IDS, "test": {"0": {"task_id": "toy/room/5"}}}))
    assert [task.id for task in read_task_list(f"{path}#test", ToyWorld()).tasks] == ["toy/room/5"]
    with pytest.raises(TaskError, match=r"holds the lists train, test.*#train"):
        read_task_list(str(path), ToyWorld())


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    """Case F08."""
    text = "\ufeff" + "\n".join(json.dumps({"task_id": f"toy/room/{n}"}) for n in range(3))
    assert read(tmp_path / "bom.jsonl", text) == ["toy/room/0", "toy/room/1", "toy/room/2"]


def test_rows_that_repeat_a_task_are_counted_and_played_once(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("toy/room/0\ntoy/house/3\ntoy/room/0\ntoy/room/0\n")
    found = read_task_list(str(path), ToyWorld())
    assert [task.id for task in found.tasks] == IDS and found.duplicates == {"toy/room/0": 2}
    assert found.note("list") == (
        "list: 4 rows name 2 tasks; 2 rows repeat another one and are not played again (task types: room)"
    )
    notes: list[str] = []
    with ToyWorld() as world:
        select_tasks(world, TaskSelection(file=str(path)), seed=0, note=notes.append)
    assert len(notes) == 1


@needs_lists
def test_the_public_scienceworld_test_list_counts_the_held_out_tasks_twice() -> None:
    """Case V05: 3,894 rows, 3,345 tasks; the 549 repeated ones are all of L2, so 1,135 of L1 are L1's alone."""
    world = ScienceWorld()
    found = read_task_list(f"{LISTS / 'scienceworld_splits.json'}#test", world)
    assert (found.num_rows, len(found.tasks), sum(found.duplicates.values())) == (3894, 3345, 549)
    assert set(found.duplicates) == {task.id for task in world.tasks("L2_test")}
    assert len(world.tasks("L1_only_test")) == 1135


@needs_lists
def test_the_levels_of_the_paper_are_those_of_the_authors_lists() -> None:
    world = ScienceWorld()
    rows = json.loads((LISTS / "scienceworld_splits.json").read_text())
    for level in ("L0", "L1", "L2"):
        expected = {f"scienceworld/{name}/{number}" for name, number, grade in rows["test"] if grade == level}
        assert {task.id for task in world.tasks(f"{level}_test")} == expected
    train = {task.id for task in world.tasks("L2_train")}
    assert train == {f"scienceworld/{name}/{number}" for name, number in rows["train_L2"]}
    held_out = {f"scienceworld/{name}/{number}" for name, number in rows["train_L01"]}
    assert {task.id for task in world.tasks("L0_train")} == train | held_out


def test_the_levels_have_the_published_sizes_and_no_task_of_theirs_is_trained_and_tested_on() -> None:
    world = ScienceWorld()
    sizes = {split: len(world.tasks(split)) for split in world.splits if split.startswith("L")}
    assert sizes == {
        "L0_train": 3322,
        "L0_test": 1661,
        "L1_train": 3322,
        "L1_test": 1684,
        "L1_only_test": 1135,
        "L2_train": 2242,
        "L2_test": 549,
    }
    for level in ("L0", "L1", "L2"):
        assert shared_tasks(world.tasks(f"{level}_train"), world.tasks(f"{level}_test")) == []
    assert not {task.name for task in world.tasks("L2_train")} & {task.name for task in world.tasks("L2_test")}


@needs_lists
def test_the_authors_training_list_names_existing_tasks() -> None:
    assert len(read_task_list(str(LISTS / "scienceworld_train_500.parquet"), ScienceWorld()).tasks) == 500


@needs_lists
def test_a_list_of_another_world_is_refused() -> None:
    """Case V07: a ScienceWorld run does not validate on a file of ALFWorld."""
    with pytest.raises(TaskError, match="140 of which are missing"):
        read_task_list(str(LISTS / "alfworld_test_indomain.parquet"), ScienceWorld())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.parquet", [{"answer": "x", "prompt": "y"}], "answer, prompt.*none that names a task"),
        ("a.json", [{"game": "toy/room/0"}], "no column that names a task.*gamefile"),
        ("a.json", "{", "no JSON"),
        ("a.jsonl", "{}\n{", "no column|no JSONL"),
        ("a.json", "3", "int where a list"),
        ("a.json", [3], "task ids such as"),
        ("a.txt", "", "is empty"),
        ("a.json", [], "is empty"),
        ("a.txt", "toy/room/0\ntoy/rom/1", r"1 of which are missing: toy/rom/1"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_at_once(tmp_path: Path, name: str, content: Any, says: str) -> None:
    """Cases F07 and V08."""
    with pytest.raises(TaskError, match=says):
        read(tmp_path / name, content)


def test_a_file_that_is_not_there_or_no_parquet_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"nothing\.json cannot be read"):
        read_task_list(str(tmp_path / "nothing.json"), ToyWorld())
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(TaskError, match="no parquet file"):
        read_task_list(str(tmp_path / "bad.parquet"), ToyWorld())


def test_tasks_in_both_lists_are_named() -> None:
    with load_world("toy") as world:
        train = [world.task(task_id) for task_id in IDS]
        assert shared_tasks(train, [*world.tasks("dev"), train[1]]) == ["toy/house/3"]


def test_lists_that_overlap_are_refused_with_count_names_and_a_way_out() -> None:
    """Case V05: what is measured on tasks of the training says nothing about new ones."""
    with load_world("toy") as world:
        train, evaluation = world.tasks("train"), world.tasks("dev")
        keys = ("tasks.train", "tasks.eval")
        refuse_overlap(train, evaluation, keys=keys, allow="x")
        with pytest.raises(TaskError, match=r"4 of the 34 tasks of tasks\.eval .* toy/room/2, and 1 more\. .*: tasks\.ok=true"):
            refuse_overlap(train, [*evaluation, *train[:4]], keys=keys, allow="tasks.ok=true")


def test_the_overlap_of_task_types_is_told() -> None:
    """Case V05: the ten types of the list train_L01 are those that L2 is tested on."""
    world = ScienceWorld()
    assert types_note(world.tasks("L2_train"), world.tasks("L2_test")) == ("tasks.eval: 0 of its 10 task types are trained on")
    assert "29 of its 29" in types_note(world.tasks("L1_train"), world.tasks("L1_test"))
    assert "19 of its 29" in types_note(world.tasks("L2_train"), world.tasks("L1_test"))
