"""``dpepo view``: one page, or a server that ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sample_episodes import lifespan_episode
from typer.testing import CliRunner, Result

from dpepo.cli import app
from dpepo.runs.episodes import write_episodes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_episodes(tmp_path / "first" / "episodes", "eval", 0, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of its own process, and its address."""
    command = [sys.executable, "-m", "dpepo", "view", "--serve", str(folder)]
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process, next(word for word in process.stdout.readline().split() if word.startswith("http://"))
        if process.poll() is None:
            process.kill()


def dpepo(*words: str) -> Result:
    return CliRunner().invoke(app, ["view", *words])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_printed_address_answers_until_the_server_is_told_to_end(
    served: tuple[subprocess.Popen[str], str], how: signal.Signals
) -> None:
    process, address = served
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address + "run/first/viewer.html", timeout=20) as answer:
        assert answer.status == 200
    process.send_signal(how)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "Ended.\n", "")


def test_a_page_is_written_into_the_run_and_named(folder: Path) -> None:
    result = dpepo(str(folder / "first"))
    assert result.exit_code == 0
    assert (folder / "first" / "viewer.html").is_file()
    assert "viewer.html" in result.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--serve", "nowhere"), "nowhere is not a folder"),
        (("--serve", ".", "--out", "x.html"), "--out writes one page and --serve serves many"),
        ((".", "--port", "8000"), "--port is for --serve"),
        (("--serve", ".", "--port", "70000"), "65535"),
        (("nowhere",), "There is no folder nowhere"),
    ],
)
def test_requests_that_make_no_sense_are_refused(words: tuple[str, ...], part: str) -> None:
    result = dpepo(*words)
    assert result.exit_code == 2
    assert part in result.output
