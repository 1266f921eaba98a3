from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.algorithms import algorithm_names, group_metrics, load_algorithm
from dpepo.config import AlgorithmConfig
from dpepo.errors import ConfigError
from dpepo.types import Episode, EpisodeGroup, Observation, ScoredEpisode, StepReward, StopReason, Task, WorldGuide

TASK = Task(id="toy/a/0", world="toy", name="a")


def _scored(outcome: float | None, values: Sequence[float]) -> ScoredEpisode:
    episode = Episode(
        task=TASK,
        goal="find it",
        guide=WorldGuide(role="a seeker"),
        num_envs=4,
        max_turns=9,
        seed=0,
        initial=Observation(text="a hall"),
        turns=(),
        stop=StopReason.MAX_TURNS if outcome is not None else StopReason.ENV_FAILED,
    )
    rewards = tuple(StepReward(value=value, scale="reference", num_actions=1) for value in values)
    return ScoredEpisode(episode=episode, outcome=outcome, step_rewards=rewards)


def _group(*siblings: tuple[float | None, Sequence[float]]) -> EpisodeGroup:
    return EpisodeGroup(task=TASK, siblings=tuple(_scored(outcome, values) for outcome, values in siblings))


def _config(name: str, **settings: object) -> AlgorithmConfig:
    return AlgorithmConfig.model_validate({"name": name, **settings})


def test_every_registered_algorithm_loads_and_scores_a_group() -> None:
    assert algorithm_names() == ["dpepo", "dr_grpo", "gigpo", "grpo", "gspo", "ppo", "reinforce_pp", "rloo"]
    for name in set(algorithm_names()) - {"gigpo", "ppo"}:  # those need turns and values: tests/algorithms/test_family.py
        [scored] = load_algorithm(_config(name)).advantages_many([_group((1.0, [1.0]), (0.0, [1.0, 1.0]))])
        assert [len(turns) for turns in scored.turns] == [1, 2]


def test_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.name 'dppo' does not exist\. Did you mean 'dpepo'\?"):
        load_algorithm(_config("dppo"))


@pytest.mark.parametrize(("value", "good", "bad"), [(0.82, 1.23, -0.59), (1.82, 2.73, -0.09), (1.0, 1.5, -0.5)])
def test_a_turns_diversity_scales_praise_down_and_blame_up(value: float, good: float, bad: float) -> None:
    """A17."""
    scored = load_algorithm(_config("dpepo")).advantages(_group((1.0, [value]), (0.0, [value]), (0.0, [value]), (0.0, [value])))
    assert scored.turns[0][0] == pytest.approx(good, abs=1e-5)
    assert scored.turns[1][0] == pytest.approx(bad, abs=1e-5)


def test_no_signal_stays_zero_whatever_the_diversity() -> None:
    """A17, A01."""
    scored = load_algorithm(_config("dpepo")).advantages(_group((1.0, [0.2, 1.9]), (1.0, [0.0])))
    assert scored.turns == ((0.0, 0.0), (0.0,))
    assert group_metrics([scored]) == {"group/frac_zero_std": 1.0, "group/frac_zero_advantage": 1.0, "group/frac_lost": 0.0}


def test_a_lost_sibling_gets_no_turns_and_is_counted() -> None:
    """A09."""
    scored = load_algorithm(_config("dpepo")).advantages(_group((1.0, [1.0]), (0.0, [1.0]), (None, [1.0, 1.0]), (0.0, [1.0])))
    assert scored.turns[2] == ()
    assert scored.trajectory[2] is None
    assert scored.turns[0][0] == pytest.approx(1.1547, abs=6e-5)
    assert group_metrics([scored])["group/frac_lost"] == 0.25


def test_groups_of_one_task_in_a_batch_do_not_mix() -> None:
    """A07."""
    algorithm = load_algorithm(_config("grpo"))
    first, second = (algorithm.advantages(_group((a, [1.0]), (0.0, [1.0]))) for a in (1.0, 0.0))
    assert first.trajectory == pytest.approx((0.7071, -0.7071), abs=6e-5)
    assert second.trajectory == (0.0, 0.0)


def test_statistics_over_turns_are_reached_by_configuration() -> None:
    """A06."""
    group = _group((1.0, [1.0] * 2), (1.0, [1.0] * 3), (0.0, [1.0] * 25), (0.0, [1.0] * 25))
    scored = load_algorithm(_config("grpo", group_stats="turns")).advantages(group)
    assert scored.trajectory == pytest.approx((3.1334, 3.1334, -0.3133, -0.3133), abs=6e-5)


def test_metrics_of_no_groups_are_numbers() -> None:
    assert group_metrics([]) == {"group/frac_zero_std": 0.0, "group/frac_zero_advantage": 0.0, "group/frac_lost": 0.0}


def test_groups_without_differences_are_told_from_groups_that_teach_nothing() -> None:
    """REINFORCE++ learns from a group whose episodes all ended alike, by comparison with other groups."""
    groups = [_group((1.0, [1.0]), (1.0, [1.0])), _group((0.0, [1.0]), (None, [1.0])), _group((None, [1.0]))]
    compared, alone = (load_algorithm(_config(name)).advantages_many(groups) for name in ("reinforce_pp", "grpo"))
    assert group_metrics(compared) == {"group/frac_zero_std": 1.0, "group/frac_zero_advantage": 0.0, "group/frac_lost": 0.4}
    assert group_metrics(alone)["group/frac_zero_advantage"] == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(st.none(), st.sampled_from([0.0, 1.0])), st.integers(0, 4)), max_size=6))
def test_dpepo_with_rewards_of_one_is_grpo_to_the_digit(siblings: list[tuple[float | None, int]]) -> None:
    group = _group(*((outcome, [1.0] * num_turns) for outcome, num_turns in siblings))
    dpepo, grpo = (load_algorithm(_config(name)).advantages(group) for name in ("dpepo", "grpo"))
    assert dpepo.turns == grpo.turns
    assert dpepo.trajectory == grpo.trajectory


@settings(deadline=None)
@given(value=st.floats(0, 2), other=st.floats(0, 2))
def test_the_sign_of_a_turn_is_never_turned_round(value: float, other: float) -> None:
    scored = load_algorithm(_config("dpepo")).advantages(_group((1.0, [value]), (0.0, [other])))
    assert scored.turns[0][0] >= 0 >= scored.turns[1][0]
