"""Bring the official games into a data root: a download where the network allows, else instructions. No code of the package."""

from __future__ import annotations

import shutil
import stat
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.error import URLError

from dpepo.envs.alfworld.index import FOLDER, OFFICIAL_COUNTS, SPLITS, list_games
from dpepo.errors import JobError, TaskError

RELEASES = "https://github.com/alfworld/alfworld/releases/download"
ARCHIVE = f"{RELEASES}/0.4.0/json_2.1.2_tw-pddl.zip"
"""Games of release 2.1.2 as ``game.tw-pddl``, for all three splits; the address that ``alfworld-download`` uses."""

_BLOCK = 1 << 20
_MOST_BYTES = 8 << 30  # what an archive may unpack to; the real one is below 1 GiB


def fetch_games(root: Path, *, url: str = ARCHIVE, note: Callable[[str], None]) -> dict[str, int]:
    """Download and unpack the games, unless they are there.

    Args:
        root: The data root; made where it is missing. Files that exist are left as they are.
        url: A zip archive with ``json_2.1.1/<split>/...`` in it; ``file://`` works.
        note: Is told how far it is.

    Returns:
        Games found per split afterwards.

    Raises:
        JobError: The archive cannot be had or unpacked; the message says what to place where.
    """
    there = count_games(root)
    if all(there[split] >= OFFICIAL_COUNTS[split] for split in SPLITS):
        note(f"All games are in {root} already")
        return there
    by_hand = (
        f"Bring the file by hand: {url}, and unpack it so that {root / FOLDER}/valid_seen exists; "
        "or run alfworld-download of the package alfworld and point ALFWORLD_DATA to its folder"
    )
    with tempfile.TemporaryDirectory(prefix="dpepo-fetch-") as folder:
        archive = Path(folder) / "games.zip"
        try:
            _download(url, archive, note=note)
            num_files = unpack(archive, root)
        except (URLError, OSError, zipfile.BadZipFile) as error:
            raise JobError(f"The games of ALFWorld could not be fetched ({error}). {by_hand}") from None
    found = count_games(root)
    if not any(found.values()):
        raise JobError(f"{url} was unpacked ({num_files} files), and there is no game in {root / FOLDER}. {by_hand}")
    return found


def count_games(root: Path) -> dict[str, int]:
    """Playable games per split; 0 where a split is not there."""
    counts = {}
    for split in SPLITS:
        try:
            counts[split] = len(list_games(root, split))
        except TaskError:
            counts[split] = 0
    return counts


def unpack(archive: Path, root: Path) -> int:
    """Unpack the files of an archive below a folder, none outside it.

    Returns:
        Number of files written; those that exist are left alone.

    Raises:
        OSError: An entry would leave the folder or is a link, the archive unpacks to more than 8 GiB, or the disk is full.
        zipfile.BadZipFile: It is no archive.
    """
    written = 0
    with zipfile.ZipFile(archive) as file:
        entries = [entry for entry in file.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in entries) > _MOST_BYTES:
            raise OSError("the archive unpacks to more than 8 GiB")
        for entry in entries:
            path = PurePosixPath(entry.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or stat.S_ISLNK(entry.external_attr >> 16):
                raise OSError(f"the archive holds a path that leaves its folder: {entry.filename!r}")
            target = root.joinpath(*path.parts)
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            with file.open(entry) as source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy, _BLOCK)
            part.replace(target)
            written += 1
    return written


def _download(url: str, path: Path, *, note: Callable[[str], None]) -> None:
    with urllib.request.urlopen(url, timeout=60) as source, path.open("wb") as copy:
        total = int(source.headers.get("Content-Length") or 0)
        done = 0
        while block := source.read(_BLOCK):
            copy.write(block)
            done += len(block)
            if done % (64 * _BLOCK) < _BLOCK:
                note(f"{done >> 20} MiB" + (f" of {total >> 20} MiB" if total else ""))
    if total and done != total:
        raise OSError(f"the download was cut off after {done} of {total} bytes")
