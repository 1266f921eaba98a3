"""The machinery under `dpepo.envs.worker_pool`: commands on their way to workers, and what happens when one of these goes away.

Every answer is a message of its own, in the order of the commands. So when a worker goes away it is known exactly what was done
(it is in the `Record` of the bundle) and what was being done (the first unanswered `Ticket` of its `Slot`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from dpepo.envs.bundle import BundleStart, failed
from dpepo.envs.clock import EnvClock
from dpepo.envs.worker_main import (
    Answer,
    CloseBundle,
    Command,
    GetExpert,
    GetMetadata,
    LoadWorld,
    OpenBundle,
    RestoreBundle,
    StepEnv,
)
from dpepo.envs.worker_process import WorkerGone, WorkerProcess
from dpepo.errors import JobError
from dpepo.types import Observation, WorldGuide

MAX_TRIES = 2  # deaths of a worker during the same command before the command is given up
_log = logging.getLogger(__name__)


@dataclass
class Ticket:
    """A command on its way, and in the end its answer."""

    command: Command
    answer: Answer | None = None
    deaths: int = 0  # workers that died while doing it

    def value(self) -> Any:
        """What the worker answered.

        Raises:
            RequestError: The command was refused.
            JobError: The world raised something else.
        """
        assert self.answer is not None
        if self.answer.refused is not None:
            raise self.answer.refused
        if self.answer.broke:
            raise JobError(f"The world broke in a worker process: {self.answer.value}")
        return self.answer.value


@dataclass
class Record:
    """What the parent knows of a bundle: enough to bring it back."""

    task_id: str
    num_envs: int | None
    slot: int
    home: WorkerProcess | None = None  # the process that holds it
    start: BundleStart | None = None
    log: list[tuple[int, str, Observation]] = field(default_factory=list)  # environment, action, answer
    ended: set[int] = field(default_factory=set)
    lost: str = ""  # why it cannot be brought back
    deaths: int = 0  # workers that died while bringing it back

    @property
    def opened(self) -> BundleStart:
        """The start of a bundle whose opening was answered."""
        assert self.start is not None
        return self.start

    def is_in(self, worker: WorkerProcess | None) -> bool:
        """Whether this worker holds the bundle."""
        return worker is not None and self.home is worker

    def note(self, env_id: int, action: str, observation: Observation) -> None:
        """Remember an action that was done."""
        self.log.append((env_id, action, observation))
        if observation.ended:
            self.ended.add(env_id)

    def restoration(self, handle: int) -> RestoreBundle:
        """The command that brings the bundle back: only what environments still in play have done."""
        log = tuple(entry for entry in self.log if entry[0] not in self.ended)
        return RestoreBundle(handle, self.task_id, self.num_envs, self.opened, log, frozenset(self.ended))


@dataclass
class Slot:
    """A place for a worker, and the tickets its present worker is to answer, in order."""

    worker: WorkerProcess | None = None
    tickets: deque[Ticket] = field(default_factory=deque)
    started: float = 0.0  # when the worker was started, monotonic seconds
    last_sign: float = 0.0  # when it was last heard of
    deaths: int = 0  # workers in a row that died before they had loaded the world

    def discard(self) -> None:
        """Kill the worker, if there is one; its tickets stay."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None


class Crew:
    """Workers in their slots, and the records of the bundles they hold."""

    def __init__(
        self, load: LoadWorld, guide: WorldGuide, *, workers: int, step_timeout_s: float, start_timeout_s: float
    ) -> None:
        """See `dpepo.envs.worker_pool.WorkerPool`; no process is started yet."""
        self.slots = [Slot() for _ in range(workers)]
        self.records: dict[int, Record] = {}
        self.clock = EnvClock()
        self._load = load
        self._guide = guide
        self._step_timeout_s = step_timeout_s
        self._start_timeout_s = start_timeout_s

    def drive(self, work: Iterable[tuple[int, Ticket]]) -> None:
        """Have all tickets answered, each by the worker in its slot."""
        try:
            for number, ticket in work:
                self.slots[number].tickets.append(ticket)
            for slot in self.slots:
                self._dispatch(slot)
            while busy := [slot for slot in self.slots if slot.tickets]:
                self._listen(busy)
        except BaseException:  # Ctrl-C among them: late answers of a busy worker must not meet the next question
            for slot in self.slots:
                if slot.tickets:
                    slot.discard()
                    slot.tickets.clear()
            raise

    def _dispatch(self, slot: Slot) -> None:
        """Send a slot's tickets, after what its worker needs first: to be started, to hold the episodes."""
        if slot.worker is not None and slot.tickets and not slot.worker.alive():
            self._bury(slot, "the worker process ended while idle")
        while slot.tickets:
            slot.tickets = deque(self._prepared(slot))
            if not slot.tickets:
                return
            if slot.worker is None:
                slot.started = time.monotonic()
                slot.worker = WorkerProcess(transfer_timeout_s=self._start_timeout_s)
                slot.tickets.appendleft(Ticket(self._load))
            slot.last_sign = time.monotonic()
            try:
                slot.worker.send([ticket.command for ticket in slot.tickets])
                return
            except WorkerGone as gone:
                self._bury(slot, str(gone), suspect=slot.tickets[0])

    def _prepared(self, slot: Slot) -> Iterator[Ticket]:
        """The slot's tickets that a worker has to answer, and the restoring of episodes before the first that needs each."""
        coming: set[int] = set()
        for ticket in slot.tickets:
            match ticket.command:
                case StepEnv(handle):
                    record = self.records[handle]
                    if record.lost:
                        self._settle(slot, ticket, Answer(failed(record.lost)))
                        continue
                    if not record.is_in(slot.worker) and handle not in coming:
                        coming.add(handle)
                        yield Ticket(record.restoration(handle))
                case CloseBundle(handle):
                    if not self.records[handle].is_in(slot.worker):
                        ticket.answer = Answer()
                        continue
            yield ticket

    def _listen(self, busy: Sequence[Slot]) -> None:
        """Take the answers that arrive next, or give a hanging worker up."""
        connections = {slot.worker.connection: slot for slot in busy if slot.worker is not None}
        patience = min(self._deadline(slot) for slot in busy) - time.monotonic()
        ready = wait(list(connections), timeout=max(0.0, patience))
        for connection, slot in connections.items():
            try:
                if connection in ready:
                    self._take(slot)
                elif time.monotonic() > self._deadline(slot):
                    self._bury(slot, self._overdue(slot), suspect=slot.tickets[0], hopeless=True)
                    self._dispatch(slot)
            except WorkerGone as gone:
                self._bury(slot, str(gone), suspect=slot.tickets[0])
                self._dispatch(slot)

    def _take(self, slot: Slot) -> None:
        """Take what a worker has answered so far."""
        worker = slot.worker
        assert worker is not None
        while slot.tickets and worker.connection.poll():
            answer = worker.receive()
            slot.last_sign = time.monotonic()
            if not answer.beat:
                ticket = slot.tickets.popleft()
                self._measure(slot, ticket, answer)
                self._settle(slot, ticket, answer)

    def _measure(self, slot: Slot, ticket: Ticket, answer: Answer) -> None:
        """Add what a worker spent on a command."""
        match ticket.command:
            case LoadWorld():
                self.clock.starts += 1
                self.clock.start_s += slot.last_sign - slot.started
            case OpenBundle():
                self.clock.resets += 1
                self.clock.reset_s += answer.seconds
            case StepEnv():
                self.clock.steps += 1
                self.clock.step_s += answer.seconds
            case RestoreBundle():
                self.clock.restore_s += answer.seconds

    def _settle(self, slot: Slot, ticket: Ticket, answer: Answer) -> None:
        """Write an answer down."""
        ticket.answer = answer
        match ticket.command:
            case LoadWorld():
                ticket.value()  # refused by the worker though not by the parent: nothing can go on
                slot.deaths = 0
            case OpenBundle(handle) if answer.refused is None:
                if answer.broke:
                    ticket.answer = Answer(BundleStart(goal="", guide=self._guide, initial=failed(answer.value)))
                record = self.records[handle]
                record.home, record.start = slot.worker, ticket.value()
            case RestoreBundle(handle):
                record = self.records[handle]
                record.home, record.lost, record.deaths = slot.worker, answer.value, 0
            case StepEnv(handle, env_id, action):
                if answer.broke:
                    ticket.answer = Answer(failed(answer.value))
                self.records[handle].note(env_id, action, ticket.value())

    def _deadline(self, slot: Slot) -> float:
        return slot.last_sign + self._limit(slot)

    def _limit(self, slot: Slot) -> float:
        """Seconds the slot's present command may take."""
        is_short = isinstance(slot.tickets[0].command, (StepEnv, CloseBundle))
        return self._step_timeout_s if is_short else self._start_timeout_s

    def _overdue(self, slot: Slot) -> str:
        setting = "env.step_timeout_s" if self._limit(slot) == self._step_timeout_s else "start_timeout_s"
        return f"no answer within {self._limit(slot):g} s ({setting})"

    def _bury(self, slot: Slot, reason: str, *, suspect: Ticket | None = None, hopeless: bool = False) -> None:
        """Remove a worker. Its unanswered tickets stay, but for one that has now done this too often (or is hopeless)."""
        slot.discard()
        self.clock.restarts += 1
        _log.warning("environments of %s: %s; starting another worker", self._load.world, reason)
        if suspect is not None:
            self._blame(slot, suspect, reason, hopeless=hopeless)
        again = (LoadWorld, RestoreBundle)  # asked anew where the next worker needs them
        slot.tickets = deque(
            ticket for ticket in slot.tickets if ticket.answer is None and not isinstance(ticket.command, again)
        )

    def _blame(self, slot: Slot, suspect: Ticket, reason: str, *, hopeless: bool) -> None:
        """Count a worker's end against the command it was busy with; give that up when there is no use in another try."""
        counter: Slot | Record | Ticket = suspect
        match suspect.command:
            case LoadWorld():
                counter = slot
            case RestoreBundle(handle):
                counter = self.records[handle]
        counter.deaths += 1
        if counter.deaths < MAX_TRIES and not hopeless:
            return
        failure = f"{'Timeout' if hopeless else 'WorkerDied'}: {reason}"
        match suspect.command:
            case LoadWorld() | GetExpert() | GetMetadata():
                raise JobError(f"A worker process for the world {self._load.world!r} does not work: {reason}")
            case RestoreBundle(handle):
                self.records[handle].lost = failure
            case CloseBundle():
                suspect.answer = Answer()
            case _:
                self._settle(slot, suspect, Answer(failure, broke=True))
