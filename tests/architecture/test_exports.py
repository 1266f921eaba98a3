"""What a package exports exists, is sorted, and is all it shows."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import dpepo

SOURCE = Path(dpepo.__file__).parent
PACKAGES = sorted(module.name for module in pkgutil.iter_modules([str(SOURCE)]) if module.ispkg)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_exactly_what_it_imports(package: str) -> None:
    tree = ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpepo")
        for alias in node.names
    }
    module = importlib.import_module(f"dpepo.{package}")
    exported = list(getattr(module, "__all__", []))
    assert len(exported) == len(set(exported))
    assert {name for name in imported if not name.startswith("_")} <= set(exported)
    assert [name for name in exported if not hasattr(module, name)] == []


# Names that others rely on; change them only with a decision note.
STABLE = [
    "dpepo.protocol:parse_reply",
    "dpepo.rewards:step_reward",
    "dpepo.algorithms:trajectory_advantages",
    "dpepo.envs:make",
    "dpepo.rollout:play_episode",
]


@pytest.mark.parametrize("name", STABLE)
def test_names_that_others_rely_on_are_exported(name: str) -> None:
    module, _, attribute = name.partition(":")
    loaded = importlib.import_module(module)
    assert callable(getattr(loaded, attribute))
    assert attribute in loaded.__all__
