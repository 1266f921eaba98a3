import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.errors import ConfigError
from dpepo.rewards import step_reward

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference_step_weights.json").read_text(encoding="utf-8"))
SAME_DESK = {1: "go to desk 1", 2: "go to desk 1", 3: "go to desk 1"}
SAME_ROOM = {1: ["a hall"], 2: ["a hall"], 3: ["a hall"]}

bases = st.floats(0.05, 1.0)
words = st.sampled_from(["look", "go east", "go west", "open box"])
lanes = st.dictionaries(st.integers(1, 6), words, min_size=1)
pasts = st.dictionaries(st.integers(1, 6), st.lists(words, max_size=5))


def _int_keys(mapping: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in mapping.items()}


@pytest.mark.parametrize("world", ["alfworld", "scienceworld"])
@pytest.mark.parametrize("row", range(30))
def test_reference_scale_equals_the_authors_code_to_the_digit(world: str, row: int) -> None:
    case = REFERENCE[world][row]
    num_invalid = sum(text == "No known action matches that input." for text in case["observations"])
    reward = step_reward(
        _int_keys(case["actions"]),
        history=_int_keys(case["history"]),
        alpha=case["depth_action"],
        gamma=case["depth_transition"],
        beta=case["width_transition"],
        omega=case["width_action"],
        invalid=case["invalid"],
        num_invalid=num_invalid if world == "scienceworld" else None,
        free_actions=("look",) if world == "alfworld" else (),
    )
    assert reward.value == case["weight"]


def test_three_equal_first_actions_cost_only_the_width_term_on_the_reference_scale() -> None:
    """A12."""
    reward = step_reward(SAME_DESK, history={}, omega=0.8)
    assert (reward.value, reward.c_width, dict(reward.c_depth)) == (0.82, 2, {1: 0, 2: 0, 3: 0})


@pytest.mark.parametrize(
    ("transition", "width_count", "value", "m_width"),
    [
        ("previous_action", None, 1.82, 0),
        ("previous_action", "occurrences_incl_now", 1.82, 0),
        ("observation", None, 1.82, 0),
        ("observation", "environments_before", 1.82, 0),
        ("observation", "occurrences_incl_now", 1.77125, 2),
        ("state", "occurrences_incl_now", 1.77125, 2),
    ],
)
def test_printed_equations_on_three_equal_first_actions(
    transition: str, width_count: str | None, value: float, m_width: int
) -> None:
    """A12."""
    reward = step_reward(
        SAME_DESK, history={}, scale="equations", transition=transition, width_count=width_count, omega=0.8, states=SAME_ROOM
    )
    assert reward.value == pytest.approx(value, abs=1e-12)
    assert set(reward.m_width.values()) == {m_width}


def test_counts_by_hand_over_two_turns_with_observations() -> None:
    # env 1: hall -east-> yard -west-> hall, now east again; env 2: hall -east-> yard, now west; env 3 is idle
    reward = step_reward(
        {1: "go east", 2: "go west"},
        history={1: ["go east", "go west"], 2: ["go east"], 3: ["go west"]},
        states={1: ["hall", "yard", "hall"], 2: ["hall", "yard"]},
        scale="equations",
        transition="observation",
        alpha=0.8,
        gamma=0.5,
        beta=0.9,
        omega=0.7,
    )
    assert dict(reward.c_depth) == {1: 1, 2: 0}
    assert dict(reward.m_depth) == {1: 1, 2: 0}
    assert dict(reward.m_width) == {1: 1, 2: 1}
    assert reward.value == pytest.approx(((0.8 + 1) / 2 + 1 + (0.5 + 1) / 2 + 0.9) / 2)


def test_environments_before_counts_an_environment_once_and_occurrences_count_each_time() -> None:
    history = {1: ["go east"], 2: ["go east", "look", "go east", "look"]}
    actions = {1: "look", 2: "look"}
    before = step_reward(actions, history=history, width_count="environments_before")
    occurrences = step_reward(actions, history=history)
    assert dict(before.m_width) == {1: 1, 2: 0}
    assert dict(occurrences.m_width) == {1: 2, 2: 0}


def test_first_action_of_an_environment_makes_no_pair_with_previous_actions() -> None:
    reward = step_reward({1: "look", 2: "look"}, history={1: [], 2: []})
    assert dict(reward.m_depth) == {1: 0, 2: 0}
    assert dict(reward.m_width) == {1: 0, 2: 0}


def test_idle_environments_are_no_repeats_and_their_histories_stay_as_they_were() -> None:
    """A14."""
    history: dict[int, list[str]] = {1: [], 2: [], 3: ["go east"], 4: [], 5: []}
    reward = step_reward({1: "go east", 2: "go west"}, history=history)
    assert (reward.c_width, reward.num_actions) == (0, 2)
    assert history == {1: [], 2: [], 3: ["go east"], 4: [], 5: []}


@pytest.mark.parametrize("actions", [{}, {1: ""}, {2: " \n "}])
def test_a_turn_without_a_usable_action_gets_the_no_action_value(actions: dict[int, str]) -> None:
    """A10."""
    assert step_reward(actions, history={}).value == 0.5
    assert step_reward(actions, history={}, scale="equations", no_action=0.25).value == 0.25


def test_free_actions_are_left_out_of_the_width_count_only() -> None:
    actions = {1: "Look", 2: "look", 3: "go east", 4: "go east"}
    reward = step_reward(actions, history={1: ["look"]}, free_actions=("look",))
    assert reward.c_width == 1
    assert reward.c_depth[1] == 1


def test_actions_that_differ_only_in_case_and_white_space_are_the_same() -> None:
    assert step_reward({1: "Go  East", 2: "go east "}, history={}).c_width == 1


@pytest.mark.parametrize("scale", ["equations", "reference"])
@pytest.mark.parametrize("no_actions", [False, True])
def test_with_both_rewards_off_every_turn_is_worth_one(scale: str, no_actions: bool) -> None:
    actions = {} if no_actions else SAME_DESK
    assert (
        step_reward(actions, history={}, scale=scale, states=SAME_ROOM, action=False, transitions=False, num_invalid=3).value
        == 1.0
    )


def test_one_reward_alone_stays_on_the_scale_of_the_pair() -> None:
    history = {1: ["look", "look"], 2: ["look"]}
    actions = {1: "look", 2: "go east"}
    coefficients: dict[str, Any] = {"alpha": 0.8, "gamma": 0.5, "beta": 0.9, "omega": 0.7, "history": history}
    # C_depth 2, 0; M_depth 1, 0; M_width 0, 0; C_width 0
    assert step_reward(actions, scale="equations", transitions=False, **coefficients).value == pytest.approx((0.64 + 1) / 2 + 1)
    assert step_reward(actions, scale="equations", action=False, **coefficients).value == pytest.approx((0.5 + 1) / 2 + 1)
    assert step_reward(actions, transitions=False, **coefficients).value == pytest.approx((1 + 0.82) / 2)
    assert step_reward(actions, action=False, **coefficients).value == pytest.approx((0.75 + 1) / 2)


def test_invalid_actions_enter_each_scale_as_one_more_term() -> None:
    wasted: dict[str, Any] = {"history": {}, "num_invalid": 2, "invalid": 0.5}
    assert step_reward({1: "look"}, **wasted).value == 0.75
    assert step_reward({1: "look"}, scale="reference_invalid_only", **wasted).value == 0.25
    assert step_reward({1: "look"}, scale="equations", **wasted).value == pytest.approx((2 + 2 + 0.5) / 3)


@pytest.mark.parametrize(
    ("setting", "wrong", "right"),
    [
        ("scale", "equation", "equations"),
        ("transition", "observatoin", "observation"),
        ("width_count", "environments", "environments_before"),
    ],
)
def test_an_unknown_setting_names_the_nearest_right_one(setting: str, wrong: str, right: str) -> None:
    arguments: dict[str, Any] = {setting: wrong}
    with pytest.raises(ConfigError, match=f"step_reward.{setting}.*Did you mean '{right}'"):
        step_reward({1: "look"}, history={}, **arguments)


@pytest.mark.parametrize("states", [None, {}, {1: ["a"]}, {1: ["a", "b", "c"]}])
def test_states_that_do_not_fit_the_history_are_refused(states: dict[int, list[str]] | None) -> None:
    with pytest.raises(ValueError, match=r"states\[1\]"):
        step_reward({1: "look"}, history={1: ["look"]}, transition="observation", states=states)


@settings(deadline=None)
@given(actions=lanes, history=pasts, alpha=bases, gamma=bases, beta=bases, omega=bases)
def test_values_stay_in_their_published_ranges(
    actions: dict[int, str], history: dict[int, list[str]], alpha: float, gamma: float, beta: float, omega: float
) -> None:
    coefficients: dict[str, Any] = {"alpha": alpha, "gamma": gamma, "beta": beta, "omega": omega}
    states = {env_id: ["s"] * (len(history.get(env_id, [])) + 1) for env_id in actions}
    printed = step_reward(actions, history=history, scale="equations", transition="state", states=states, **coefficients)
    reference = step_reward(actions, history=history, **coefficients)
    assert 0 < printed.value <= 2 + 1e-12
    assert 0 <= reference.value <= 1


@settings(deadline=None)
@given(actions=lanes, history=pasts, numbering=st.permutations(range(1, 7)))
def test_renumbering_the_environments_changes_no_value(
    actions: dict[int, str], history: dict[int, list[str]], numbering: list[int]
) -> None:
    moved = step_reward(
        {numbering[env_id - 1]: action for env_id, action in actions.items()},
        history={numbering[env_id - 1]: past for env_id, past in history.items()},
    )
    assert moved.value == pytest.approx(step_reward(actions, history=history).value, abs=1e-4)


@settings(deadline=None)
@given(history=pasts, action=words, env_id=st.integers(1, 6))
def test_one_environment_alone_has_nothing_in_width(history: dict[int, list[str]], action: str, env_id: int) -> None:
    reward = step_reward({env_id: action}, history=history)
    assert (reward.c_width, dict(reward.m_width)) == (0, {env_id: 0})


@settings(deadline=None)
@given(actions=lanes, history=pasts)
def test_repeating_an_action_once_more_never_pays(actions: dict[int, str], history: dict[int, list[str]]) -> None:
    longer = {env_id: [action, *history.get(env_id, [])] for env_id, action in actions.items()}
    repeated, fresh = (step_reward(actions, history=past, gamma=1.0, beta=1.0).value for past in (longer, history))
    assert repeated <= fresh
