"""What runs inside a worker process: a world, its bundles, and a loop that answers commands one by one.

Started by `dpepo.envs.worker_pool` over a socket pair. A worker never outlives its parent: the loop ends when the socket
breaks, and a thread watches for the parent's death while an environment is busy or hangs. It never imports torch.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from dpepo import errors
from dpepo.envs.base import World
from dpepo.envs.bundle import Bundle, BundleStart, describe, failed
from dpepo.envs.registry import load_world
from dpepo.errors import RequestError
from dpepo.types import Observation

GRACE_S = 2.0  # between the parent's death and the end by force, for a world that closes cleanly


class LoadWorld(NamedTuple):
    """Make the world; answered by None."""

    world: str
    options: Mapping[str, Any]


class OpenBundle(NamedTuple):
    """Start an episode; answered by its `BundleStart`."""

    handle: int
    task_id: str
    num_envs: int | None


class RestoreBundle(NamedTuple):
    """Bring an episode back that another worker lost; answered by "" or by the reason why it cannot be."""

    handle: int
    task_id: str
    num_envs: int | None
    start: BundleStart  # as it was; the new one must be equal
    log: tuple[tuple[int, str, Observation], ...]  # environment, action, recorded answer
    ended: frozenset[int]  # environments not to be stepped again


class StepEnv(NamedTuple):
    """Do one action; answered by the `Observation`."""

    handle: int
    env_id: int
    action: str


class CloseBundle(NamedTuple):
    """End an episode; answered by None."""

    handle: int


class GetExpert(NamedTuple):
    """Answered by gold actions or None."""

    task_id: str


class GetMetadata(NamedTuple):
    """Answered by the world's metadata."""


Command = LoadWorld | OpenBundle | RestoreBundle | StepEnv | CloseBundle | GetExpert | GetMetadata


class Answer(NamedTuple):
    """One per command, in order; beats come between when a command takes many steps."""

    value: Any = None
    refused: RequestError | None = None  # the request was wrong
    broke: bool = False  # the command raised something else; `value` is the description
    beat: bool = False  # no answer yet, but a sign of life
    seconds: float = 0.0  # that the command took


class _Host:
    """Answers commands, one at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._world: World | None = None
        self._bundles: dict[int, Bundle] = {}
        self.finished = False  # the parent closed its end and the world is closed
        self._lost: dict[int, str] = {}  # handles that could not be restored, and why

    def serve(self) -> None:
        """Work until the parent closes its end."""
        try:
            while True:
                commands: Iterable[Command] = self._connection.recv()
                for command in commands:
                    self._connection.send(self._answer(command))
        except (EOFError, OSError):  # the parent is gone or has no more work: both are the normal end
            pass
        finally:
            for bundle in self._bundles.values():
                bundle.close()
            if self._world is not None:
                self._world.close()
        self.finished = True

    def _answer(self, command: Command) -> Answer:
        began = time.perf_counter()
        try:
            answer = Answer(self._do(command))
        except RequestError as error:
            known = type(error).__module__ == errors.__name__  # a class of the world's own need not exist over there
            answer = Answer(refused=error if known else RequestError(str(error)))
        except Exception as error:
            answer = Answer(describe(error), broke=True)
        return answer._replace(seconds=time.perf_counter() - began)

    def _do(self, command: Command) -> Any:
        match command:
            case LoadWorld(name, options):
                self._world = load_world(name, options)
                return None
            case OpenBundle(handle, task_id, num_envs):
                bundle = Bundle(self._loaded(), task_id, num_envs)
                start = bundle.reset()
                self._bundles[handle] = bundle
                return start
            case RestoreBundle():
                return self._restore(command)
            case StepEnv(handle, env_id, action):
                if handle in self._lost:
                    return failed(self._lost[handle])
                return self._bundles[handle].step({env_id: action})[env_id]
            case CloseBundle(handle):
                self._lost.pop(handle, None)
                if handle in self._bundles:
                    self._bundles.pop(handle).close()
                return None
            case GetExpert(task_id):
                return self._loaded().expert(task_id)
            case GetMetadata():
                return self._loaded().metadata()

    def _loaded(self) -> World:
        if self._world is None:
            raise RuntimeError("no world is loaded")
        return self._world

    def _restore(self, command: RestoreBundle) -> str:
        reason = self._replay(command)
        if reason:
            self._lost[command.handle] = reason
        return reason

    def _replay(self, command: RestoreBundle) -> str:
        """Do the recorded actions again; the reason when an answer is not the recorded one."""
        bundle = self._bundles[command.handle] = Bundle(self._loaded(), command.task_id, command.num_envs)
        if bundle.reset() != command.start:
            return f"ReplayDiffers: {command.task_id} started differently when its episode was restored"
        for env_id in command.ended:
            bundle.end(env_id)
        for env_id, action, recorded in command.log:
            if env_id in command.ended:
                continue
            if bundle.step({env_id: action}).get(env_id) != recorded:
                return f"ReplayDiffers: environment {env_id} of {command.task_id} answered {action[:80]!r} differently"
            self._connection.send(Answer(beat=True))
        return ""


def main(descriptor: int, parent: int) -> None:
    """Run a worker.

    Args:
        descriptor: File descriptor of the socket to the parent.
        parent: Process id of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    faulthandler.enable()  # a crash in C code leaves a trace in the parent's report
    host = _Host(Connection(descriptor))
    atexit.register(_tidy, host)  # the first to be registered is the last to run
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    host.serve()


def _follow(parent: int) -> None:
    """End this process and all that it started soon after the parent has died, whatever the main thread is doing."""
    while os.getppid() == parent:
        time.sleep(0.5)
    time.sleep(GRACE_S)
    _end_group()
    os._exit(1)


def _tidy(host: _Host) -> None:
    """Leave nothing behind after a normal end; after any other the exit code matters, and the parent does the tidying."""
    if host.finished:
        _end_group()


def _end_group() -> None:
    """Kill what the world started and did not end, this process included."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
