"""Worlds and pools that the tests of `dpepo.envs` play with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpepo.envs import EnvPool, LocalPool, WorkerPool, load_world

DOCS = Path(__file__).parents[2] / "docs" / "environments.md"
PoolMaker = Callable[..., EnvPool]


@pytest.fixture(params=["local", "workers"])
def make_toy_pool(request: pytest.FixtureRequest) -> Iterator[PoolMaker]:
    """A maker of toy pools, once in this process and once in a worker: both must behave alike."""
    pools: list[EnvPool] = []

    def make_one(options: Mapping[str, Any] | None = None) -> EnvPool:
        pool: EnvPool = LocalPool(load_world("toy", options)) if request.param == "local" else WorkerPool("toy", options)
        pools.append(pool)
        return pool

    yield make_one
    for pool in pools:
        pool.close()


@pytest.fixture
def guess_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The import path of the example world of docs/environments.md, saved under a name of its own."""
    name = re.sub(r"\W", "_", tmp_path.name)
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (tmp_path / f"{name}.py").write_text(next(block for block in blocks if "class GuessWorld" in block))
    monkeypatch.syspath_prepend(tmp_path)
    return f"{name}:GuessWorld"
