"""The algorithms that DPEPO is measured against, by hand-worked numbers and by what holds for all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, pstdev, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.algorithms import Algorithm, load_algorithm
from dpepo.algorithms.gigpo import anchors
from dpepo.config import AlgorithmConfig, KlEstimator, KlPlace, LossAverage, LossTraits
from dpepo.errors import ConfigError
from dpepo.types import (
    Completion,
    Episode,
    EpisodeGroup,
    FinishReason,
    Observation,
    ParsedReply,
    Prompt,
    ScoredEpisode,
    Step,
    StepReward,
    StopReason,
    Task,
    Turn,
    TurnAdvantages,
    WorldGuide,
)

TASK = Task(id="toy/a/0", world="toy", name="a")
REWARD = StepReward(value=1.0, scale="reference", num_actions=1)


def algorithm(name: str, **settings: object) -> Algorithm:
    return load_algorithm(AlgorithmConfig.model_validate({"name": name, **settings}))


def scored(outcome: float | None, shown: Sequence[Sequence[tuple[int, str]]], *, num_envs: int = 1) -> ScoredEpisode:
    """An episode in which the environments answered so: per turn, pairs of environment and text."""
    turns = tuple(
        Turn(
            prompt=Prompt(messages=()),
            completion=Completion(text="", finish=FinishReason.STOP),
            reply=ParsedReply(thought="", actions={}),
            steps=tuple(Step(env_id=env_id, action="go", observation=Observation(text=text)) for env_id, text in answers),
        )
        for answers in shown
    )
    stop = StopReason.ENV_FAILED if outcome is None else StopReason.MAX_TURNS
    episode = Episode(
        task=TASK,
        goal="find it",
        guide=WorldGuide(role="r"),
        num_envs=num_envs,
        max_turns=9,
        seed=0,
        initial=Observation(text="hall"),
        turns=turns,
        stop=stop,
    )
    return ScoredEpisode(episode=episode, outcome=outcome, step_rewards=(REWARD,) * len(turns))


def walk(outcome: float | None, *rooms: str) -> ScoredEpisode:
    return scored(outcome, [[(1, room)] for room in rooms])


def group(*siblings: ScoredEpisode) -> EpisodeGroup:
    return EpisodeGroup(task=TASK, siblings=siblings)


def only(name: str, siblings: EpisodeGroup, **settings: object) -> TurnAdvantages:
    [credited] = algorithm(name, **settings).advantages_many([siblings])
    return credited


FOUR = group(walk(1.0, "a"), walk(0.0, "a", "b"), walk(None, "a"), walk(0.0, "a"), walk(0.0, "c"))


def test_dr_grpo_is_the_outcome_minus_the_mean_of_those_not_lost() -> None:
    assert only("dr_grpo", FOUR).turns == ((0.75,), (-0.25, -0.25), (), (-0.25,), (-0.25,))


def test_rloo_compares_each_with_the_mean_of_the_others() -> None:
    trajectory = only("rloo", FOUR).trajectory
    assert trajectory[2] is None
    assert [phi for phi in trajectory if phi is not None] == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert only("rloo", group(walk(1.0, "a"))).trajectory == (0.0,)


def test_reinforce_plus_plus_normalises_over_the_whole_step() -> None:
    groups = [group(walk(1.0, "a"), walk(1.0, "a")), group(walk(0.0, "a"), walk(None, "a"), walk(1.0, "a"))]
    credited = algorithm("reinforce_pp").advantages_many(groups)
    outcomes = [1.0, 1.0, 0.0, 1.0]
    expected = [(outcome - fmean(outcomes)) / (stdev(outcomes) + 1e-6) for outcome in outcomes]
    assert [phi for one in credited for phi in one.trajectory if phi is not None] == pytest.approx(expected)
    assert credited[0].trajectory[0] != 0  # a group without differences still learns: its task was easier than others


def test_algorithms_bring_the_loss_of_their_papers() -> None:
    assert algorithm("dpepo").loss == algorithm("grpo").loss == LossTraits()
    assert algorithm("dr_grpo").loss == LossTraits(loss_average=LossAverage.CONSTANT)
    assert algorithm("reinforce_pp").loss == LossTraits(kl=KlEstimator.K1, kl_in=KlPlace.REWARD)
    gspo = algorithm("gspo").loss
    assert (gspo.sequence_ratio, gspo.loss_average, gspo.clip_low, gspo.clip_high) == (True, LossAverage.TURNS, 3e-4, 4e-4)


def test_gspo_has_grpos_advantages_and_one_ratio_per_reply() -> None:
    assert only("gspo", FOUR).turns == only("grpo", FOUR).turns
    assert algorithm("gspo").loss.sequence_ratio and not algorithm("grpo").loss.sequence_ratio


def test_gigpo_adds_what_a_turn_is_worth_among_turns_from_the_same_state() -> None:
    """Both start in the hall; one wins in two turns, the other loses in one: returns 0.5 and 0 from there."""
    siblings = group(walk(1.0, "a", "goal"), walk(0.0, "b"))
    phi = 1 / (math.sqrt(0.5) + 1e-6) / 2
    spread = 0.25 / (math.sqrt(0.125) + 1e-6)
    credited = only("gigpo", siblings, discount=0.5, step_weight=2.0)
    assert credited.turns[0] == pytest.approx((phi + 2 * spread, phi))  # nobody else was in room a
    assert credited.turns[1] == pytest.approx((-phi - 2 * spread,))


def test_gigpo_without_its_step_part_is_grpo_to_the_digit() -> None:
    assert only("gigpo", FOUR, step_weight=0.0).turns == only("grpo", FOUR).turns


def test_an_anchor_met_again_in_the_same_episode_is_the_same_state() -> None:
    """Going round in circles: the second visit of the hall is nearer to the goal, so it is worth more."""
    siblings = group(walk(1.0, "a", "hall", "goal"), walk(0.0, "b"))
    credited = only("gigpo", siblings, discount=0.5, step_weight=1.0)
    phi = credited.trajectory[0]
    assert phi is not None
    steps = [value - phi for value in credited.turns[0]]
    returns = [0.25, 1.0, 0.0]  # hall, hall again, the sibling's hall
    assert steps == pytest.approx(
        [(0.25 - fmean(returns)) / stdev(returns), 0.0, (1.0 - fmean(returns)) / stdev(returns)], 1e-4
    )


def test_worlds_that_tell_their_state_are_compared_by_it_and_ended_copies_are_told_apart() -> None:
    def seen(**observed: Any) -> ScoredEpisode:
        one = walk(0.0, "x", "y")
        [first, last] = one.episode.turns
        step = first.steps[0].model_copy(update={"observation": Observation(**observed)})
        turns = (first.model_copy(update={"steps": (step,)}), last)
        return one.model_copy(update={"episode": one.episode.model_copy(update={"turns": turns})})

    def second(**observed: Any) -> tuple[str, ...]:
        return anchors(seen(**observed).episode)[1]

    assert second(text="one wording", state="s1") == second(text="another", state="s1") != second(text="another", state="s2")
    assert second(text="same") != second(text="same", ended=True)


def test_the_anchor_of_several_copies_does_not_depend_on_their_numbers() -> None:
    one = scored(1.0, [[(1, "a"), (2, "b")], [(1, "c")]], num_envs=3)
    other = scored(0.0, [[(3, "a"), (1, "b")], [(2, "c")]], num_envs=3)
    assert anchors(one.episode)[:2] == anchors(other.episode)[:2]
    assert len(set(anchors(one.episode))) == 2


def test_ppo_estimates_advantages_over_turns_and_gives_the_values_their_targets() -> None:
    siblings = group(walk(1.0, "a", "b"), walk(0.0, "a"))
    ppo = algorithm("ppo", discount=0.5, lam=0.5)
    [credited] = ppo.advantages_many([siblings], values=[[[0.2, 0.4], [0.1]]])
    last = 1.0 - 0.4
    first = (0.5 * 0.4 - 0.2) + 0.25 * last
    raw = [first, last, -0.1]
    expected = [(value - fmean(raw)) / (pstdev(raw) + 1e-6) for value in raw]
    assert [phi for turns in credited.turns for phi in turns] == pytest.approx(expected)
    assert credited.returns[0] == pytest.approx((first + 0.2, 1.0))
    assert credited.returns[1] == pytest.approx((0.0,))
    with pytest.raises(ValueError, match="value of every turn"):
        ppo.advantages_many([siblings])


def test_values_of_lost_siblings_may_be_anything() -> None:
    siblings = group(walk(1.0, "a"), walk(None, "a", "b"), walk(0.0, "a"))
    kept, other = (
        algorithm("ppo").advantages_many([siblings], values=[[[0.5], lost, [0.25]]])[0] for lost in ([math.nan] * 2, [0.0] * 2)
    )
    assert kept == other
    assert kept.turns[1] == kept.returns[1] == ()


def test_with_perfect_values_ppo_has_nothing_to_correct() -> None:
    siblings = group(walk(1.0, "a", "b", "c"))
    [credited] = algorithm("ppo", discount=1.0, lam=0.9).advantages_many([siblings], values=[[[1.0, 1.0, 1.0]]])
    assert credited.turns == ((0.0, 0.0, 0.0),)


outcomes = st.lists(st.one_of(st.none(), st.floats(0, 1, width=32)), min_size=1, max_size=8)
NAMES = ("dpepo", "dr_grpo", "gigpo", "grpo", "gspo", "reinforce_pp", "rloo")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(outcomes=outcomes, seed=st.integers(0, 99))
def test_permuting_siblings_permutes_their_advantages(name: str, outcomes: list[float | None], seed: int) -> None:
    rng = random.Random(seed)
    siblings = [walk(outcome, *rng.choices("abc", k=rng.randint(1, 3))) for outcome in outcomes]
    order = rng.sample(range(len(siblings)), len(siblings))
    before = only(name, group(*siblings)).turns
    after = only(name, group(*(siblings[place] for place in order))).turns
    for new, old in enumerate(order):
        assert after[new] == pytest.approx(before[old], abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(outcomes=outcomes, seed=st.integers(0, 99))
def test_permuting_siblings_permutes_the_advantages_and_targets_of_ppo(outcomes: list[float | None], seed: int) -> None:
    rng = random.Random(seed)
    siblings = [walk(outcome, *rng.choices("abc", k=rng.randint(1, 3))) for outcome in outcomes]
    values = [[rng.random() for _ in sibling.step_rewards] for sibling in siblings]
    order = rng.sample(range(len(siblings)), len(siblings))
    ppo = algorithm("ppo")
    [before] = ppo.advantages_many([group(*siblings)], values=[values])
    [after] = ppo.advantages_many([group(*(siblings[p] for p in order))], values=[[values[p] for p in order]])
    for new, old in enumerate(order):
        assert after.turns[new] == pytest.approx(before.turns[old], abs=1e-6)
        assert after.returns[new] == before.returns[old]
    every = [phi for turns in before.turns for phi in turns]
    assert sum(every) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "gspo", "reinforce_pp", "rloo"])
@settings(max_examples=40, deadline=None)
@given(outcomes=outcomes)
def test_centred_advantages_add_up_to_nothing(name: str, outcomes: list[float | None]) -> None:
    trajectory = only(name, group(*(walk(outcome, "a") for outcome in outcomes))).trajectory
    assert sum(phi for phi in trajectory if phi is not None) == pytest.approx(0.0, abs=1e-4)


def test_a_class_of_ones_own_is_an_algorithm_too(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert algorithm("dpepo.algorithms.rloo:Rloo").advantages(FOUR) == only("rloo", FOUR)
    for name, says in (("no.module:X", "cannot be loaded"), ("json:loads", "no subclass"), ("rlo", "Did you mean 'rloo'")):
        with pytest.raises(ConfigError, match=says):
            algorithm(name)
