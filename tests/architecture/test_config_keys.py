"""The keys of a recipe are a promise: a key that changes breaks people's files, so a change has to be made here as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpepo.keys import key_rows, known_keys, section_of

PINNED = Path(__file__).with_name("config_keys.txt")
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_keys_are_those_pinned() -> None:
    """After a wanted change, change the file too, and say so in CHANGELOG.md."""
    assert PINNED.read_text(encoding="utf-8").splitlines() == sorted(known_keys())


def test_the_docs_list_every_key_with_its_default_and_meaning() -> None:
    """After a wanted change, paste what ``dpepo config --keys`` prints."""
    listed = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert listed == key_rows()


@pytest.mark.parametrize("key", sorted(key for key, field in known_keys().items() if section_of(field) is None))
def test_every_key_has_a_sentence(key: str) -> None:
    field = known_keys()[key]
    assert field.description is not None
    assert field.description.endswith(".")
