"""How a job tells a person how far it is, without knowing who is looking.

Jobs call a `Progress`; the command line brings one that draws, tests and other programs use `SilentProgress`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """One stage at a time: `start`, any number of `advance`, `finish`. Starting a stage finishes the one before."""

    def start(self, stage: str, *, total: float | None, unit: str) -> None:
        """Begin a stage.

        Args:
            stage: What happens, in a few words, e.g. "evaluate, K = 4".
            total: Size of the stage in units; None when unknown.
            unit: What is counted, e.g. "episodes", "steps", "seconds".
        """

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        """Move on by n units, and show the newest values (``success=0.25``) beside the bar."""

    def skip(self, n: float, **shown: float | int | str) -> None:
        """Move on by n units that an earlier session did: they count as done, but say nothing about the time left."""

    def note(self, text: str) -> None:
        """Say one line that stays on the screen."""

    def finish(self) -> None:
        """End the stage; harmless when none is running."""


class SilentProgress:
    """Shows nothing."""

    def start(self, stage: str, *, total: float | None, unit: str) -> None:
        """Do nothing."""

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        """Do nothing."""

    def skip(self, n: float, **shown: float | int | str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""
