"""Fetching games: from an archive that is as it should be, and from others."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.support.alfworld_games import write_game

from dpepo.envs.alfworld.fetch import fetch_games, unpack
from dpepo.envs.alfworld.generate import generate_game
from dpepo.errors import JobError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def archive_of(folder: Path, *, split: str = "valid_seen") -> Path:
    game = write_game(generate_game("pick_and_place_simple", seed=0), folder / "game.tw-pddl")
    path = folder / "games.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.write(game, f"json_2.1.1/{split}/pick_and_place_simple-Mug-None-Shelf-1/trial_T1/game.tw-pddl")
    return path


def test_games_are_downloaded_unpacked_and_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    root = tmp_path / "root"
    found = fetch_games(root, url=archive_of(tmp_path / "a").as_uri(), note=notes.append)
    assert found == {"train": 0, "valid_seen": 1, "valid_unseen": 0}
    [game] = root.rglob("game.tw-pddl")
    game.write_text("mine")
    fetch_games(root, url=(tmp_path / "a" / "games.zip").as_uri(), note=notes.append)
    assert game.read_text() == "mine"  # what is there stays


def test_without_a_network_one_is_told_what_to_place_where(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"could not be fetched.*by hand.*json_2\.1\.1/valid_seen.*ALFWORLD_DATA"):
        fetch_games(tmp_path / "root", url="http://127.0.0.1:9/games.zip", note=print)


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/outside.txt", "a/../../outside.txt", "..\\outside.txt"])
def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, "x")
    with pytest.raises(OSError, match="leaves its folder"):
        unpack(path, tmp_path / "inside")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.zip"]


def test_an_archive_with_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as file:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    with pytest.raises(OSError, match="leaves its folder"):
        unpack(path, tmp_path / "inside")


def test_an_archive_that_is_none_or_holds_no_game_is_said(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(JobError, match="not a zip file"):
        fetch_games(tmp_path / "root", url=(tmp_path / "no.zip").as_uri(), note=print)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as file:
        file.writestr("readme.txt", "x")
    with pytest.raises(JobError, match="there is no game"):
        fetch_games(tmp_path / "root", url=(tmp_path / "empty.zip").as_uri(), note=print)
