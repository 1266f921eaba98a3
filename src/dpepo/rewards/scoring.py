"""From an episode to its rewards: walk the turns once, count before remembering."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.config import Scale, StepRewardConfig, Transition
from dpepo.errors import ConfigError
from dpepo.rewards.diversity import default_transition, step_reward
from dpepo.rewards.process import process_reward
from dpepo.types import Episode, Observation, ScoredEpisode, StepReward, Turn


def score_episode(episode: Episode, config: StepRewardConfig, *, expert: Sequence[str] | None = None) -> ScoredEpisode:
    """An episode with its outcome and the diversity reward of every turn.

    Only executed actions count: a turn whose reply addressed nothing but ended environments gets the no-action value.

    Args:
        episode: A finished episode.
        config: Scale and coefficients.
        expert: Gold actions of the task; given, an episode without success earns its `process_reward` as outcome.

    Raises:
        ConfigError: Transition ``state`` in a world without state fingerprints, or a scale whose base is not set.
    """
    if config.scale is Scale.REFERENCE_INVALID_ONLY and config.invalid is None:
        raise ConfigError("step_reward.scale reference_invalid_only needs step_reward.invalid. Try: step_reward.invalid=0.5")
    history: dict[int, list[str]] = {}
    states: dict[int, list[str]] = {}
    rewards = []
    transition = config.transition or default_transition(config.scale)
    for turn in episode.turns:
        for step in turn.steps:
            states.setdefault(step.env_id, [_state(episode.initial, transition, world=episode.task.world)])
        rewards.append(_turn_reward(turn, config, history=history, states=states, free=episode.guide.free_actions))
        # remembered after counting, else every action would repeat itself
        for step in turn.steps:
            history.setdefault(step.env_id, []).append(step.action)
            states[step.env_id].append(_state(step.observation, transition, world=episode.task.world))
    outcome = episode.outcome
    if outcome == 0.0 and expert is not None:
        outcome = process_reward(history.values(), expert=expert)
    return ScoredEpisode(episode=episode, outcome=outcome, step_rewards=tuple(rewards))


def _turn_reward(
    turn: Turn,
    config: StepRewardConfig,
    *,
    history: dict[int, list[str]],
    states: dict[int, list[str]],
    free: Sequence[str],
) -> StepReward:
    num_invalid = None if config.invalid is None else sum(not step.observation.valid for step in turn.steps)
    return step_reward(
        {step.env_id: step.action for step in turn.steps},
        history=history,
        scale=config.scale,
        transition=config.transition,
        width_count=config.width_count,
        alpha=config.alpha,
        gamma=config.gamma,
        beta=config.beta,
        omega=config.omega,
        num_invalid=num_invalid,
        invalid=1.0 if config.invalid is None else config.invalid,
        free_actions=free,
        states=states,
        action=config.action,
        transitions=config.transitions,
        no_action=config.no_action,
    )


def _state(observation: Observation, transition: Transition, *, world: str) -> str:
    if transition is not Transition.STATE:
        return observation.text
    if not observation.state and not observation.failure:
        raise ConfigError(
            f"step_reward.transition state needs a world that reports its state, {world!r} does not. "
            "Try: step_reward.transition=observation"
        )
    return observation.state
