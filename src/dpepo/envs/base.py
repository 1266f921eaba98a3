"""What a world is: two small classes to write when bringing one's own (see docs/environments.md).

A `TextEnv` is one copy of one task. A `World` makes them and holds whatever they can share (a Java machine, a loaded game).
Both are plain synchronous Python: guarding against faults is `dpepo.envs.bundle`, processes are `dpepo.envs.pool`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

from dpepo.errors import ConfigError, TaskError, did_you_mean
from dpepo.types import Observation, Record, Task, WorldGuide


class WorldStatus(Record):
    """Whether a world can be used on this machine, found out without starting it."""

    name: str
    ready: bool
    detail: str = ""  # what was found, or what is missing and how to get it, in one line


class TextEnv(ABC):
    """One copy of one task. Its answers may depend only on the task and on its own actions since the last `reset`."""

    goal: str = ""  # the task in words; set at the latest by `reset`

    @abstractmethod
    def reset(self) -> Observation:
        """Put the environment back to the initial state of its task.

        Returns:
            The initial observation; the same at every call.
        """

    @abstractmethod
    def step(self, action: str) -> Observation:
        """Do one action.

        Args:
            action: Any non-empty text; one that the world does not understand gives ``valid=False``, not an exception.

        Returns:
            What the environment shows now. After ``ended`` the caller does not step again before `reset`.

        Raises:
            Exception: The environment is broken. Callers turn this into an observation with a `failure`.
        """

    def close(self) -> None:  # noqa: B027 (optional: most environments hold nothing)
        """Release what this copy holds; calling it twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class World(ABC):
    """A family of tasks, and whatever their environments share inside one process.

    Options are the keyword arguments of the subclass's ``__init__``, each with a default; `dpepo.envs.load_world` refuses
    unknown ones by name. Constructing a world is cheap: heavy things start with the first `make`.
    """

    name: ClassVar[str]  # first part of every task id, e.g. "toy" in "toy/house/3"
    splits: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    guide: WorldGuide

    def __init__(self, **options: Any) -> None:
        refuse_unknown_options(self.name, options, known=())

    @abstractmethod
    def make(self, task_id: str) -> TextEnv:
        """Make one environment, not yet reset.

        Args:
            task_id: A task of this world, e.g. "toy/house/3".

        Returns:
            An environment that shares no visible state with any other.

        Raises:
            TaskError: The task does not exist; the nearest name is in the message.
        """

    @abstractmethod
    def tasks(self, split: str) -> list[Task]:
        """List the tasks of a split: the same list on every machine, without starting anything heavy.

        Args:
            split: One of `splits`.

        Returns:
            Tasks in a fixed order (never that of a folder listing).

        Raises:
            TaskError: The split does not exist; use `check_split`.
        """

    def task(self, task_id: str) -> Task:
        """Look a task up by its id.

        Returns:
            The task with its name and split.

        Raises:
            TaskError: It does not exist.
        """
        known = {task.id: task for split in self.splits for task in self.tasks(split)}
        if task_id not in known:
            raise TaskError(f"The world {self.name!r} has no task {task_id!r}. {did_you_mean(task_id, known)}")
        return known[task_id]

    def check_tasks(self, tasks: Sequence[Task]) -> None:  # noqa: B027 (optional: most options suit all tasks)
        """Raise `TaskError` when some of these tasks cannot be played under this world's options. Starts nothing."""

    def resolve(self, entry: object) -> str:
        """The task id that an entry of a task list means (`dpepo.envs.task_lists`).

        Args:
            entry: A task id. Worlds may understand more: the forms that published lists of theirs have.

        Returns:
            A task id, which may not exist.

        Raises:
            TaskError: The entry cannot mean a task of this world.
        """
        if not isinstance(entry, str):
            raise TaskError(f"the world {self.name!r} has task ids such as '{self.name}/...', got {entry!r:.80}")
        return entry

    def expected(self, split: str) -> int | None:
        """How many tasks a split has in full, where that is known and files may be missing; None otherwise."""
        return None

    def check_split(self, split: str) -> None:
        """Raise `TaskError` unless this world has the split."""
        if split not in self.splits:
            raise TaskError(f"The world {self.name!r} has no split {split!r}. {did_you_mean(split, self.splits)}")

    def metadata(self) -> dict[str, str]:
        """What a run should remember about this world: versions of packages and data, rules of hashing."""
        return {}

    def foreign_actions(self, actions: Iterable[str], *, splits: Iterable[str]) -> str:
        """A sentence about recorded actions in words that the tasks of some splits do not understand; "" without any."""
        return ""

    @classmethod
    def check(cls) -> WorldStatus:
        """Say whether the world can be used here, without starting it."""
        return WorldStatus(name=cls.name, ready=True)

    def expert(self, task_id: str) -> list[str] | None:
        """Gold actions that solve the task from its initial state; None where the world has none."""
        return None

    def close(self) -> None:  # noqa: B027 (optional)
        """Release everything the world holds, its environments included; calling it twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def refuse_unknown_options(world: str, options: Mapping[str, Any], *, known: Iterable[str]) -> None:
    """Raise `ConfigError` for the options that a world does not have.

    Args:
        world: Name of the world, for the message.
        options: What was asked for.
        known: Names of the options that exist.

    Raises:
        ConfigError: At least one option is unknown; all of them are named, each with the nearest right one.
    """
    names = sorted(known)
    unknown = [f"{option!r} ({did_you_mean(option, names)})" for option in options if option not in names]
    if unknown:
        raise ConfigError(f"The world {world!r} has no option {', '.join(unknown)} (env.options)")
