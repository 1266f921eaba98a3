from __future__ import annotations

import gc
import os
import random
import signal
import weakref
from collections.abc import Callable, Iterator

import pytest

from dpepo.envs.scienceworld.memo import Memo, Node, ReplayMismatch, TaskKey
from dpepo.envs.scienceworld.observe import Observer
from dpepo.envs.scienceworld.simulators import AMBIGUOUS, Machine, SimulatorError
from dpepo.errors import JobError

LONGEST = TaskKey(name="lifespan-longest-lived", variation=3)
ACTIONS = ("teleport to outside", "teleport to kitchen", "wait1", "look around", "open cupboard", "inventory")


def make_memo(start: Callable[[], Machine], *, max_simulators: int = 8, max_nodes: int = 1_000) -> Memo:
    observer = Observer(compact=False, valid_actions="templates", simplifications="easy")
    return Memo(
        observe=observer.observe,
        simplifications="easy",
        start=start,
        max_simulators=max_simulators,
        max_nodes=max_nodes,
    )


@pytest.fixture
def memo(machine: Machine) -> Memo:
    """A memo of its own on the Java machine of all tests, which it must not close."""
    return make_memo(lambda: machine)


@pytest.fixture
def own_memo() -> Iterator[Memo]:
    """A memo with a Java machine of its own, to close or to kill."""
    memo = make_memo(lambda: Machine(max_heap="256m"))
    yield memo
    memo.close()


def walk(memo: Memo, key: TaskKey, *actions: str) -> Node:
    node = memo.root(key)
    for action in actions:
        node = memo.step(node, action)
    return node


def test_copies_share_results_and_a_known_action_asks_no_simulator(memo: Memo) -> None:
    first = walk(memo, LONGEST, "teleport to outside", "wait1")
    misses = memo.counts.misses
    assert walk(memo, LONGEST, "teleport to outside", "wait1") is first
    assert memo.counts.misses == misses == 2


def test_a_simulator_goes_on_from_where_it_stands(memo: Memo) -> None:
    walk(memo, LONGEST, "teleport to outside", "wait1", "look around")
    assert (memo.counts.loads, memo.counts.replayed) == (1, 0)


def test_another_action_from_the_same_place_is_reached_by_replay(memo: Memo) -> None:
    walk(memo, LONGEST, "teleport to outside", "focus on axe")
    won = walk(memo, LONGEST, "teleport to outside", "focus on parrot egg")
    assert won.observation.success
    assert (memo.counts.loads, memo.counts.replayed) == (2, 1)


def test_what_follows_an_input_that_was_not_understood_is_shared_with_what_follows_without_it(memo: Memo) -> None:
    plain = walk(memo, LONGEST, "teleport to outside")
    lost = walk(memo, LONGEST, "teleport to outside", "focus on sundae", "dance")
    assert not lost.observation.valid
    assert lost.origin is plain
    misses = memo.counts.misses
    assert walk(memo, LONGEST, "teleport to outside", "dance", "focus on sundae").origin is plain
    assert memo.counts.misses == misses
    assert (memo.counts.loads, memo.counts.replayed) == (1, 0)


def test_after_a_question_nothing_is_taken_for_unchanged(memo: Memo) -> None:
    """E11: the input after a question answers it or is lost, so that the question is over in any case."""
    paint = TaskKey(name="chemistry-mix-paint-secondary-color", variation=0)
    question = walk(memo, paint, "teleport to art studio", "pick up wood cup")
    assert question.observation.text.startswith(AMBIGUOUS)
    after = memo.step(question, "nonsense")
    assert after.origin is after


def test_few_simulators_answer_like_many(machine: Machine) -> None:
    rng = random.Random(5)
    keys = [TaskKey(name="find-plant", variation=1), LONGEST, TaskKey(name="mendelian-genetics-known-plant", variation=3)]
    plans = [(rng.choice(keys), [rng.choice(ACTIONS) for _ in range(3)]) for _ in range(4)]
    answers = []
    for max_simulators in (1, 8):
        memo = make_memo(lambda: machine, max_simulators=max_simulators)
        places = [memo.root(key) for key, _ in plans]
        for depth in range(3):  # all plans in step, so that one simulator has to serve all of them
            places = [memo.step(place, plan[depth]) for place, (_, plan) in zip(places, plans, strict=True)]
        answers.append([place.observation for place in places])
    assert answers[0] == answers[1]


def test_a_killed_java_machine_is_replaced_and_what_is_remembered_outlives_it(own_memo: Memo) -> None:
    """E18"""
    node = walk(own_memo, LONGEST, "teleport to outside", "wait1")
    killed = own_memo.java_pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert own_memo.step(node, "focus on parrot egg").observation.success
    assert own_memo.counts.restarts == 1
    assert own_memo.java_pid not in (None, killed)
    own_memo.close()
    assert own_memo.java_pid is None
    assert walk(own_memo, LONGEST, "teleport to outside", "wait1") is node


def test_tasks_unused_for_longest_are_forgotten_and_their_environments_go_on(machine: Machine) -> None:
    memo = make_memo(lambda: machine, max_nodes=4)
    old = walk(memo, LONGEST, "teleport to outside", "wait1")
    other = TaskKey(name="boil", variation=1)
    walk(memo, other, "wait1", "inventory")
    loads = memo.counts.loads
    assert memo.step(old, "focus on parrot egg").observation.success
    assert memo.root(LONGEST) is not old.parent  # planted anew
    assert memo.counts.loads > loads


def test_what_is_remembered_is_bounded_for_a_single_task_too(machine: Machine) -> None:
    memo = make_memo(lambda: machine, max_nodes=4)
    place = memo.root(LONGEST)
    tree = weakref.ref(place.tree)
    for _ in range(6):
        place = memo.step(place, "wait1")
    told = place.observation
    assert memo.root(LONGEST).tree is not place.tree
    del place
    gc.collect()
    assert tree() is None  # no simulator that stands in it keeps it
    assert walk(memo, LONGEST, *["wait1"] * 6).observation == told


def test_a_replay_that_answers_differently_is_an_error_and_no_silent_change(memo: Memo) -> None:
    node = walk(memo, LONGEST, "teleport to outside")
    memo.step(node, "focus on axe")
    node.checksum += 1  # as if the simulator had said something else the first time
    with pytest.raises(ReplayMismatch, match="lifespan-longest-lived 3"):
        memo.step(node, "wait1")


def test_a_task_that_cannot_be_loaded_is_an_error_each_time_and_the_rest_works(memo: Memo) -> None:
    for _ in range(3):
        with pytest.raises(SimulatorError):
            memo.root(TaskKey(name="boil", variation=5_000))
    assert isinstance(SimulatorError("x"), JobError)
    assert walk(memo, LONGEST, "teleport to outside").observation.valid
