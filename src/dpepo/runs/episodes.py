"""A run's episodes on disk: ``episodes/<stage>-<step>.jsonl``, one record per line.

Each line is ``{"kind": "episode" | "scored", "stage": str, "step": int, "record": {...}}``; the record is an
`Episode` or a `ScoredEpisode`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from dpepo.runs.files import append_lines, read_json_lines, write_atomic
from dpepo.types import Episode, ScoredEpisode

_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KINDS: dict[str, type[Episode] | type[ScoredEpisode]] = {"episode": Episode, "scored": ScoredEpisode}


class EpisodeFileName(NamedTuple):
    """What the name of an episode file says."""

    stage: str
    step: int


class EpisodeLine(NamedTuple):
    """One recorded episode."""

    stage: str  # e.g. "synth", "rl", "eval-k4"
    step: int
    record: Episode | ScoredEpisode

    @property
    def episode(self) -> Episode:
        """The episode, whether scored or not."""
        return self.record.episode if isinstance(self.record, ScoredEpisode) else self.record


def episode_file_name(stage: str, step: int) -> str:
    """The file of a stage and step.

    >>> episode_file_name("eval-k4", 12)
    'eval-k4-0012.jsonl'
    """
    if not _STAGE.fullmatch(stage) or step < 0:
        raise ValueError(f"a stage is letters, digits, '_', '.', '-' and a step is 0 or more, got {stage!r} and {step}")
    return f"{stage}-{step:04d}.jsonl"


def parse_file_name(name: str) -> EpisodeFileName | None:
    """The stage and step of an episode file; None for any other file.

    >>> parse_file_name("eval-k4-0012.jsonl")
    EpisodeFileName(stage='eval-k4', step=12)
    """
    match = re.fullmatch(r"(.+)-([0-9]{4,})\.jsonl", name)
    return EpisodeFileName(match[1], int(match[2])) if match and _STAGE.fullmatch(match[1]) else None


def write_episodes(folder: Path, stage: str, step: int, records: Iterable[Episode | ScoredEpisode]) -> Path:
    """Append episodes to the file of their stage and step, in UTF-8 whatever the locale; returns the file.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / episode_file_name(stage, step)
    folder.mkdir(parents=True, exist_ok=True)
    append_lines(path, (_line(stage, step, record) for record in records))
    return path


def replace_episodes(folder: Path, stage: str, step: int, records: Sequence[Episode | ScoredEpisode]) -> None:
    """Write the file of a stage and step anew, whole or not at all; without records there is no such file.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / episode_file_name(stage, step)
    if not records:
        path.unlink(missing_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{_line(stage, step, record)}\n" for record in records))


def _line(stage: str, step: int, record: Episode | ScoredEpisode) -> str:
    kind = "scored" if isinstance(record, ScoredEpisode) else "episode"
    try:
        body = record.model_dump_json()
    except PydanticSerializationError:  # half a surrogate pair in a reply has no UTF-8 form; JSON can still escape it
        body = json.dumps(record.model_dump(mode="json"))
    return f'{{"kind": "{kind}", "stage": "{stage}", "step": {step}, "record": {body}}}'


def read_episodes(
    folder: Path, *, stage: str | None = None, problems: list[str], lenient: bool = False
) -> Iterator[EpisodeLine]:
    """Read the episodes of a run, by stage and step, one at a time.

    Args:
        folder: The run's ``episodes`` folder; one that does not exist holds none.
        stage: Only this stage; None reads all.
        problems: Receives a sentence for every line that is cut off or damaged; such lines are left out.
        lenient: For pages only. Fields that this version does not know, thus from a newer one, are left out and named in
            `problems`, instead of the whole line.
    """
    files = [
        (name, path) for path in folder.glob("*.jsonl") if (name := parse_file_name(path.name)) is not None and path.is_file()
    ]
    for name, path in sorted(files):
        if stage not in (None, name.stage):
            continue
        yield from read_episode_file(path, problems=problems, lenient=lenient)


def read_episode_file(path: Path, *, problems: list[str], lenient: bool = False) -> Iterator[EpisodeLine]:
    """Read one file of episodes, whatever its name; see `read_episodes`.

    Raises:
        OSError: The file cannot be opened.
    """
    name = parse_file_name(path.name) or EpisodeFileName(path.stem, 0)
    for line in read_json_lines(path):
        if line.value is None:
            problems.append(line.problem)
            continue
        kind = _KINDS.get(str(line.value.get("kind")))
        if kind is None:
            problems.append(f"{path.name}, line {line.number} is of no known kind; left out")
            continue
        record = line.value.get("record")
        try:
            yield EpisodeLine(name.stage, name.step, kind.model_validate(record))
        except ValidationError as error:
            unknown = _drop_unknown(record, error) if lenient else []
            if not unknown:
                problems.append(f"{path.name}, line {line.number} is no whole record ({error.error_count()} faults); left out")
                continue
            problems.append(f"{path.name}, line {line.number} has fields of another version ({', '.join(unknown)}); left out")
            yield EpisodeLine(name.stage, name.step, kind.model_validate(record))


def _drop_unknown(record: Any, error: ValidationError) -> list[str]:
    """Delete fields without a place in a record, and name them; nothing where that is not all that is wrong."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    if any(fault["type"] != "extra_forbidden" for fault in faults):
        return []
    for fault in faults:
        *way, last = fault["loc"]
        holder = record
        for key in way:
            holder = holder[key]
        del holder[last]
    return sorted({str(fault["loc"][-1]) for fault in faults})
