"""Advantages on disk: they come back by episode, and damage is named."""

from __future__ import annotations

from pathlib import Path

from tests.support.sample_episodes import credited, hostile_episode, sample_group, scored

from dpepo.runs.advantages import EpisodeName, episode_advantages, read_advantages, write_advantages
from dpepo.types import EpisodeGroup, TurnAdvantages


def test_advantages_come_back_by_task_seed_and_sibling(tmp_path: Path) -> None:
    group = credited(sample_group(1, skill=0.4, seed=3, num_siblings=8))
    records = episode_advantages([group], algorithm="dpepo")
    write_advantages(tmp_path, "rl", 3, records)
    problems: list[str] = []
    found = read_advantages(tmp_path, "rl", 3, problems=problems)
    assert [found[EpisodeName.of(sibling.episode)] for sibling in group.group.siblings] == records
    assert {record.trajectory for record in records} == set(group.trajectory)
    assert problems == []


def test_a_step_without_advantages_has_none(tmp_path: Path) -> None:
    assert read_advantages(tmp_path, "rl", 3, problems=[]) == {}


def test_a_step_written_again_replaces_what_stood_there(tmp_path: Path) -> None:
    write_advantages(
        tmp_path, "rl", 1, episode_advantages([credited(sample_group(1, skill=0.4, seed=3, num_siblings=8))], algorithm="dpepo")
    )
    write_advantages(
        tmp_path, "rl", 1, episode_advantages([credited(sample_group(1, skill=0.4, seed=3, num_siblings=2))], algorithm="grpo")
    )
    assert {found.algorithm for found in read_advantages(tmp_path, "rl", 1, problems=[]).values()} == {"grpo"}


def test_cut_and_foreign_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write_advantages(
        tmp_path, "rl", 1, episode_advantages([credited(sample_group(1, skill=0.4, seed=3, num_siblings=2))], algorithm="dpepo")
    )
    whole = path.read_text(encoding="utf-8")
    path.write_text('{"turns": "none"}\n' + whole + whole[:40], encoding="utf-8")
    problems: list[str] = []
    assert len(read_advantages(tmp_path, "rl", 1, problems=problems)) == 2
    assert len(problems) == 2
    assert all(problem.startswith("advantages/rl-0001.jsonl, line") for problem in problems)


def test_a_task_name_without_a_form_in_utf8_is_written_all_the_same(tmp_path: Path) -> None:
    episode = hostile_episode()
    task = episode.task.model_copy(update={"id": "toy/\ud800/1"})
    sibling = scored(episode.model_copy(update={"task": task}))
    group = TurnAdvantages(group=EpisodeGroup(task=task, siblings=(sibling,)), trajectory=(None,), turns=((),))
    write_advantages(tmp_path, "rl", 1, episode_advantages([group], algorithm="dpepo"))
    assert EpisodeName.of(sibling.episode) in read_advantages(tmp_path, "rl", 1, problems=[])
