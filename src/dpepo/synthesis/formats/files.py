"""Rows in files: JSONL, a JSON list, or parquet, by the ending of the file's name. Always UTF-8, whatever the locale."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from dpepo.errors import ConfigError, MissingPackage, TaskError
from dpepo.synthesis.formats.rows import Row

ENDINGS = (".jsonl", ".json", ".parquet")
_CHUNK = 500  # rows of a parquet group, which is held in memory


class ReadRow(NamedTuple):
    """One row of a file."""

    number: int  # from 1
    value: Any  # None when the row cannot be read
    problem: str  # why not, in a few words; empty otherwise


def check_ending(path: Path) -> None:
    """Refuse a file whose name does not say what is in it, and a parquet file where pyarrow is missing.

    Raises:
        ConfigError: Another ending.
        MissingPackage: pyarrow is not installed.
    """
    if path.suffix not in ENDINGS:
        raise ConfigError(f"{path}: the name ends in {path.suffix or 'nothing'}. Rows are kept in {', '.join(ENDINGS)}")
    if path.suffix == ".parquet":
        _parquet(path)


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Write rows, whole or not at all.

    Args:
        path: The file; its ending says how. Rows have the same columns, none of them null.
        rows: Taken one by one.

    Returns:
        How many there were.

    Raises:
        OSError: The file cannot be written.
        ConfigError: Another ending.
        MissingPackage: pyarrow is not installed.
    """
    check_ending(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            number = _write_parquet(file, rows, path) if path.suffix == ".parquet" else _write_json(file, rows, path.suffix)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return number


def _write_json(file: IO[bytes], rows: Iterable[Row], ending: str) -> int:
    """A row a line; for ``.json`` inside brackets."""
    number = 0
    is_list = ending == ".json"
    for row in rows:
        before = (",\n" if number else "[\n") if is_list else ""
        after = "" if is_list else "\n"
        file.write((before + json.dumps(row, ensure_ascii=False) + after).encode("utf-8", "replace"))
        number += 1
    if is_list:
        file.write(b"\n]\n" if number else b"[]\n")
    return number


def _write_parquet(file: IO[bytes], rows: Iterable[Row], path: Path) -> int:
    arrow, parquet = _parquet(path)
    rows = iter(rows)
    number, writer = 0, None
    while chunk := list(islice(rows, _CHUNK)):
        table = arrow.Table.from_pylist(chunk, schema=None if writer is None else writer.schema)
        writer = writer or parquet.ParquetWriter(file, table.schema, compression="zstd")
        writer.write_table(table)
        number += len(chunk)
    if writer is None:
        parquet.write_table(arrow.table({}), file)
    else:
        writer.close()
    return number


def read_rows(path: Path) -> Iterator[ReadRow]:
    """Read rows one by one; a damaged one is a value, and the rest is read on. A byte order mark is no part of the first.

    Raises:
        TaskError: The file cannot be read at all.
        ConfigError: Another ending.
        MissingPackage: pyarrow is not installed.
    """
    check_ending(path)
    try:
        yield from {".jsonl": _read_lines, ".json": _read_list, ".parquet": _read_parquet}[path.suffix](path)
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}") from None


def _read_lines(path: Path) -> Iterator[ReadRow]:
    number = 0
    with path.open("rb") as file:
        for raw in file:
            if not raw.strip():
                continue
            number += 1
            try:
                yield ReadRow(number, json.loads(raw.decode("utf-8-sig")), "")
            except (ValueError, RecursionError):
                yield ReadRow(number, None, "not JSON")


def _read_list(path: Path) -> Iterator[ReadRow]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise TaskError(f"{path} is no JSON: {error}. A file with a row per line ends in .jsonl") from None
    if isinstance(rows, dict):
        rows = list(rows.values())  # {"0": {...}, "1": {...}}: keys are labels
    if not isinstance(rows, list):
        raise TaskError(f"{path} holds {type(rows).__name__} where a list of rows is expected")
    yield from (ReadRow(number, row, "") for number, row in enumerate(rows, start=1))


def _read_parquet(path: Path) -> Iterator[ReadRow]:
    _, parquet = _parquet(path)
    try:
        file = parquet.ParquetFile(path)
    except ValueError as error:  # pyarrow's own errors are ValueErrors
        raise TaskError(f"{path} is no parquet file: {error}") from None
    number = 0
    for batch in file.iter_batches(batch_size=_CHUNK):
        for row in batch.to_pylist():
            number += 1
            yield ReadRow(number, row, "")


def _parquet(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingPackage("pyarrow", extra="data", needed_for=str(path)) from None
    return pyarrow, parquet
