"""Bundles in worker processes, and what happens when one of these dies or hangs.

- A worker that dies is replaced. Its episodes come back when they are next addressed, by replay of their recorded actions;
  each answer is compared with the recorded one. The action it died in is tried once more; a second death makes that
  environment a failure.
- A worker whose present step takes longer than ``step_timeout_s`` is killed and replaced; that environment is a failure at
  once.
- An episode whose replay differs, hangs or dies twice is lost: its environments answer with failures from then on.

No process outlives the pool, nor the process that made it, however that one ends.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from dpepo.envs.bundle import BundleStart, check_env_ids, check_handles
from dpepo.envs.clock import EnvClock
from dpepo.envs.registry import load_world
from dpepo.envs.worker_crew import Crew, Record, Slot, Ticket
from dpepo.envs.worker_main import CloseBundle, GetExpert, GetMetadata, LoadWorld, OpenBundle, StepEnv
from dpepo.types import Observation

START_TIMEOUT_S = 120.0  # for a Java machine on a busy computer
PATIENCE_S = 5.0  # for workers to end by themselves when the pool closes


class WorkerPool:
    """An `EnvPool` whose bundles live in worker processes."""

    def __init__(
        self,
        world: str,
        options: Mapping[str, Any] | None = None,
        *,
        workers: int = 1,
        step_timeout_s: float = 60.0,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Set workers up; their processes start with the first work.

        Args:
            world: Name of the world, see `load_world`.
            options: Its options.
            workers: Number of processes, at least 1.
            step_timeout_s: Seconds one action in one environment may take.
            start_timeout_s: Seconds a worker, an episode or an expert's answer may take to start.

        Raises:
            RequestError: The world or an option does not exist.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        with load_world(world, options) as sample:  # wrong names are found here, before any process starts
            guide, self._name = sample.guide, sample.name
        load = LoadWorld(world, dict(options or {}))
        self._crew = Crew(load, guide, workers=workers, step_timeout_s=step_timeout_s, start_timeout_s=start_timeout_s)
        self._next = 0
        self._last_slot: dict[str, int] = {}  # task id to the slot that played it last and may remember results
        self._finalizer = weakref.finalize(self, _stop, self._crew.slots)

    def open_many(self, requests: Sequence[tuple[str, int | None]]) -> list[tuple[int, BundleStart]]:
        """See `EnvPool`."""
        if not self._finalizer.alive:
            raise RuntimeError("the pool is closed")
        tickets: dict[int, Ticket] = {}
        siblings = Counter(task_id for task_id, _ in requests)
        for _, num_envs in requests:
            if num_envs is not None and num_envs < 1:
                raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        for task_id, num_envs in requests:
            handle, self._next = self._next, self._next + 1
            self._crew.records[handle] = Record(task_id, num_envs, slot=self._choose_slot(task_id, siblings[task_id]))
            tickets[handle] = Ticket(OpenBundle(handle, task_id, num_envs))
        try:
            self._crew.drive((self._crew.records[handle].slot, ticket) for handle, ticket in tickets.items())
            for ticket in tickets.values():
                ticket.value()
        except BaseException:
            self.close_many(list(tickets))
            raise
        return [(handle, self._crew.records[handle].opened) for handle in tickets]

    def step_many(self, actions: Sequence[tuple[int, Mapping[int, str]]]) -> list[dict[int, Observation]]:
        """See `EnvPool`."""
        check_handles(actions)
        tickets: list[dict[int, Ticket]] = []
        for handle, asked in actions:
            record = self._crew.records.get(handle)
            if record is None:
                raise ValueError(f"no open bundle {handle}")
            check_env_ids(asked, record.num_envs)
            live = [] if record.opened.initial.ended else [env_id for env_id in sorted(asked) if env_id not in record.ended]
            tickets.append({env_id: Ticket(StepEnv(handle, env_id, asked[env_id])) for env_id in live})
        self._crew.drive(
            (self._crew.records[handle].slot, ticket)
            for (handle, _), row in zip(actions, tickets, strict=True)
            for ticket in row.values()
        )
        return [{env_id: ticket.value() for env_id, ticket in row.items()} for row in tickets]

    def close_many(self, handles: Sequence[int]) -> None:
        """See `EnvPool`."""
        known = [handle for handle in dict.fromkeys(handles) if handle in self._crew.records]
        try:
            self._crew.drive((self._crew.records[handle].slot, Ticket(CloseBundle(handle))) for handle in known)
        finally:
            for handle in known:
                del self._crew.records[handle]

    def expert_many(self, task_ids: Sequence[str]) -> list[list[str] | None]:
        """See `EnvPool`."""
        tickets = [Ticket(GetExpert(task_id)) for task_id in task_ids]
        for number, task_id in enumerate(dict.fromkeys(task_ids)):
            self._last_slot.setdefault(task_id, number % len(self._crew.slots))
        self._crew.drive((self._last_slot[task_id], ticket) for task_id, ticket in zip(task_ids, tickets, strict=True))
        return [ticket.value() for ticket in tickets]

    def metadata(self) -> dict[str, str]:
        """See `EnvPool`."""
        ticket = Ticket(GetMetadata())
        self._crew.drive([(0, ticket)])
        return {"world": self._name, **ticket.value()}

    @property
    def clock(self) -> EnvClock:
        """See `EnvPool`."""
        return self._crew.clock

    @property
    def restarts(self) -> int:
        """Workers that died or hung and were replaced."""
        return self._crew.clock.restarts

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that have been started and not been replaced."""
        return [slot.worker.pid for slot in self._crew.slots if slot.worker is not None]

    def close(self) -> None:
        """See `EnvPool`. Workers get a few seconds to end by themselves."""
        self._finalizer()
        self._crew.records.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _choose_slot(self, task_id: str, count: int) -> int:
        """Where bundles of a task go: to its open siblings, else where it was last if that is not busy, else to the idlest."""
        load = [0] * len(self._crew.slots)
        for record in self._crew.records.values():
            if record.task_id == task_id:
                return record.slot
            load[record.slot] += 1
        idlest = min(range(len(load)), key=load.__getitem__)
        last = self._last_slot.get(task_id, idlest)
        self._last_slot[task_id] = last if load[last] <= load[idlest] + count else idlest
        return self._last_slot[task_id]


def _stop(slots: Sequence[Slot]) -> None:
    """End all workers, together."""
    workers = [slot.worker for slot in slots if slot.worker is not None]
    for worker in workers:
        worker.let_go()
    until = time.monotonic() + PATIENCE_S
    for worker in workers:
        worker.kill(patience_s=max(0.01, until - time.monotonic()))
    for slot in slots:
        slot.worker = None
