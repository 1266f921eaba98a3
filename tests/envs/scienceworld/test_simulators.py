"""The proof that many simulators in one Java machine are each as exact as one alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dpepo.envs.scienceworld.simulators import AMBIGUOUS, NOT_UNDERSTOOD, Machine, SimulatorError, StepResult
from dpepo.envs.scienceworld.tasks import NUM_VARIATIONS

SAMPLE = [  # bees and pollen draw at random while they run; two copies of one task; a task loaded alone and one loaded in full
    ("find-plant", 7, "easy"),
    ("mendelian-genetics-known-plant", 3, ""),
    ("lifespan-longest-lived", 3, "easy"),
    ("lifespan-longest-lived", 3, "easy"),
    ("test-conductivity", 5, "openDoors,teleportAction"),
]


def entry(result: StepResult, look: str) -> list[Any]:
    return [result.text, result.score, result.completed, look]


def play_interleaved(
    machine: Machine, tasks: Sequence[tuple[str, int, str]], *, steps: int, seed: int
) -> tuple[list[list[str]], list[list[list[Any]]]]:
    """Random valid actions, a random simulator at a time, with questions in between. Actions and traces per task."""
    rng = random.Random(seed)
    simulators = [machine.open() for _ in tasks]
    actions: list[list[str]] = [[] for _ in tasks]
    traces = []
    for simulator, (name, variation, simplifications) in zip(simulators, tasks, strict=True):
        traces.append([entry(machine.load(simulator, name, variation, simplifications), machine.look(simulator))])
    turns = [index for index in range(len(tasks)) for _ in range(steps)]
    rng.shuffle(turns)
    for index in turns:
        simulator = simulators[index]
        if rng.random() < 0.3:
            machine.objects(simulators[rng.randrange(len(tasks))])
        action = rng.choice([*machine.valid_actions(simulator), "wait1", "wait1"])
        result = machine.step(simulator, action)
        actions[index].append(action)
        traces[index].append(entry(result, machine.look(simulator)))
    return actions, traces


def play_alone(machine: Machine, task: tuple[str, int, str], actions: Sequence[str]) -> list[list[Any]]:
    simulator = machine.open()
    results = [entry(machine.load(simulator, *task), machine.look(simulator))]
    return results + [entry(machine.step(simulator, action), machine.look(simulator)) for action in actions]


def assert_exact(
    machine: Machine,
    plain_package: Callable[[list[dict[str, Any]]], Any],
    tasks: Sequence[tuple[str, int, str]],
    *,
    steps: int,
) -> None:
    actions, interleaved = play_interleaved(machine, tasks, steps=steps, seed=steps)
    requests = [
        {"task": name, "variation": variation, "simplifications": simplifications, "actions": taken}
        for (name, variation, simplifications), taken in zip(tasks, actions, strict=True)
    ]
    plain = plain_package(requests)
    for task, taken, ours, theirs in zip(tasks, actions, interleaved, plain, strict=True):
        assert ours == theirs, task
        assert play_alone(machine, task, taken) == theirs, task


def test_interleaved_simulators_equal_isolated_ones_and_the_plain_package(
    machine: Machine, plain_package: Callable[[list[dict[str, Any]]], Any]
) -> None:
    assert_exact(machine, plain_package, SAMPLE, steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_all_thirty_tasks_interleaved_equal_isolated_ones_and_the_plain_package(
    machine: Machine, plain_package: Callable[[list[dict[str, Any]]], Any], half: int
) -> None:
    rng = random.Random(half)
    tasks = [(name, rng.randrange(number), "easy" if half else "") for name, number in NUM_VARIATIONS.items()]
    assert_exact(machine, plain_package, tasks, steps=25)


def assert_unknown_input_changes_nothing(machine: Machine, tasks: Sequence[tuple[str, int, str]], *, steps: int) -> None:
    """Two simulators do the same random actions; one of them hears nonsense in between."""
    rng = random.Random(steps)
    for task in tasks:
        plain, disturbed = machine.open(), machine.open()
        for simulator in (plain, disturbed):
            machine.load(simulator, *task)
        question = False
        for _ in range(steps):
            for nonsense in [] if question else rng.sample(["focus on sundae", "dance", "move stone to sky", "zzz"], k=2):
                assert machine.step(disturbed, nonsense).text == NOT_UNDERSTOOD
            action = rng.choice([*machine.valid_actions(plain), "wait1"])
            result = machine.step(plain, action)
            assert machine.step(disturbed, action) == result, (task, action)
            assert machine.look(disturbed) == machine.look(plain), (task, action)
            assert machine.objects(disturbed) == machine.objects(plain), (task, action)
            question = result.text.startswith(AMBIGUOUS)


def test_input_that_is_not_understood_leaves_the_simulator_exactly_as_it_was(machine: Machine) -> None:
    assert_unknown_input_changes_nothing(machine, SAMPLE, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("simplifications", ["", "easy"])
def test_input_that_is_not_understood_changes_nothing_in_all_thirty_tasks(machine: Machine, simplifications: str) -> None:
    rng = random.Random(len(simplifications))
    tasks = [(name, rng.randrange(number), simplifications) for name, number in NUM_VARIATIONS.items()]
    assert_unknown_input_changes_nothing(machine, tasks, steps=12)


def test_loading_again_gives_the_same_start_whatever_was_done_before(machine: Machine) -> None:
    simulator = machine.open()
    first = machine.load(simulator, "find-plant", 7, "easy")
    for action in ("teleport to greenhouse", "wait", "pick up bee hive"):
        machine.step(simulator, action)
    machine.load(simulator, "boil", 2, "")
    assert machine.load(simulator, "find-plant", 7, "easy") == first


def test_questions_answer_the_same_twice_and_change_nothing(machine: Machine) -> None:
    asked, unasked = machine.open(), machine.open()
    for simulator in (asked, unasked):
        machine.load(simulator, "mendelian-genetics-unknown-plant", 4, "easy")
        machine.step(simulator, "teleport to greenhouse")
    assert machine.objects(asked) == machine.objects(asked)
    assert machine.valid_actions(asked) == machine.valid_actions(asked)
    assert machine.look(asked) == machine.look(asked)
    for _ in range(5):
        machine.objects(asked)
        assert machine.step(asked, "wait") == machine.step(unasked, "wait")
        assert machine.look(asked) == machine.look(unasked)


def test_a_combination_the_simulator_refuses_is_an_error_and_the_simulator_stays_usable(machine: Machine) -> None:
    simulator = machine.open()
    with pytest.raises(SimulatorError):
        machine.load(simulator, "boil", 5_000, "easy")
    assert machine.load(simulator, "boil", 5, "easy").text.startswith("This ")


@pytest.mark.parametrize("action", ["", "   ", "(*[", "\\", "look\nat\rme", "\x00", "é", "🙂", "0", "OBJ", "x " * 500])
def test_strange_input_is_answered(machine: Machine, action: str) -> None:
    simulator = machine.open()
    machine.load(simulator, "boil", 5, "easy")
    assert machine.step(simulator, action).text
