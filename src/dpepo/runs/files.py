"""Writing so that a crash leaves either the old or the new content, and reading files that a crash cut short."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple


def write_atomic(path: Path, text: str) -> None:
    """Replace a file's content in one move; a crash leaves the old content whole.

    Raises:
        OSError: The folder cannot be written, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Ask the system to make renames inside a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines to a UTF-8 file; after a line that a crash cut short, start on a fresh one.

    Raises:
        OSError: The file cannot be written, or the disk is full.
    """
    with path.open("ab+") as file:
        if _ends_inside_a_line(file):
            file.write(b"\n")
        for line in lines:
            file.write(line.encode("utf-8", "replace") + b"\n")


def _ends_inside_a_line(file: IO[bytes]) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


class Line(NamedTuple):
    """One line of a JSON-lines file."""

    number: int  # from 1
    value: dict[str, Any] | None  # None when the line is damaged
    problem: str  # what is wrong with it, naming file and line; empty otherwise


def read_json_lines(path: Path) -> Iterator[Line]:
    """Read a JSON-lines file line by line; a damaged line is reported as a value, and the rest is read on.

    Raises:
        OSError: The file cannot be opened.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                value = json.loads(raw.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                ends = raw.endswith(b"\n")
                what = "is not JSON" if ends else "is cut off (the writer was stopped in the middle of it)"
                yield Line(number, None, f"{path.name}, line {number} {what}; left out")
                continue
            if isinstance(value, dict):
                yield Line(number, value, "")
            else:
                yield Line(number, None, f"{path.name}, line {number} holds no record; left out")
