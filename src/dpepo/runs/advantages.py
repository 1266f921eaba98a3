"""What an algorithm made of a step's episodes: ``advantages/<stage>-<step>.jsonl``, a line per episode that was learnt from.

A file of its own, because advantages are known only after all episodes of a step are recorded, and a record is never filled in
later. Task, seed and sibling say which episode of the same stage and step a line belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from dpepo.runs.episodes import episode_file_name
from dpepo.runs.files import read_json_lines, write_atomic
from dpepo.types import Episode, Record, TurnAdvantages

FOLDER = "advantages"


class EpisodeAdvantages(Record):
    """The advantages of one recorded episode."""

    task: str  # id
    seed: int
    sibling: int
    algorithm: str  # as `algorithm.name` says
    trajectory: float | None  # Phi_traj; None where the episode was left out
    turns: tuple[float, ...]  # Phi per turn; empty where the episode was left out


class EpisodeName(NamedTuple):
    """Which episode of a stage and step."""

    task: str
    seed: int
    sibling: int

    @classmethod
    def of(cls, episode: Episode) -> EpisodeName:
        """The name of an episode."""
        return cls(episode.task.id, episode.seed, episode.sibling)


def episode_advantages(groups: Sequence[TurnAdvantages], *, algorithm: str) -> list[EpisodeAdvantages]:
    """The advantages of all siblings of some groups, one after the other."""
    return [
        EpisodeAdvantages(**EpisodeName.of(sibling.episode)._asdict(), algorithm=algorithm, trajectory=trajectory, turns=turns)
        for group in groups
        for sibling, trajectory, turns in zip(group.group.siblings, group.trajectory, group.turns, strict=True)
    ]


def write_advantages(run: Path, stage: str, step: int, records: Sequence[EpisodeAdvantages]) -> Path:
    """Write the file of a stage and step, whole or not at all; returns the file.

    Raises:
        OSError: The file cannot be written.
    """
    path = run / FOLDER / episode_file_name(stage, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{json.dumps(record.model_dump())}\n" for record in records))
    return path


def read_advantages(run: Path, stage: str, step: int, *, problems: list[str]) -> dict[EpisodeName, EpisodeAdvantages]:
    """The advantages of a stage and step by episode; none where nothing was recorded.

    Args:
        run: The run folder.
        stage: E.g. "rl".
        step: Of the stage.
        problems: Receives a sentence for every line that is damaged; such lines are left out.

    Raises:
        OSError: There is a file and it cannot be opened.
    """
    path = run / FOLDER / episode_file_name(stage, step)
    found: dict[EpisodeName, EpisodeAdvantages] = {}
    for line in read_json_lines(path) if path.is_file() else ():
        if line.value is None:
            problems.append(f"{FOLDER}/{line.problem}")
            continue
        try:
            record = EpisodeAdvantages.model_validate(line.value)
        except ValidationError as error:
            problems.append(f"{FOLDER}/{path.name}, line {line.number} holds no advantages ({error.error_count()} faults)")
            continue
        found[EpisodeName(record.task, record.seed, record.sibling)] = record
    return found
