"""Worlds for the tests of ScienceWorld; without Java or the package they are skipped with the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpepo.envs.scienceworld.gateway import HASHING
from dpepo.envs.scienceworld.java import find_java
from dpepo.envs.scienceworld.simulators import Machine
from dpepo.envs.scienceworld.world import ScienceWorld

Trace = list[list[Any]]  # per action: text, score, completed, look
PlainPackage = Callable[[Sequence[dict[str, Any]]], Any]


@pytest.fixture(scope="session", autouse=True)
def needs_scienceworld() -> None:
    status = ScienceWorld.check()
    if not status.ready:
        pytest.skip(status.detail)


@pytest.fixture(scope="session")
def full() -> Iterator[ScienceWorld]:
    with ScienceWorld() as world:
        yield world


@pytest.fixture(scope="session")
def compact() -> Iterator[ScienceWorld]:
    with ScienceWorld(observation="compact") as world:
        yield world


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    machine = Machine(max_heap="512m")
    yield machine
    machine.close()


@pytest.fixture(scope="session")
def plain_package() -> PlainPackage:
    """Runs requests in the package's own environment, in a process of its own, with the same hashing."""

    def run(requests: Sequence[dict[str, Any]]) -> Any:
        environment = {
            **os.environ,
            "PATH": f"{find_java().parent}{os.pathsep}{os.environ['PATH']}",
            "JDK_JAVA_OPTIONS": f"-XX:+UnlockExperimentalVMOptions {HASHING} -XX:+UseSerialGC -Xmx512m",
        }
        script = Path(__file__).with_name("plain_package.py")
        done = subprocess.run(
            [sys.executable, str(script)], input=json.dumps(list(requests)), env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
