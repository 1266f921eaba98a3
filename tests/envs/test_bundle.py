"""K copies of one task and the guards around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpepo.envs import Bundle, TextEnv, load_world
from dpepo.envs.toy import ToyWorld, layout_of
from dpepo.errors import TaskError
from dpepo.types import Observation

TASK = "toy/house/3"  # hall, by way of the study: expert walks, opens, takes
SHOWN = Observation(text="Something.")


class ScriptedEnv(TextEnv):
    """An environment whose every answer is computed by a function of the action; it records the calls it gets."""

    def __init__(self, answer: Callable[[str], Any], *, start: Any = SHOWN) -> None:
        self.answer, self.start, self.calls, self.closed = answer, start, list[str](), 0
        self.goal = "A goal."

    def reset(self) -> Observation:
        return self.start() if callable(self.start) else self.start  # type: ignore[no-any-return]

    def step(self, action: str) -> Observation:
        self.calls.append(action)
        return self.answer(action)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed += 1
        raise OSError("closing fails as well")


class ScriptedWorld(ToyWorld):
    """Makes scripted environments, in the order in which they are claimed."""

    def __init__(self, *envs: ScriptedEnv) -> None:
        super().__init__()
        self.left = list(envs)

    def make(self, task_id: str) -> ScriptedEnv:  # type: ignore[override]
        return self.left.pop(0)


def trap_of(task_id: str) -> list[str]:
    """Actions that lead straight into the trap of a toy task."""
    layout = layout_of(ToyWorld().task(task_id))
    container = next(name for name, thing in layout.contents.items() if thing == layout.trap)
    room = next(room for room, names in layout.containers.items() if container in names)
    walk = [] if room == next(iter(layout.containers)) else [f"go to {room}"]
    return [*walk, f"open {container}", f"take {layout.trap}"]


def test_an_environment_that_raises_becomes_a_failure_and_the_others_go_on() -> None:
    """E04."""
    bundle = Bundle(load_world("toy", {"fail_at": 3, "fault_action": "look"}), TASK, 4)
    bundle.reset()
    for _ in range(2):
        bundle.step({env_id: "look" for env_id in (1, 2, 3, 4)})
    seen = bundle.step({1: "go to hall", 2: "look", 3: "go to hall", 4: "go to hall"})
    assert seen[2].failure == "IndexError: toy fault at action 3"
    assert seen[2].ended and not seen[2].success
    assert [seen[env_id].failure for env_id in (1, 3, 4)] == ["", "", ""]
    assert list(bundle.step({1: "go to study", 2: "look", 3: "go to study", 4: "go to study"})) == [1, 3, 4]


@pytest.mark.parametrize("answer", [None, "You win.", {"text": "a"}, (SHOWN, 0.0, False, {})])
def test_an_environment_that_returns_something_else_is_broken(answer: object) -> None:
    """E04."""
    bundle = Bundle(ScriptedWorld(ScriptedEnv(lambda action: answer)), TASK, 1)
    bundle.reset()
    assert (
        bundle.step({1: "look"})[1].failure
        == f"TypeError: the environment returned {type(answer).__name__}, not an Observation"
    )


def test_a_failure_message_is_one_short_line() -> None:
    """E04."""

    def explode(action: str) -> Observation:
        raise ValueError("line one\n\tline two " + "x" * 5000)

    bundle = Bundle(ScriptedWorld(ScriptedEnv(explode)), TASK, 1)
    bundle.reset()
    failure = bundle.step({1: "look"})[1].failure
    assert failure.startswith("ValueError: line one line two xxx")
    assert "\n" not in failure and len(failure) <= 500


def test_ctrl_c_inside_an_environment_is_not_a_failure_but_stops_the_job() -> None:
    """E04."""

    def interrupt(action: str) -> Observation:
        raise KeyboardInterrupt

    bundle = Bundle(ScriptedWorld(ScriptedEnv(interrupt)), TASK, 1)
    bundle.reset()
    with pytest.raises(KeyboardInterrupt):
        bundle.step({1: "look"})


def test_no_call_reaches_an_environment_that_has_ended() -> None:
    """E17."""
    won = ScriptedEnv(lambda action: Observation(text="Done.", success=True, ended=True))
    bundle = Bundle(ScriptedWorld(won, ScriptedEnv(lambda action: SHOWN)), TASK, 4)
    bundle.reset()
    assert bundle.step({2: "win"})[2].success
    assert bundle.step({1: "look", 2: "again"}) == {1: SHOWN}
    assert won.calls == ["win"]


def test_a_trap_ends_its_own_copy_only() -> None:
    """E12 and E17."""
    bundle = Bundle(ToyWorld(), TASK, 2)
    bundle.reset()
    *_, last = [bundle.step({1: action})[1] for action in trap_of(TASK)]
    assert (last.score, last.ended, last.success, last.failure) == (-100.0, True, False, "")
    *_, last = [bundle.step({1: "look", 2: action})[2] for action in ToyWorld().expert(TASK)]
    assert (last.score, last.success) == (100.0, True)


def test_a_second_episode_knows_nothing_of_the_first() -> None:
    """E16."""
    bundle = Bundle(ToyWorld(), TASK, 3)
    first = bundle.reset()
    expert = ToyWorld().expert(TASK)
    answers = [bundle.step({1: action, 3: action}) for action in expert]
    assert bundle.reset() == first
    assert [bundle.step({1: action, 3: action}) for action in expert] == answers


def test_a_copy_first_addressed_late_starts_where_the_others_started() -> None:
    """E08."""
    bundle = Bundle(ToyWorld(), TASK, 2)
    bundle.reset()
    early = [bundle.step({1: action}) for action in ToyWorld().expert(TASK)]
    late = [bundle.step({2: action}) for action in ToyWorld().expert(TASK)]
    assert [seen[1] for seen in early] == [seen[2] for seen in late]


def test_a_copy_that_starts_differently_is_broken() -> None:
    """E08."""
    other = ScriptedEnv(lambda action: SHOWN, start=Observation(text="Another game."))
    bundle = Bundle(ScriptedWorld(ScriptedEnv(lambda action: SHOWN), other), TASK, 2)
    bundle.reset()
    seen = bundle.step({1: "look", 2: "look"})
    assert seen[1] == SHOWN
    assert "do not start equal" in seen[2].failure
    assert other.calls == [] and other.closed == 1


def test_a_copy_nobody_addresses_is_never_made() -> None:
    world = ScriptedWorld(ScriptedEnv(lambda action: SHOWN))
    bundle = Bundle(world, TASK, 50)
    bundle.reset()
    bundle.step({50: "look"})
    assert world.left == []  # a second make would have raised IndexError


def test_a_start_that_breaks_is_a_value_and_takes_no_actions() -> None:
    """E18."""

    def explode() -> Observation:
        raise RuntimeError("no power")

    env = ScriptedEnv(lambda action: SHOWN, start=explode)
    bundle = Bundle(ScriptedWorld(env), TASK, 2)
    start = bundle.reset()
    assert (start.initial.failure, start.initial.ended) == ("RuntimeError: no power", True)
    assert bundle.step({1: "look"}) == {}
    assert env.closed == 1


def test_an_unknown_task_is_refused_and_not_a_failure() -> None:
    with pytest.raises(TaskError, match=r"toy/hause/3.*Did you mean 'toy/house"):
        Bundle(ToyWorld(), "toy/hause/3", 2).reset()


@pytest.mark.parametrize("env_id", [0, -1, 5])
def test_an_environment_outside_1_to_k_is_a_mistake_of_the_caller(env_id: int) -> None:
    bundle = Bundle(ToyWorld(), TASK, 4)
    bundle.reset()
    with pytest.raises(ValueError, match=f"no environment {env_id}"):
        bundle.step({1: "look", env_id: "look"})


def test_without_a_limit_any_environment_can_be_addressed() -> None:
    bundle = Bundle(ToyWorld(), TASK, None)
    start = bundle.reset()
    assert bundle.step({1000: "look"})[1000].text == start.initial.text


def test_closing_twice_and_closing_broken_copies_does_no_harm() -> None:
    env = ScriptedEnv(lambda action: SHOWN)
    bundle = Bundle(ScriptedWorld(env), TASK, 1)
    bundle.reset()
    bundle.step({1: "look"})
    bundle.close()
    bundle.close()
    assert env.closed == 1
