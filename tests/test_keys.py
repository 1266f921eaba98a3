"""The names of settings, and what a wrong name was meant to be."""

from __future__ import annotations

import pytest

from dpepo.keys import OTHER_NAMES, known_keys, nearest_key


def test_other_projects_names_lead_to_keys_that_exist() -> None:
    assert set(OTHER_NAMES.values()) <= known_keys().keys()


@pytest.mark.parametrize("key", [key for key in sorted(known_keys()) if len(key.rpartition(".")[2]) >= 6])
def test_a_key_with_one_letter_missing_leads_back_to_it_or_to_its_section(key: str) -> None:
    section, _, name = key.rpartition(".")
    wrong = f"{section}.{name[:2]}{name[3:]}".lstrip(".")
    near = nearest_key(wrong)
    assert near is not None
    assert near.rpartition(".")[0] == section


def test_nonsense_has_no_nearest_key() -> None:
    assert nearest_key("qqqqzzzz") is None
