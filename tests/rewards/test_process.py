import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.rewards import ordered_match, process_reward

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference_step_weights.json").read_text(encoding="utf-8"))
words = st.lists(st.sampled_from("abcd"), max_size=8)


@pytest.mark.parametrize("row", range(15))
def test_ordered_matches_equal_the_authors_code(row: int) -> None:
    case = REFERENCE["ordered_match"][row]
    assert ordered_match(case["taken"], expert=case["expert"]) == case["matched"]


def test_the_best_environment_counts_and_the_share_has_five_places() -> None:
    assert process_reward([["a"], ["b", "a", "c"], []], expert=["a", "c", "d"]) == 0.66667


def test_no_expert_or_no_action_gives_zero() -> None:
    assert process_reward([["a"]], expert=[]) == 0.0
    assert process_reward([], expert=["a"]) == 0.0


@settings(deadline=None)
@given(taken=words, expert=words)
def test_matches_never_exceed_either_side(taken: list[str], expert: list[str]) -> None:
    assert 0 <= ordered_match(taken, expert=expert) <= min(len(taken), len(expert))


@settings(deadline=None)
@given(expert=words, detours=words)
def test_detours_in_front_do_not_spoil_an_expert_way(expert: list[str], detours: list[str]) -> None:
    assert ordered_match([f"{word} not" for word in detours] + expert, expert=expert) == len(expert)
