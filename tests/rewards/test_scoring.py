from collections.abc import Mapping

import pytest

from dpepo.config import StepRewardConfig
from dpepo.errors import ConfigError
from dpepo.rewards import score_episode
from dpepo.types import (
    Completion,
    Episode,
    FinishReason,
    Observation,
    ParsedReply,
    Prompt,
    Step,
    StopReason,
    Task,
    Turn,
    WorldGuide,
)

HALL = Observation(text="a hall", state="s0")


def _turn(steps: Mapping[int, str | tuple[str, Observation]]) -> Turn:
    done = []
    for env_id, given in steps.items():
        action, observation = given if isinstance(given, tuple) else (given, HALL)
        done.append(Step(env_id=env_id, action=action, observation=observation))
    return Turn(
        prompt=Prompt(messages=()),
        completion=Completion(text="", finish=FinishReason.STOP),
        reply=ParsedReply(thought="", actions={step.env_id: step.action for step in done}),
        steps=tuple(done),
    )


def _episode(
    *turns: Turn, stop: StopReason = StopReason.MAX_TURNS, free: tuple[str, ...] = (), initial: Observation = HALL
) -> Episode:
    return Episode(
        task=Task(id="toy/a/0", world="toy", name="a"),
        goal="find it",
        guide=WorldGuide(role="a seeker", free_actions=free),
        num_envs=4,
        max_turns=9,
        seed=0,
        initial=initial,
        turns=turns,
        stop=stop,
    )


def test_a_turn_is_counted_before_it_is_remembered() -> None:
    scored = score_episode(_episode(_turn({1: "look"}), _turn({1: "look"}), _turn({1: "look"})), StepRewardConfig())
    assert [reward.c_depth[1] for reward in scored.step_rewards] == [0, 1, 2]
    assert [reward.m_depth[1] for reward in scored.step_rewards] == [0, 0, 1]
    assert [reward.value for reward in scored.step_rewards] == [1.0, 0.9667, 0.9317]


def test_observations_are_the_states_when_the_equations_ask_for_them() -> None:
    yard = Observation(text="a yard")
    episode = _episode(
        _turn({1: ("go east", yard), 2: ("go east", yard)}), _turn({1: "go west"}), _turn({1: "go east", 2: "go west"})
    )
    scored = score_episode(episode, StepRewardConfig.model_validate({"scale": "equations"}))
    assert [dict(reward.m_depth) for reward in scored.step_rewards] == [{1: 0, 2: 0}, {1: 0}, {1: 1, 2: 0}]
    assert [dict(reward.m_width) for reward in scored.step_rewards] == [{1: 0, 2: 0}, {1: 0}, {1: 1, 2: 1}]


def test_simulator_states_tell_apart_what_reads_the_same() -> None:
    moved = Observation(text="a hall", state="s1")
    episode = _episode(_turn({1: ("wait", moved)}), _turn({1: ("wait", moved)}), _turn({1: "wait"}))
    by_state = score_episode(episode, StepRewardConfig.model_validate({"transition": "state"}))
    by_text = score_episode(episode, StepRewardConfig.model_validate({"transition": "observation"}))
    assert [reward.m_depth[1] for reward in by_state.step_rewards] == [0, 0, 1]
    assert [reward.m_depth[1] for reward in by_text.step_rewards] == [0, 1, 2]


def test_a_world_without_states_refuses_the_state_transition_with_a_way_out() -> None:
    episode = _episode(_turn({1: "look"}), initial=Observation(text="a hall"))
    with pytest.raises(ConfigError, match=r"'toy' does not\. Try: step_reward\.transition=observation"):
        score_episode(episode, StepRewardConfig.model_validate({"transition": "state"}))


def test_a_turn_without_executed_action_gets_the_no_action_value_and_breaks_nothing() -> None:
    """A10."""
    scored = score_episode(_episode(_turn({}), _turn({2: "look"})), StepRewardConfig())
    assert [reward.value for reward in scored.step_rewards] == [0.5, 1.0]


def test_idle_environments_have_no_history() -> None:
    """A14."""
    scored = score_episode(_episode(_turn({1: "look"}), _turn({1: "go east", 3: "look"})), StepRewardConfig())
    assert dict(scored.step_rewards[1].c_depth) == {1: 0, 3: 0}


def test_invalid_actions_are_counted_only_when_their_base_is_set() -> None:
    misread = Observation(text="?", valid=False)
    episode = _episode(_turn({1: ("xyzzy", misread), 2: "look"}))
    assert score_episode(episode, StepRewardConfig()).step_rewards[0].num_invalid is None
    scored = score_episode(episode, StepRewardConfig(invalid=0.5))
    assert scored.step_rewards[0].num_invalid == 1
    assert scored.step_rewards[0].value == 0.8333


def test_invalid_only_without_a_base_would_be_plain_grpo_and_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"step_reward\.invalid=0\.5"):
        score_episode(_episode(), StepRewardConfig.model_validate({"scale": "reference_invalid_only"}))


def test_the_worlds_free_actions_reach_the_count() -> None:
    episode = _episode(_turn({1: "look", 2: "look"}), free=("look",))
    assert score_episode(episode, StepRewardConfig()).step_rewards[0].c_width == 0


def test_success_in_any_environment_is_the_outcome_and_score_and_end_are_not() -> None:
    won = Observation(text="!", success=True, ended=True)
    lost = Observation(text="!", score=-100, ended=True)
    partly = Observation(text="!", score=67, ended=True)
    config = StepRewardConfig()
    assert score_episode(_episode(_turn({1: ("x", lost), 3: ("y", won)}), stop=StopReason.SUCCESS), config).outcome == 1.0
    assert score_episode(_episode(_turn({1: ("x", lost), 3: ("y", partly)}), stop=StopReason.ALL_ENDED), config).outcome == 0.0
    assert score_episode(_episode(_turn({1: "x"}), stop=StopReason.ENV_FAILED), config).outcome is None


def test_an_expert_pays_only_for_episodes_without_success() -> None:
    won = Observation(text="!", success=True, ended=True)
    turns = (_turn({1: "a", 2: "b"}), _turn({1: "c", 2: "a"}))
    config = StepRewardConfig()
    assert score_episode(_episode(*turns), config, expert=["b", "a", "q"]).outcome == 0.66667
    solved = _episode(*turns, _turn({1: ("d", won)}), stop=StopReason.SUCCESS)
    assert score_episode(solved, config, expert=["a", "q"]).outcome == 1.0
    assert score_episode(_episode(*turns, stop=StopReason.ENV_FAILED), config, expert=["a"]).outcome is None
