"""Results of ScienceWorld actions, remembered as a tree, with as few live simulators behind it as it takes.

What an action does is a function of (task, simplifications, actions so far), see `simulators`. So the copies of a task, the
siblings of a group and later episodes share one tree per task: a known action is a dictionary look-up, an unknown one needs a
simulator that stands at that point. One that stands there or earlier on the path goes on from there; otherwise one is loaded
and replays the path, and every replayed answer must equal the remembered one. An input that the simulator does not understand
leaves it exactly as it was (proven in the tests), so that what follows such an input is shared with what follows without it.
"""

from __future__ import annotations

import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar

from dpepo.envs.scienceworld.gateway import JavaDied
from dpepo.envs.scienceworld.simulators import AMBIGUOUS, NOT_UNDERSTOOD, Machine, Simulator, SimulatorError, StepResult
from dpepo.errors import JobError
from dpepo.types import Observation

T = TypeVar("T")
Observe = Callable[[Machine, Simulator, StepResult, str], Observation]


class ReplayMismatch(JobError):
    """A replayed action answered differently than before: the simulator is not deterministic here."""


@dataclass(frozen=True)
class TaskKey:
    """What decides about an initial state, the simplifications of the world aside."""

    name: str
    variation: int


class Node:
    """A point in an episode: the state after the actions on the path from the root."""

    __slots__ = ("__weakref__", "action", "checksum", "children", "observation", "origin", "parent", "simulator", "tree")

    def __init__(
        self,
        tree: Tree,
        *,
        parent: Node | None,
        action: str,
        observation: Observation,
        checksum: int,
        unchanged: bool = False,
    ) -> None:
        self.tree = tree
        self.origin: Node = parent.origin if unchanged and parent is not None else self  # the point that the world is at
        self.parent = parent
        self.action = action
        self.observation = observation
        self.checksum = checksum  # of the simulator's own words, to verify replays
        self.children: dict[str, Node] = {}
        self.simulator: Simulator | None = None  # one that stands exactly here


class Tree:
    """All that is known about one task."""

    __slots__ = ("__weakref__", "goal", "key", "num_nodes", "root")

    def __init__(self, key: TaskKey) -> None:
        self.key = key
        self.goal = ""
        self.root: Node | None = None
        self.num_nodes = 1


@dataclass
class MemoCounts:
    """How often what was needed; for benchmarks and tests."""

    hits: int = 0
    misses: int = 0
    loads: int = 0  # simulators put at the start of a task
    replayed: int = 0  # actions done again to get a simulator to where it was needed
    restarts: int = 0  # Java machines started after the first


class Memo:
    """The trees of all tasks, the Java machine and its simulators. One lock; the Java machine starts at the first miss."""

    def __init__(
        self,
        *,
        observe: Observe,
        simplifications: str,
        start: Callable[[], Machine],
        max_simulators: int,
        max_nodes: int,
    ) -> None:
        """Remember nothing yet.

        Args:
            observe: makes the observation that is kept for an answer of a simulator.
            simplifications: in force for every task.
            start: starts a Java machine; called at the first miss, and again when one died.
            max_simulators: live simulators at most; the one unused for longest makes room.
            max_nodes: remembered results at most, over all tasks; the tasks unused for longest are forgotten.
        """
        self._observe = observe
        self._simplifications = simplifications
        self._start = start
        self._max_simulators = max_simulators
        self._max_nodes = max_nodes
        self._lock = RLock()
        self._machine: Machine | None = None
        self._trees: OrderedDict[TaskKey, Tree] = OrderedDict()
        # Least recently used first. Weak, for a simulator must not keep a forgotten tree in memory.
        self._standing: OrderedDict[Simulator, weakref.ref[Node]] = OrderedDict()
        self._free: list[Simulator] = []
        self._num_simulators = 0
        self._num_nodes = 0
        self.counts = MemoCounts()

    def root(self, key: TaskKey) -> Node:
        """The initial state of a task.

        Raises:
            SimulatorError, JavaDied: the task cannot be loaded.
        """
        with self._lock:
            tree = self._trees.get(key)
            if tree is None or tree.root is None:
                tree = self._with_restart(lambda: self._plant(key))
                self._trees[key] = tree
                self._count_node()
            else:
                self._trees.move_to_end(key)
            assert tree.root is not None
            return tree.root

    def step(self, node: Node, action: str) -> Node:
        """Where an action leads.

        Raises:
            SimulatorError: the simulator failed on this action.
            JavaDied: the Java machine died, and died again after a restart.
        """
        node = node.origin
        known = node.children.get(action)
        if known is not None:
            self.counts.hits += 1
            return known
        with self._lock:
            if action in node.children:  # another thread was faster
                return node.children[action]
            self.counts.misses += 1
            child = self._with_restart(lambda: self._extend(node, action))
            node.children[action] = child
            if self._trees.get(node.tree.key) is node.tree:  # not forgotten meanwhile
                node.tree.num_nodes += 1
                self._count_node()
            return child

    def gold_actions(self, key: TaskKey) -> list[str]:
        """The package's own solution of a task."""
        with self._lock:
            return self._with_restart(lambda: self._gold_actions(key))

    def java_version(self) -> str:
        """Version of the running Java machine; empty before it starts."""
        return self._machine.gateway.java_version if self._machine is not None else ""

    @property
    def java_pid(self) -> int | None:
        """Process id of the Java machine, None before it starts."""
        return self._machine.gateway.pid if self._machine is not None else None

    def close(self) -> None:
        """End the Java machine; what is remembered stays usable."""
        with self._lock:
            self._drop_machine()

    def _with_restart(self, work: Callable[[], T]) -> T:
        """Run something that needs the Java machine; if that dies, once more on a new one, by replay."""
        try:
            return work()
        except JavaDied:
            self._drop_machine()
            self.counts.restarts += 1
            try:
                return work()
            except JavaDied:
                self._drop_machine()
                raise

    def _running(self) -> Machine:
        if self._machine is None:
            self._machine = self._start()
        return self._machine

    def _drop_machine(self) -> None:
        for place in self._standing.values():
            _vacate(place)
        self._standing.clear()
        self._free.clear()
        self._num_simulators = 0
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _plant(self, key: TaskKey) -> Tree:
        machine, simulator = self._running(), self._take_simulator()
        result = self._load(simulator, key)
        tree = Tree(key)
        tree.goal = machine.goal(simulator)
        observation = self._observe(machine, simulator, result, key.name)
        tree.root = Node(tree, parent=None, action="", observation=observation, checksum=_checksum(result))
        self._park(simulator, tree.root)
        return tree

    def _extend(self, node: Node, action: str) -> Node:
        machine = self._running()
        simulator = self._bring_to(node)
        try:
            result = machine.step(simulator, action)
            observation = self._observe(machine, simulator, result, node.tree.key.name)
        except SimulatorError:
            self._free.append(simulator)  # its state is unknown; loading puts everything right
            raise
        unchanged = result.text == NOT_UNDERSTOOD and not node.observation.text.startswith(AMBIGUOUS)
        child = Node(
            node.tree,
            parent=node,
            action=action,
            observation=observation,
            checksum=_checksum(result),
            unchanged=unchanged,
        )
        if observation.ended:
            self._free.append(simulator)
        else:
            self._park(simulator, child.origin)
        return child

    def _bring_to(self, node: Node) -> Simulator:
        """A simulator that stands at a node, taken out of the standing ones."""
        path: list[Node] = []
        here: Node | None = node
        while here is not None and here.simulator is None:
            path.append(here)
            here = here.parent
        if here is not None and here.simulator is not None:
            simulator = here.simulator
            here.simulator = None
            del self._standing[simulator]
        else:
            simulator = self._take_simulator()
            self._verify(self._load(simulator, node.tree.key), path.pop(), simulator)
        for passed in reversed(path):
            self.counts.replayed += 1
            self._verify(self._running().step(simulator, passed.action), passed, simulator)
        return simulator

    def _verify(self, result: StepResult, node: Node, simulator: Simulator) -> None:
        if _checksum(result) != node.checksum:
            self._free.append(simulator)
            raise ReplayMismatch(
                f"ScienceWorld answered {node.action or 'the start'!r} of {node.tree.key.name} {node.tree.key.variation} "
                "differently than before; please report this with the versions of Java and scienceworld"
            )

    def _load(self, simulator: Simulator, key: TaskKey) -> StepResult:
        self.counts.loads += 1
        try:
            return self._running().load(simulator, key.name, key.variation, self._simplifications)
        except SimulatorError:
            self._free.append(simulator)
            raise

    def _gold_actions(self, key: TaskKey) -> list[str]:
        simulator = self._take_simulator()
        self._free.append(simulator)  # it stands nowhere afterwards
        return self._running().gold_actions(simulator, key.name, key.variation, self._simplifications)

    def _take_simulator(self) -> Simulator:
        if self._free:
            return self._free.pop()
        if self._num_simulators < self._max_simulators:
            simulator = self._running().open()
            self._num_simulators += 1
            return simulator
        simulator, place = self._standing.popitem(last=False)
        _vacate(place)
        return simulator

    def _park(self, simulator: Simulator, node: Node) -> None:
        node.simulator = simulator
        self._standing[simulator] = weakref.ref(node)

    def _count_node(self) -> None:
        """Keep what is remembered within bounds; environments inside a forgotten tree go on with their own part of it."""
        self._num_nodes += 1
        while self._num_nodes > self._max_nodes and self._trees:
            _, forgotten = self._trees.popitem(last=False)
            self._num_nodes -= forgotten.num_nodes


def _vacate(place: weakref.ref[Node]) -> None:
    """Note at a node, if it still exists, that its simulator has gone."""
    node = place()
    if node is not None:
        node.simulator = None


def _checksum(result: StepResult) -> int:
    return zlib.crc32(f"{result.score} {result.completed} {result.text}".encode(errors="surrogatepass"))
