"""Numbers with intervals: from one run, from two and from three."""

from __future__ import annotations

import pytest

from dpepo.figures.estimates import intervals_text, mean, n_text, rate
from dpepo.runs.stats import t_interval, wilson_interval


def test_one_run_has_wilsons_interval_over_its_episodes() -> None:
    one = rate([[True, False, False, False]])
    assert one is not None
    assert (one.value, one.n, one.each) == (0.25, 4, (0.25,))
    assert (one.low, one.high) == wilson_interval(1, 4)


def test_three_seeds_have_students_interval_over_seeds_and_rates_stay_between_0_and_1() -> None:
    three = rate([[True, True], [True, True], [True, False]])
    over = t_interval([1.0, 1.0, 0.5])
    assert three is not None and over.half_width is not None
    assert three.value == pytest.approx(over.mean)
    assert three.low == pytest.approx(over.mean - over.half_width)
    assert three.high == 1.0


def test_two_seeds_have_their_range_because_students_interval_of_two_says_nothing() -> None:
    two = mean([[2.0, 4.0], [5.0, 5.0]])
    assert two is not None
    assert (two.value, two.low, two.high) == (4.0, 3.0, 5.0)
    assert intervals_text([two]) == "Bars: the values of two seeds."


def test_a_single_episode_has_no_interval_of_a_mean_and_the_caption_claims_none() -> None:
    one = mean([[3.0]])
    assert one is not None
    assert (one.value, one.low, one.high) == (3.0, None, None)
    assert intervals_text([one]) == ""
    assert n_text([one]) == "n = 1 episodes per point."


def test_nothing_played_is_no_number() -> None:
    assert rate([]) is None
    assert rate([[True], []]) is None
    assert mean([[]]) is None


def test_a_caption_names_every_kind_of_interval_that_is_drawn() -> None:
    one, three = mean([[1.0, 2.0]]), mean([[1.0], [2.0], [3.0]])
    assert intervals_text([one, three, None]) == (
        "Bars: 95 % t-intervals over 3 seeds, or 95 % intervals over the episodes of one run."
    )
    assert n_text([one, three]) == "n = 1 to 2 episodes per point and seed."
