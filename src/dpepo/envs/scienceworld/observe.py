"""From a simulator's answer to the observation an agent gets: score, success, what may be done next."""

from __future__ import annotations

import re

from dpepo.envs.scienceworld.compact import UNKNOWN, compact_look, room_name, visible_things
from dpepo.envs.scienceworld.guide import templates
from dpepo.envs.scienceworld.simulators import AMBIGUOUS, NOT_UNDERSTOOD, Machine, Simulator, StepResult
from dpepo.types import Observation

OBSERVATIONS = ("full", "compact")
VALID_ACTIONS = ("templates", "list", "none")
SUCCESS_SCORE = 100
_INVALID = (NOT_UNDERSTOOD, "Unknown action")  # the second after a question was not answered
_CHOICE = re.compile(r"^(\d+):\t", re.MULTILINE)


class Observer:
    """Makes observations under one set of options."""

    def __init__(self, *, compact: bool, valid_actions: str, simplifications: str) -> None:
        """Take the options as `ScienceWorld` has checked them."""
        self._compact = compact
        self._valid_actions = valid_actions
        self._simplifications = simplifications

    def observe(self, machine: Machine, simulator: Simulator, result: StepResult, task_name: str) -> Observation:
        """The observation after an action; asks the simulator for more where the options need it.

        Success is a score of 100 and nothing else: neither "completed" nor a positive score. A negative score means that the
        task can no longer be solved, and ends the environment although the simulator itself would go on.
        """
        valid = not result.text.startswith(_INVALID)
        success = result.score >= SUCCESS_SCORE
        ended = success or result.completed or result.score < 0
        choices = tuple(_CHOICE.findall(result.text)) if result.text.startswith(AMBIGUOUS) else ()
        look = ""
        if self._compact and not choices:
            look = result.text if room_name(result.text) else machine.look(simulator)
        actions: tuple[str, ...] = ()
        objects: tuple[str, ...] = ()
        if choices and not ended:
            actions = choices if self._valid_actions != "none" else ()
        elif not ended:
            actions, objects = self._next(machine, simulator, task_name, look)
        text = (compact_look(look) if valid else UNKNOWN + compact_look(look)) if look else result.text
        return Observation(
            text=text,
            admissible_actions=actions,
            objects=objects,
            score=float(result.score),
            success=success,
            ended=ended,
            valid=valid,
        )

    def _next(
        self, machine: Machine, simulator: Simulator, task_name: str, look: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Admissible actions and objects of a state that goes on and waits for no choice."""
        if self._valid_actions == "none":
            return (), visible_things(look) if look else ()
        if self._valid_actions == "list":
            return tuple(machine.valid_actions(simulator)), ()
        objects = visible_things(look) if look else tuple(machine.objects(simulator))
        return templates(self._simplifications, task_name=task_name), objects
