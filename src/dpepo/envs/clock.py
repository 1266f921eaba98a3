"""Where the time of environments goes: starting them, starting episodes, doing actions, bringing lost episodes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace


@dataclass(kw_only=True)
class EnvClock:
    """Seconds and counts of a pool since it was made.

    Seconds are those that a worker process was busy, added up over workers: with several of them, more than pass on the wall.
    """

    start_s: float = 0.0  # from starting a worker process to having its world
    reset_s: float = 0.0  # starting episodes; the first of a world starts what its copies share, such as a Java machine
    step_s: float = 0.0  # doing actions
    restore_s: float = 0.0  # bringing episodes of a lost worker back
    starts: int = 0  # worker processes that came up
    resets: int = 0  # episodes started
    steps: int = 0  # actions done
    restarts: int = 0  # worker processes that died or hung and were replaced

    def copy(self) -> EnvClock:
        """The present reading."""
        return replace(self)

    def since(self, before: EnvClock) -> EnvClock:
        """What was added after an earlier reading."""
        return EnvClock(**{field.name: getattr(self, field.name) - getattr(before, field.name) for field in fields(self)})

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Add the time that a block takes.

        Args:
            what: Name of a field of seconds.
        """
        began = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - began)
