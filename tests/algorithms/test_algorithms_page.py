"""What docs/algorithms.md shows works as shown."""

from __future__ import annotations

import doctest
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dpepo.algorithms import algorithm_names, load_algorithm
from dpepo.config import AlgorithmConfig, LossTraits

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_examples_at_a_prompt_give_what_is_shown() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 0 and result.failed == 0


def test_the_algorithm_of_ones_own_passes_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", TEXT, re.DOTALL)
    assert [name for name, _ in files] == ["my_algorithms.py", "test_my_algorithms.py"]
    for name, source in files:
        (tmp_path / name).write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    tests = vars(import_module("test_my_algorithms"))
    found = [value for name, value in tests.items() if name.startswith("test_")]
    assert found
    for test in found:
        test()


def test_every_algorithm_has_a_row_with_its_source_and_its_loss_is_told() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*arXiv \d{4}\.\d{5}", TEXT, re.MULTILINE)
    assert sorted(rows) == algorithm_names()
    own = {name for name in algorithm_names() if load_algorithm(AlgorithmConfig(name=name)).loss != LossTraits()}
    assert set(re.findall(r"^\| `(\w+)` \| `actor\.", TEXT, re.MULTILINE)) == own
