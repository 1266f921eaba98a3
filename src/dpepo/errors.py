"""What can go wrong by request or by surroundings, as exceptions that say what, where and what to do.

    DpepoError
    ├── RequestError        the request was wrong: exit code 2
    │   ├── ConfigError         a setting is unknown, of the wrong type, or cannot be combined
    │   ├── TaskError           an unknown world, task or split
    │   ├── MissingPackage      an optional dependency is not installed
    │   ├── MissingJava         ScienceWorld needs a Java runtime and none was found
    │   └── RunFolderError      a run folder cannot be written, or holds something else
    └── JobError            the job itself failed: exit code 1

A bad reply and a broken environment are not here: they are values, see `dpepo.types`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import partial


class DpepoError(Exception):
    """Base of all errors raised on purpose; its text is meant to be shown to a person as it is."""


class RequestError(DpepoError):
    """The request was wrong; nothing has been started."""


class ConfigError(RequestError):
    """A setting is unknown, has the wrong type, or cannot be combined with another."""


class TaskError(RequestError):
    """A world, task or split does not exist."""


class MissingPackage(RequestError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed. Try: pip install 'dpepo[{extra}]'"
        )
        self.package, self.extra, self.needed_for = package, extra, needed_for

    def __reduce__(self) -> tuple[Callable[[str], MissingPackage], tuple[str]]:
        """Pickle by what the error was made from: an exception's default, its text, is not that."""
        return partial(MissingPackage, extra=self.extra, needed_for=self.needed_for), (self.package,)


class MissingJava(RequestError):
    """ScienceWorld needs a Java runtime and none was found."""


class RunFolderError(RequestError):
    """A run folder cannot be written, or already holds something else."""


class JobError(DpepoError):
    """A job started and could not finish."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence naming the closest known name, or listing a few of them.

    >>> did_you_mean("scienceword", ["alfworld", "scienceworld"])
    "Did you mean 'scienceworld'?"
    """
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    shown = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    return f"Known: {shown}." if choices else "None is known."
