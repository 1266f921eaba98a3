"""A Gymnasium environment of text, registered when this module is imported."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Discrete, Text


class NumberGame(gymnasium.Env[str, str]):
    """Guess a number that the seed fixes."""

    observation_space = Text(200)
    action_space = Text(50)

    def __init__(self, highest: int = 4) -> None:
        self._highest = highest

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._number = int(self.np_random.integers(1, self._highest + 1))
        return "Guess.", {"goal": "Find the number.", **self._info()}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action not in self._info()["admissible_actions"]:
            return "A number, please.", 0.0, False, False, {"valid": False, **self._info()}
        right = action == f"say {self._number}"
        return ("Right." if right else "Wrong."), float(right), right, False, {"success": right, **self._info()}

    def _info(self) -> dict[str, Any]:
        return {"admissible_actions": [f"say {number}" for number in range(1, self._highest + 1)]}


class ButtonGame(NumberGame):
    """One whose actions are numbers, which an agent of text cannot use."""

    action_space = Discrete(2)  # type: ignore[assignment]


gymnasium.register("NumberGame-v0", "tests.support.number_game:NumberGame")
gymnasium.register("ButtonGame-v0", "tests.support.number_game:ButtonGame")
