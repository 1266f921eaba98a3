from __future__ import annotations

from itertools import pairwise

import pytest

from dpepo.config import ActorConfig, Schedule, SftConfig
from dpepo.learning import learning_rate


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_learning_rate_rises_to_its_peak_and_falls_to_almost_nothing(schedule: str) -> None:
    config = SftConfig(lr=1.0, warmup=0.2, schedule=Schedule(schedule))
    rates = [learning_rate(step, num_steps=20, config=config) for step in range(1, 21)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert 0.0 < rates[-1] < 0.07
    assert learning_rate(1, num_steps=1, config=config) == 1.0  # a job of one step learns something


def test_linear_falls_by_the_same_amount_every_step_and_cosine_is_at_half_in_the_middle() -> None:
    linear = ActorConfig(lr=1.0, schedule=Schedule.LINEAR)
    rates = [learning_rate(step, num_steps=10, config=linear) for step in range(1, 11)]
    assert [one - two for one, two in pairwise(rates)] == pytest.approx([0.1] * 9)
    cosine = ActorConfig(lr=1.0, schedule=Schedule.COSINE)
    assert learning_rate(6, num_steps=10, config=cosine) == pytest.approx(0.5)


def test_rl_keeps_its_rate_unless_told_otherwise_and_a_longer_job_never_falls_below_zero() -> None:
    assert {learning_rate(step, num_steps=125, config=ActorConfig()) for step in range(1, 126)} == {1e-6}
    warm = ActorConfig(lr=1.0, warmup=0.5)
    assert [learning_rate(step, num_steps=4, config=warm) for step in range(1, 5)] == [0.5, 1.0, 1.0, 1.0]
    for schedule in Schedule:
        assert learning_rate(99, num_steps=4, config=ActorConfig(schedule=schedule)) >= 0
