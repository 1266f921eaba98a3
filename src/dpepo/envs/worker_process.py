"""One worker process as its parent sees it: start, talk, and make sure that it is gone.

A fresh interpreter (never a fork, and not `multiprocessing`, which would import the caller's main script and with it torch),
in a process group of its own: Ctrl-C does not reach it, and it can be killed together with what it started, such as Java.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from dpepo.envs.worker_main import Answer, Command

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from dpepo.envs.worker_main import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)


class WorkerGone(Exception):
    """The worker ended, or no longer reads and writes. Its text says what is known."""


class WorkerProcess:
    """A running worker."""

    def __init__(self, *, transfer_timeout_s: float) -> None:
        """Start a worker.

        Args:
            transfer_timeout_s: Seconds after which a half-sent or half-received message counts as a dead worker.
        """
        ours, theirs = socket.socketpair()
        limit = struct.pack("ll", int(transfer_timeout_s), int(transfer_timeout_s % 1 * 1e6))
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, limit)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _BOOT,
                json.dumps([str(folder) for folder in sys.path]),
                str(theirs.fileno()),
                str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a chatty world must not write into what a job prints
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
        theirs.close()
        self._owner = os.getpid()
        self.connection = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """Process id; that of the process group as well."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether an idle worker is still there: it never writes, so anything to read is the end of the stream."""
        return not self.connection.closed and not self.connection.poll()

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands to an idle worker.

        Raises:
            WorkerGone: It does not read them.
        """
        try:
            self.connection.send(commands)
        except OSError as error:
            raise WorkerGone(self._obituary()) from error

    def receive(self) -> Answer:
        """The next answer, which must be there or on its way.

        Raises:
            WorkerGone: It ended, or stopped in the middle of a message.
        """
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerGone(self._obituary()) from error
        assert isinstance(answer, Answer)
        return answer

    def let_go(self) -> None:
        """Tell the worker to end by itself; `kill` makes sure of it."""
        self.connection.close()

    def kill(self, *, patience_s: float = 0.0) -> None:
        """End the worker and everything that it started; harmless when it is gone.

        Args:
            patience_s: Seconds to let it end by itself first.
        """
        if os.getpid() != self._owner:
            return  # a forked copy of the parent has no say
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            if patience_s:
                self._process.wait(patience_s)
        if self._errors.closed:
            return
        with suppress(ProcessLookupError):  # the group, for what the worker started may outlive it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def _obituary(self) -> str:
        """How the worker ended, with the last that it wrote to its error stream."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "the worker process stopped answering"
        end = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 400))
        words = " ".join(self._errors.read().decode(errors="replace").split())
        return f"the worker process {end}" + (f" ({words})" if words else "")
