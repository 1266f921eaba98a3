"""Checkpoints that are complete or not there: written aside, checked by a manifest, moved into place in one step.

Layout of a ``checkpoints`` folder: ``step-0005/`` with the files of the job and ``manifest.json`` (size and SHA-256 of each),
and the link ``latest``, which moves last. A folder without a manifest, or whose files differ from it, is never used. Where
checkpoints are given scores, ``best`` points to the one with the highest; it is kept however old it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpepo.runs.files import sync_folder, write_atomic

MANIFEST = "manifest.json"
_SCORE = "score"  # in a manifest's metadata
_NAME = re.compile(r"step-([0-9]{4,})")


class Checkpoint(NamedTuple):
    """A complete checkpoint."""

    step: int  # steps done when it was written
    path: Path
    metadata: Mapping[str, Any]  # what the job wrote beside the files


class LatestCheckpoint(NamedTuple):
    """The newest complete checkpoint, and what was found wrong with newer ones."""

    checkpoint: Checkpoint | None
    problems: tuple[str, ...]  # one sentence per checkpoint passed over, naming it


def is_save_step(step: int, *, every: int, last: int) -> bool:
    """Whether to save after a step (counted from 1): at multiples, and always at the end.

    >>> [step for step in range(1, 8) if is_save_step(step, every=5, last=7)]
    [5, 7]
    """
    return step % every == 0 or step == last


def save_checkpoint(
    folder: Path,
    step: int,
    write: Callable[[Path], object],
    *,
    keep_last: int,
    metadata: Mapping[str, Any] | None = None,
    score: float | None = None,
) -> Checkpoint:
    """Write a checkpoint so that a crash at any moment leaves the ones before it usable.

    Args:
        folder: The run's ``checkpoints`` folder; made when missing.
        step: Steps done.
        write: Puts the files into the empty folder it is given.
        keep_last: How many of the newest checkpoints stay, this one included; at least 1.
        metadata: Small JSON values kept in the manifest.
        score: How good it is, by a number that is comparable between checkpoints; the best one stays as well.

    Raises:
        OSError: The folder cannot be written, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(folder)
    target = folder / f"step-{step:04d}"
    temporary = folder / f".new-{target.name}"
    temporary.mkdir()
    write(temporary)
    metadata = {**(metadata or {}), **({} if score is None else {_SCORE: score})}
    _write_manifest(temporary, step, metadata)
    if target.exists():  # the same step, repeated after a resume, or damaged
        target.rename(folder / f".old-{target.name}")
    temporary.rename(target)
    sync_folder(folder)
    best = best_checkpoint(folder, up_to=step)
    if best is not None:
        _point(folder, "best", best.path.name)
    _point(folder, "latest", target.name)
    _prune(folder, keep_last=keep_last, newest=step, best=best)
    return Checkpoint(step, target, metadata)


def latest_checkpoint(folder: Path) -> LatestCheckpoint:
    """Find the newest complete checkpoint; damaged or unfinished ones are named and passed over."""
    problems: list[str] = []
    for path in reversed(_steps(folder)):
        checkpoint, problem = _check(path)
        if checkpoint is not None:
            return LatestCheckpoint(checkpoint, tuple(problems))
        problems.append(problem)
    return LatestCheckpoint(None, tuple(problems))


def best_checkpoint(folder: Path, *, up_to: int) -> Checkpoint | None:
    """The checkpoint with the highest score, the earliest of equals, among those up to a step; None where none has a score.

    Only manifests are read, not the files they list.
    """
    scored = []
    for path in _steps(folder):
        try:
            checkpoint = _read_manifest(path)[0]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if checkpoint.step <= up_to and isinstance(checkpoint.metadata.get(_SCORE), float):
            scored.append(checkpoint)
    return max(scored, key=lambda checkpoint: (checkpoint.metadata[_SCORE], -checkpoint.step), default=None)


def check_checkpoint(path: Path) -> str:
    """What is wrong with a checkpoint's files, in a sentence; empty when it is whole."""
    return _check(path)[1]


def _steps(folder: Path) -> list[Path]:
    found = [(int(match[1]), path) for path in folder.glob("step-*") if (match := _NAME.fullmatch(path.name)) and path.is_dir()]
    return [path for _, path in sorted(found)]


def _check(path: Path) -> tuple[Checkpoint | None, str]:
    try:
        checkpoint, files = _read_manifest(path)
        # All sizes first: a file cut short is found without reading gigabytes.
        for name, entry in files.items():
            size = (path / name).stat().st_size if (path / name).is_file() else None
            if size != entry["size"]:
                found = "is missing" if size is None else f"has {size} bytes instead of {entry['size']}"
                return None, f"checkpoint {path.name} is not complete: {name} {found}"
        for name, entry in files.items():
            if _sha256(path / name) != entry["sha256"]:
                return None, f"checkpoint {path.name} is damaged: {name} is not what was written"
    except FileNotFoundError:
        return None, f"checkpoint {path.name} is not complete: it has no {MANIFEST}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"checkpoint {path.name} cannot be read: {type(error).__name__}: {error}"
    return checkpoint, ""


def _read_manifest(path: Path) -> tuple[Checkpoint, dict[str, Any]]:
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    return Checkpoint(int(manifest["step"]), path, dict(manifest["metadata"])), dict(manifest["files"])


def _write_manifest(folder: Path, step: int, metadata: Mapping[str, Any]) -> None:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
            files[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "sha256": _sha256(path)}
    manifest = {"format": 1, "step": step, "metadata": dict(metadata), "files": files}
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _point(folder: Path, link_name: str, name: str) -> None:
    link = folder / f".new-{link_name}"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.replace(folder / link_name)


def _prune(folder: Path, *, keep_last: int, newest: int, best: Checkpoint | None) -> None:
    steps = [path for path in _steps(folder) if int(path.name.removeprefix("step-")) <= newest]
    kept = {*steps[-max(keep_last, 1) :], *([] if best is None else [best.path])}
    for path in [path for path in steps if path not in kept]:
        path.rename(folder / f".old-{path.name}")  # so that a crash leaves no half-deleted checkpoint under a good name
    _clear_leftovers(folder)


def _clear_leftovers(folder: Path) -> None:
    for path in [*folder.glob(".new-step-*"), *folder.glob(".old-step-*")]:
        shutil.rmtree(path)
