"""The command ``dpepo data export``: a dataset for this or another trainer, with its card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from dpepo.errors import ConfigError, TaskError
from dpepo.runs.episodes import parse_file_name, read_episode_file
from dpepo.runs.files import write_atomic
from dpepo.synthesis.card import CARD, Contents, export_card
from dpepo.synthesis.formats.files import check_ending, write_rows
from dpepo.synthesis.formats.rows import Row
from dpepo.synthesis.formats.shapes import Format, find_format
from dpepo.types import Episode, Record

REGISTER = "dataset_info.json"
"""LLaMA-Factory's list of datasets."""

_FILE = "train.jsonl"


class ExportedData(Record):
    """What was written."""

    file: str
    card: str
    rows: int
    episodes: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The result for a person."""
        return "\n".join([f"Wrote {self.rows} rows of {self.episodes} episodes to {self.file}; card: {self.card}", *self.notes])


def export_data(source: Path, *, format: str, out: Path, stage: str = "") -> ExportedData:
    """Write the episodes of a run, or of a file of episodes, as rows.

    Args:
        source: A run folder, or a JSONL file of episodes.
        format: A name in `dpepo.synthesis.formats.FORMATS`.
        out: The file to write (.jsonl, .json or .parquet), or a folder, which gets ``train.jsonl``.
        stage: Of a run: which episodes, e.g. "rl"; empty: those of ``dpepo synth`` and ``dpepo data import``.

    Raises:
        ConfigError: No such format, or the file exists.
        TaskError: There are no episodes.
        MissingPackage: A parquet file, and pyarrow is not installed.
    """
    shape = find_format(format)
    file = out if out.suffix else out / _FILE
    check_ending(file)
    if file.exists():
        raise ConfigError(f"{file} exists; nothing is overwritten. Try: --out ANOTHER_FILE")
    entry = None if shape.register is None else _entry(shape, file)
    contents, problems = Contents(), list[str]()
    files = _episode_files(source, stage)
    rows = write_rows(file, _rows(files, shape, contents=contents, problems=problems))
    if not rows:
        file.unlink()
        raise TaskError(f"{source} holds no episode with a turn" + (f" ({problems[0]})" if problems else ""))
    if entry is not None:
        write_atomic(file.parent / REGISTER, json.dumps(entry, indent=2, ensure_ascii=False) + "\n")
    card = file.parent / CARD
    if card.exists():
        card = file.with_name(f"{file.stem}.{CARD}")
    write_atomic(card, export_card(contents, shape=shape, file=file, rows=rows, source=source, stage=stage))
    return ExportedData(file=str(file), card=str(card), rows=rows, episodes=contents.episodes, notes=tuple(problems))


def _episode_files(source: Path, stage: str) -> list[Path]:
    if source.is_file():
        return [source]
    found = [(name, path) for path in (source / "episodes").glob("*.jsonl") if (name := parse_file_name(path.name))]
    chosen = sorted((name, path) for name, path in found if name.stage == (stage or "synth"))
    if not chosen:
        stages = ", ".join(sorted({name.stage for name, _ in found}))
        raise TaskError(
            f"{source} holds no episodes of the stage {stage or 'synth'!r}. "
            + (f"It has: {stages}. Try: --stage" if stages else "")
        )
    return [path for _, path in chosen]


def _rows(files: list[Path], shape: Format, *, contents: Contents, problems: list[str]) -> Iterator[Row]:
    number = 0
    for file in files:
        for line in read_episode_file(file, problems=problems):
            episode: Episode = line.episode
            contents.add(episode)
            yield from shape.make_rows(episode, number)
            number += 1


def _entry(shape: Format, file: Path) -> dict[str, object]:
    """LLaMA-Factory's list with this dataset in it.

    Raises:
        ConfigError: The list cannot be read, or has another dataset of this name.
    """
    path = file.parent / REGISTER
    known: dict[str, object] = {}
    if path.exists():
        try:
            known = dict(json.loads(path.read_text(encoding="utf-8-sig")))
        except (ValueError, TypeError):
            raise ConfigError(f"{path} is no list of datasets that could be added to. Try: --out in another folder") from None
    if file.stem in known:
        raise ConfigError(f"{path} names a dataset {file.stem!r} already. Try: --out with another file name")
    return {**known, file.stem: {"file_name": file.name, **(shape.register or {})}}
