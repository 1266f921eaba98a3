from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpepo.envs.scienceworld.tasks import NUM_VARIATIONS, find_task, split_tasks, variations
from dpepo.errors import TaskError


def test_splits_equal_the_package(plain_package: Callable[[list[dict[str, Any]]], Any]) -> None:
    names = list(NUM_VARIATIONS)
    answers = plain_package([{"splits": name} for name in names])
    for name, lists in zip(names, answers, strict=True):
        assert [list(variations(name, split)) for split in ("train", "dev", "test")] == lists, name


def test_splits_have_the_published_sizes_and_a_fixed_order() -> None:
    """F17"""
    lists = {split: split_tasks(split) for split in ("train", "dev", "test")}
    assert {split: len(tasks) for split, tasks in lists.items()} == {"train": 3592, "dev": 1796, "test": 1819}
    for tasks in lists.values():
        places = [(task.name, int(task.id.rpartition("/")[2])) for task in tasks]
        assert places == sorted(places)


def test_every_listed_task_is_found_again() -> None:
    for split in ("train", "dev", "test"):
        for task in split_tasks(split):
            assert find_task(task.id) == task


@pytest.mark.parametrize(
    ("task_id", "hint"),
    [
        ("scienceworld/boli/3", "Did you mean 'boil'"),
        ("scienceworld/boil/30", "0 to 29"),
        ("scienceworld/boil/-1", "ids look like"),
        ("scienceworld/boil/007", "ids look like"),
        ("scienceworld/boil/٣", "ids look like"),
        ("scienceworld/boil", "ids look like"),
        ("scienceworld/boil/1/2", "ids look like"),
        ("scienceworld/boil/1\n", "ids look like"),
        ("toy/house/1", "ids look like"),
        ("", "ids look like"),
    ],
)
def test_a_wrong_id_is_refused_with_a_hint(task_id: str, hint: str) -> None:
    with pytest.raises(TaskError, match=hint):
        find_task(task_id)
