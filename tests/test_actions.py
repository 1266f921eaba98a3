"""The normalisation of actions."""

from hypothesis import given
from hypothesis import strategies as st

from dpepo.actions import action_key, is_admissible, normalize_action, replace_surrogates

ANY_TEXT = st.text(st.characters(codec=None), max_size=60)


def test_white_space_and_control_characters_become_single_spaces() -> None:
    assert normalize_action(" go\u00a0to \n\t desk\x00\x1b1\u200b ") == "go to desk 1"


def test_letter_case_is_sent_as_written_and_ignored_when_compared() -> None:
    assert normalize_action("Move Mug 1 to desk 1") == "Move Mug 1 to desk 1"
    assert action_key("Move Mug 1") == action_key("move  mug 1")


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined() -> None:
    assert replace_surrogates("a\udc80b") == "a\ufffdb"
    assert replace_surrogates("\ud83d\ude00") == "\U0001f600"


@given(ANY_TEXT)
def test_any_text_normalises_to_something_that_can_be_stored_and_stays_the_same_afterwards(text: str) -> None:
    action = normalize_action(text)
    action.encode("utf-8")
    assert normalize_action(action) == action
    assert action == action.strip()
    assert not any(ord(char) < 32 for char in action)
    assert action_key(action) == action_key(text)


def test_admissible_means_equal_and_never_contained() -> None:
    """P11: the empty action is inside every text, but equal to none."""
    assert is_admissible("LOOK", ["look", "inventory"])
    assert not is_admissible("", ["look", ""])
    assert not is_admissible("loo", ["look"])
    assert not is_admissible("", "look")
    assert not is_admissible("l", "look")
    assert is_admissible("click[y]", "search[x]\nclick[y]")
