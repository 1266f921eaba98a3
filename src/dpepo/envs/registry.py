"""Find worlds and tasks by name. Nothing is imported before it is asked for.

Three ways to name a world: one that ships with dpepo (`WORLDS`), one that an installed package offers under the entry point
group `dpepo.environments`, or an import path such as ``my_module:MyWorld``.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from dpepo.config import TaskSelection
from dpepo.envs.base import TextEnv, World, WorldStatus, refuse_unknown_options
from dpepo.envs.task_lists import excluded_ids, read_task_list
from dpepo.errors import ConfigError, RequestError, TaskError, did_you_mean
from dpepo.types import Observation, Task

WORLDS = {
    "alfworld": "dpepo.envs.alfworld.world:AlfWorld",
    "gymnasium": "dpepo.envs.gymnasium:GymnasiumWorld",
    "scienceworld": "dpepo.envs.scienceworld.world:ScienceWorld",
    "textworld": "dpepo.envs.textworld.world:TextWorld",
    "toy": "dpepo.envs.toy:ToyWorld",
}
ENTRY_POINTS = "dpepo.environments"


def world_names() -> list[str]:
    """Names of all worlds that ship with dpepo or that an installed package offers, sorted."""
    return sorted({*WORLDS, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def load_world(name: str, options: Mapping[str, Any] | None = None) -> World:
    """Make a world; heavy things start later, with its first environment.

    Args:
        name: A name of `world_names`, or an import path ``module:Class``.
        options: Options of that world, see docs/environments.md.

    Returns:
        The world; close it when done.

    Raises:
        TaskError: No such world.
        ConfigError: An option is unknown or has a bad value.
        MissingPackage: The world's package is not installed.
    """
    kind = _world_class(name)
    options = dict(options or {})
    parameters = inspect.signature(kind.__init__).parameters.values()
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        refuse_unknown_options(name, options, known=[parameter.name for parameter in parameters if parameter.name != "self"])
    return kind(**options)


def world_status(name: str) -> WorldStatus:
    """Say whether a world can be used on this machine, without starting it. Never raises for a broken world."""
    try:
        return _world_class(name).check()
    except RequestError as error:
        return WorldStatus(name=name, ready=False, detail=str(error))
    except Exception as error:  # a foreign world may be broken in any way; the listing of the others must not suffer
        return WorldStatus(name=name, ready=False, detail=f"{type(error).__name__}: {error}")


def select_tasks(world: World, selection: TaskSelection, *, seed: int, note: Callable[[str], None] | None = None) -> list[Task]:
    """Choose tasks of a world.

    The draw under ``limit`` orders tasks by a hash of seed and id: it does not depend on the machine, the Python version or the
    order in which a world lists its tasks, and a higher limit keeps the tasks of a lower one.

    Args:
        world: Where the tasks are.
        selection: Names, split, list in a file, explicit ids, tasks left out, limit per task type.
        seed: Root of the draw.
        note: Is told, in a sentence each, of rows of a list that repeat others, and of a split that is not complete here.

    Returns:
        Distinct tasks in the world's order (or that of ``selection.ids`` or the file); at least one.

    Raises:
        TaskError: A name, id or split does not exist (the nearest is named), nothing is left, or the world's options rule
            some of the tasks out.
    """
    if selection.ids:
        tasks = [world.task(task_id) for task_id in dict.fromkeys(selection.ids)]
    else:
        tasks, notes = _listed(world, selection)
        if note is not None:
            for sentence in notes:
                note(sentence)
        if selection.names:
            tasks = _of_names(world, tasks, selection)
    if selection.exclude:
        tasks = _without(tasks, selection.exclude, world=world, note=note)
    if not tasks:
        raise TaskError(f"The split {selection.split!r} of the world {world.name!r} is empty")
    chosen = _draw(tasks, limit=selection.limit, seed=seed) if selection.limit else tasks
    world.check_tasks(chosen)
    return chosen


def _listed(world: World, selection: TaskSelection) -> tuple[list[Task], list[str]]:
    """The tasks of a file or a split, and what is worth saying about them."""
    if selection.file:
        found = read_task_list(selection.file, world)
        sentence = found.note(selection.file)
        return list(found.tasks), [sentence] if sentence else []
    tasks, expected = world.tasks(selection.split), world.expected(selection.split)
    if expected in (None, len(tasks)):
        return tasks, []
    return tasks, [f"The split {selection.split!r} of {world.name} has {expected} tasks; here are {len(tasks)}"]


def _without(tasks: list[Task], source: str, *, world: World, note: Callable[[str], None] | None) -> list[Task]:
    """Tasks that a list does not name."""
    excluded = excluded_ids(source, world)
    left = [task for task in tasks if task.id not in excluded]
    if tasks and not left:
        raise TaskError(f"All {len(tasks)} tasks are left out by {source}. Try: another split, or another list to exclude")
    if note is not None and len(left) < len(tasks):
        note(f"{len(tasks) - len(left)} of {len(tasks)} tasks are left out, by {source}")
    return left


def make(task: str, **options: Any) -> TextEnv:
    """Make one environment of any world.

    Args:
        task: A task id such as "scienceworld/boil/17"; the world is what stands before the first "/". A path to a
            ``game.tw-pddl`` is a game of ALFWorld.
        **options: Options of the world.

    Returns:
        The environment, not yet reset; closing it also closes its world.

    Raises:
        TaskError: No such world or task.
        ConfigError: An unknown option.
    """
    name, slash, rest = ("alfworld", "/", task) if task.endswith("game.tw-pddl") else task.partition("/")
    if not slash:
        raise TaskError(
            f"{task!r} is not a task id; one looks like 'toy/house/3': world, then task. {did_you_mean(name, world_names())}"
        )
    world = load_world(name, options)
    try:
        return _OwningEnv(world, world.make(f"{world.name}/{rest}"))
    except BaseException:
        world.close()
        raise


class _OwningEnv(TextEnv):
    """An environment together with a world made for it alone."""

    def __init__(self, world: World, env: TextEnv) -> None:
        self._world = world
        self._env = env
        self.goal = env.goal

    def reset(self) -> Observation:
        observation = self._env.reset()
        self.goal = self._env.goal
        return observation

    def step(self, action: str) -> Observation:
        return self._env.step(action)

    def close(self) -> None:
        try:
            self._env.close()
        finally:
            self._world.close()


def _world_class(name: str) -> type[World]:
    path = WORLDS.get(name) or (name if ":" in name else None)
    if path is None:
        for point in entry_points(group=ENTRY_POINTS):
            if point.name == name:
                path = point.value
    if path is None:
        raise TaskError(f"Unknown world {name!r}. {did_you_mean(name, world_names())}")
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a foreign module may fail in any way
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise TaskError(f"Cannot import {module_name!r} for the world {name!r}; is its folder on PYTHONPATH?") from error
        raise ConfigError(f"Cannot import {module_name!r} for the world {name!r}: {type(error).__name__}: {error}") from error
    kind = getattr(module, class_name, None)
    if not (isinstance(kind, type) and issubclass(kind, World)):
        raise ConfigError(f"{path!r} is not a subclass of dpepo.envs.World")
    return kind


def _of_names(world: World, tasks: Sequence[Task], selection: TaskSelection) -> list[Task]:
    known = {task.name for task in tasks}
    unknown = [f"{name!r} ({did_you_mean(name, known)})" for name in selection.names if name not in known]
    if unknown:
        where = selection.file or f"The split {selection.split!r} of the world {world.name!r}"
        raise TaskError(f"{where} has no task type {', '.join(unknown)}")
    return [task for task in tasks if task.name in selection.names]


def _draw(tasks: Sequence[Task], *, limit: int, seed: int) -> list[Task]:
    by_name: dict[str, list[Task]] = {}
    for task in tasks:
        by_name.setdefault(task.name, []).append(task)
    drawn: set[str] = set()
    for same in by_name.values():
        same.sort(key=lambda task: hashlib.sha256(f"{seed}/{task.id}".encode()).digest())
        drawn.update(task.id for task in same[:limit])
    return [task for task in tasks if task.id in drawn]
