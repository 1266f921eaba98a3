"""An episode driven from outside, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpepo.config import PromptConfig
from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import JobError
from dpepo.protocol import PromptBuilder, parse_reply
from dpepo.rollout import PlaySettings, Session, latest_observations
from dpepo.types import StopReason


@pytest.fixture
def world() -> Iterator[ToyWorld]:
    with ToyWorld() as world:
        yield world


def session(world: ToyWorld, *, task: str = "toy/house/3", num_envs: int = 2) -> Session:
    settings = PlaySettings(num_envs=num_envs, max_turns=50)
    return Session(world.task(task), pool=LocalPool(world), settings=settings, prompts=PromptBuilder(PromptConfig()))


def test_a_session_makes_an_episode_as_a_policy_would(world: ToyWorld) -> None:
    gold = world.expert("toy/house/3")
    assert gold is not None
    with session(world) as played:
        for action in gold:
            played.act({2: action}, thought="I know the way.")
        episode = played.episode()
    assert (played.finished, episode.stop, episode.success) == (True, StopReason.SUCCESS, True)
    assert [turn.steps[0].action for turn in episode.turns] == gold
    for turn in episode.turns:
        said = parse_reply(turn.completion.text, num_envs=2)
        assert said == turn.reply and not said.problems and turn.prompt.messages


def test_undo_leads_back_exactly_and_another_way_can_be_taken(world: ToyWorld) -> None:
    with session(world) as played:
        first = played.act({1: "look", 2: "look"}, thought="a")
        before = latest_observations(played.state.view)
        action = first[1].admissible_actions[1]
        seen = played.act({1: action}, thought="b")
        played.undo()
        assert latest_observations(played.state.view) == before
        assert played.act({1: action}, thought="c") == seen
        assert len(played.state.turns) == 2


def test_a_finished_episode_can_be_taken_back_into_play(world: ToyWorld) -> None:
    gold = world.expert("toy/room/0")
    assert gold is not None
    with session(world, task="toy/room/0") as played:
        for action in gold:
            played.act({1: action}, thought="on")
        with pytest.raises(ValueError, match="has ended"):
            played.act({2: "look"}, thought="more")
        played.undo()
        assert not played.finished
        assert played.episode().stop is StopReason.MAX_TURNS


def test_what_makes_no_well_formed_reply_is_refused_and_nothing_is_done(world: ToyWorld) -> None:
    with session(world) as played:
        for actions, thought in (({3: "look"}, "x"), ({1: "look</env_1>"}, "x"), ({1: "look"}, ""), ({}, "x")):
            with pytest.raises(ValueError):
                played.act(actions, thought=thought)
        with pytest.raises(ValueError, match="nothing to undo"):
            played.undo()
        assert played.state.turns == ()


def test_a_world_that_answers_otherwise_the_second_time_cannot_be_taken_back() -> None:
    class Fickle(ToyWorld):
        made = 0

        def make(self, task_id: str):  # type: ignore[no-untyped-def]
            env = super().make(task_id)
            Fickle.made += 1
            if Fickle.made > 1:
                step = env.step
                env.step = lambda action: step(action).model_copy(update={"text": "other"})  # type: ignore[method-assign]
            return env

    with Fickle() as world, session(world, num_envs=1) as played:
        played.act({1: "look"}, thought="a")
        played.act({1: "look"}, thought="b")
        with pytest.raises(JobError, match="answers otherwise"):
            played.undo()
