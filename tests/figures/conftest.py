"""Run folders that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.figure_runs import demo_run, sweep_folder


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep; read only."""
    return sweep_folder(tmp_path_factory.mktemp("figures") / "sweep")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished demo; read only."""
    return demo_run(tmp_path_factory.mktemp("figures") / "demo")
