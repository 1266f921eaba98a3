"""From exceptions to one sentence and an exit code: 0 done, 1 the job failed, 2 the request was wrong, 130 interrupted."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from dpepo.errors import DpepoError, RequestError

DONE, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


@contextmanager
def guarded(*, debug: bool) -> Iterator[None]:
    """Turn whatever goes wrong inside into a sentence on standard error and the right exit code.

    Args:
        debug: Let the exception through instead, so that Python prints its traceback.
    """
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        _leave("Interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) has left. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except Exception as error:
        if debug:
            raise
        if isinstance(error, RequestError):
            _leave(str(error), WRONG_REQUEST)
        _leave(describe(error), FAILED)


def describe(error: Exception) -> str:
    """What a failure says to a person: as it is when raised on purpose, with its type and a way to see more otherwise."""
    if isinstance(error, DpepoError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"The system refused: {error.strerror}{where}."
    text = (str(error).strip().splitlines() or [""])[0]
    return f"Unexpected {type(error).__name__}: {text} (add --debug to see where; a fault of dpepo, please report it)"


def write_traceback(error: BaseException, path: Path) -> None:
    """Keep the whole traceback of an unexpected failure in a file, since the screen shows one sentence."""
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="replace")


@contextmanager
def terminate_like_interrupt() -> Iterator[None]:
    """Treat a polite kill (SIGTERM) like Ctrl-C while a job runs, so that workers are closed and the folder stays resumable."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: signals are somebody else's business
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(text: str, code: int) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(code) from None
