import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.algorithms import trajectory_advantages, turn_weighted_advantages

outcomes = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=10)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_a_group_without_differences_gets_exactly_zero(value: float, size: int) -> None:
    """A01, A03."""
    assert trajectory_advantages([value] * size) == [0.0] * size


@pytest.mark.parametrize(
    ("given_outcomes", "ddof", "expected"),
    [
        ([1, 0, 0, 0], 1, [1.5, -0.5, -0.5, -0.5]),
        ([1, 0, 0, 0], 0, [1.7321, -0.5774, -0.5774, -0.5774]),
        ([1, 1, 0, 0], 1, [0.8660, 0.8660, -0.8660, -0.8660]),
        ([1] + [0] * 7, 1, [2.4749] + [-0.3536] * 7),
        ([1, 0], 1, [0.7071, -0.7071]),
    ],
)
def test_advantages_by_hand(given_outcomes: list[float], ddof: int, expected: list[float]) -> None:
    """A04."""
    assert trajectory_advantages(given_outcomes, ddof=ddof) == pytest.approx(expected, abs=6e-5)


def test_an_episode_lost_to_a_fault_takes_no_part() -> None:
    """A09."""
    phis = trajectory_advantages([1, 0, None, 0])
    assert phis[2] is None
    assert [phi for phi in phis if phi is not None] == pytest.approx([1.1547, -0.5774, -0.5774], abs=6e-5)


@pytest.mark.parametrize("lost", [[], [None], [None, None]])
def test_groups_with_nobody_left_stay_empty(lost: list[None]) -> None:
    assert trajectory_advantages(lost) == lost
    assert turn_weighted_advantages(lost, num_turns=[3] * len(lost)) == lost


def test_statistics_over_turns_weigh_long_episodes_more() -> None:
    """A06."""
    given_outcomes = [1, 1, 0, 0]
    assert trajectory_advantages(given_outcomes) == pytest.approx([0.8660, 0.8660, -0.8660, -0.8660], abs=6e-5)
    by_turn = turn_weighted_advantages(given_outcomes, num_turns=[2, 3, 25, 25])
    assert by_turn == pytest.approx([3.1334, 3.1334, -0.3133, -0.3133], abs=6e-5)


def test_statistics_over_turns_keep_the_raw_reward_of_a_single_turn() -> None:
    """A03, the authors' rule."""
    assert turn_weighted_advantages([1.0], num_turns=[1]) == [1.0]
    assert turn_weighted_advantages([1.0], num_turns=[2]) == [0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_outcome_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        trajectory_advantages([1.0, bad])


@settings(deadline=None)
@given(given_outcomes=outcomes, ddof=st.sampled_from([0, 1]))
def test_advantages_are_finite_centred_and_keep_their_place(given_outcomes: list[float | None], ddof: int) -> None:
    phis = trajectory_advantages(given_outcomes, ddof=ddof)
    assert [phi is None for phi in phis] == [outcome is None for outcome in given_outcomes]
    kept = [phi for phi in phis if phi is not None]
    assert all(math.isfinite(phi) for phi in kept)
    assert sum(kept) == pytest.approx(0, abs=1e-6)


@settings(deadline=None)
@given(given_outcomes=outcomes, order=st.randoms(use_true_random=False))
def test_permuting_siblings_permutes_advantages(given_outcomes: list[float | None], order: random.Random) -> None:
    places = list(range(len(given_outcomes)))
    order.shuffle(places)
    phis = trajectory_advantages(given_outcomes)
    assert trajectory_advantages([given_outcomes[place] for place in places]) == [phis[place] for place in places]


@settings(deadline=None)
@given(given_outcomes=outcomes)
def test_equal_lengths_make_both_statistics_agree_for_the_population(given_outcomes: list[float | None]) -> None:
    num_turns = [3] * len(given_outcomes)
    by_turn = turn_weighted_advantages(given_outcomes, num_turns=num_turns, ddof=0)
    by_episode = trajectory_advantages(given_outcomes, ddof=0)
    for one, other in zip(by_turn, by_episode, strict=True):
        assert one == (None if other is None else pytest.approx(other, rel=1e-6, abs=1e-9))
