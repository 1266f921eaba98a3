"""The conformance kit finds what it is for. Each world here breaks one promise of the guessing game in docs/environments.md."""

from __future__ import annotations

import pytest

from dpepo.envs import TextEnv, World, check_loading, check_world, load_world
from dpepo.types import Observation, Task, WorldGuide

COUNT = [0]  # state that leaks between copies


class Lamp(TextEnv):
    """A switch; `defect` says what is wrong with it."""

    light = "On"

    def __init__(self, defect: str) -> None:
        self.defect, self.on, self.goal = defect, False, "" if defect == "no goal" else "Light the lamp."
        self.presses = 0

    def reset(self) -> Observation:
        if self.defect != "reset keeps state":
            self.on = False
        COUNT[0] += 1
        text = f"Start {COUNT[0]}." if self.defect == "starts differ" else f"The lamp is {'on' if self.on else 'off'}."
        return Observation(text=text, admissible_actions=("press", "wait"))

    def step(self, action: str) -> Observation:
        COUNT[0] += 1
        known = action in ("press", "wait")
        if not known and self.defect == "raises on nonsense":
            raise KeyError(action)
        if self.defect == "returns a str":
            return "The lamp."  # type: ignore[return-value]
        if action == "press":
            self.on = not self.on
            self.presses += self.defect == "hidden state stays"
        valid = {"all valid": True, "offers what it refuses": action == "wait"}.get(self.defect, known)
        text = (
            ""
            if self.defect == "no text"
            else f"Counter {COUNT[0]}"
            if self.defect == "shared state"
            else f"{self.light}: {self.on}."
            if not self.presses
            else f"{self.light}: {self.on}, pressed {self.presses} times."
        )
        score = float("nan") if self.defect == "no number" else 0.0
        return Observation(text=text, admissible_actions=("press", "wait"), score=score, success=self.on, valid=valid)

    def close(self) -> None:
        if self.defect == "broken on closing":
            Lamp.light = "dark"


class LampWorld(World):
    """One task in each split."""

    name = "lamp"
    guide = WorldGuide(role="You are next to a lamp.")

    def __init__(self, *, defect: str = "") -> None:
        self.defect = defect

    def make(self, task_id: str) -> Lamp:
        Lamp.light = "On"
        if self.defect != "any task":
            self.task(task_id)
        return Lamp(self.defect)

    def tasks(self, split: str) -> list[Task]:
        if self.defect != "any split":
            self.check_split(split)
        listed = "train" if self.defect == "wrong split" else split
        task = Task(id=f"lamp/desk/{split}", world="lamp", name="desk", split=listed)
        return [task, task] if self.defect == "listed twice" else [task]

    def expert(self, task_id: str) -> list[str] | None:
        return ["wait"] if self.defect == "bad expert" else ["press"]


def check(defect: str) -> list[str]:
    return check_world(LampWorld(defect=defect), ["lamp/desk/train"])


def test_a_good_world_has_no_problems() -> None:
    assert check("") == []


@pytest.mark.parametrize(
    ("defect", "problem"),
    [
        ("no goal", "goal is empty"),
        ("reset keeps state", "reset does not lead back"),
        ("hidden state stays", "is answered differently than after the reset before"),
        ("starts differ", "copies do not start equal"),
        ("raises on nonsense", "raised KeyError"),
        ("returns a str", "returned str, not an Observation"),
        ("all valid", "calls the nonsense"),
        ("offers what it refuses", "offers 'press' but does not understand it"),
        ("no text", "shows no text"),
        ("shared state", "or share state"),
        ("any split", "tasks('no such split') is not refused"),
        ("any task", "make('lamp/no such task') is not refused"),
        ("broken on closing", "differently after the same actions"),
        ("no number", "has the score nan"),
        ("wrong split", "says split 'train' but is listed in 'dev'"),
        ("listed twice", "a task is listed twice"),
        ("bad expert", "the expert's actions do not succeed"),
    ],
)
def test_a_broken_promise_is_named(defect: str, problem: str) -> None:
    """E08."""
    problems = check(defect)
    assert any(problem in found for found in problems), problems


def test_worlds_are_the_same_in_another_process(guess_world: str) -> None:
    assert check_loading(guess_world, {}, ["guess/number/3"]) == []
    assert check_loading("toy", {"observation": "compact"}, ["toy/castle/3"], steps=40) == []


def test_a_world_that_cannot_be_loaded_elsewhere_is_told_so(guess_world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpepo.envs.check_process._BOOT", "raise SystemExit('no such thing here')")
    assert check_loading(guess_world, {}, []) == ["in another process the world fails: no such thing here"]


def test_an_unknown_task_is_a_problem_and_not_a_crash() -> None:
    assert "TaskError" in check_world(LampWorld(), ["lamp/desk/9"])[0]


def test_the_example_of_the_documentation_passes(guess_world: str) -> None:
    with load_world(guess_world) as world:
        assert check_world(world, ["guess/number/3", "guess/number/9"]) == []
        assert [task.id for task in world.tasks("test")] == ["guess/number/8", "guess/number/9"]
