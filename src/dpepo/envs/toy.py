"""A hide-and-seek world in pure Python: small enough to read, real enough to train and test on.

One thing is hidden in one of several closed containers; taking it wins (score 100). Another container holds a trap: taking that
loses (score -100 and the end). Which container is which can only be found out by looking. Tasks are ``toy/<name>/<variation>``;
the variation decides what is where, and nothing else does.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

from dpepo.envs.base import TextEnv, World
from dpepo.errors import ConfigError, TaskError, did_you_mean
from dpepo.types import Observation, Task, WorldGuide

SIZES = {"room": (1, 3), "house": (3, 2), "castle": (5, 3)}  # task name -> (rooms, containers in each)
VARIATIONS = 40  # per task name: 0-19 train, 20-29 dev, 30-39 test
ROOMS = ("hall", "kitchen", "study", "cellar", "attic", "garden", "library")
CONTAINERS = (
    "box",
    "drawer",
    "chest",
    "basket",
    "cabinet",
    "jar",
    "trunk",
    "crate",
    "bag",
    "bin",
    "case",
    "barrel",
    "safe",
    "pot",
    "shelf",
)
TARGETS = ("brass key", "red ball", "silver coin", "paper map", "glass bead", "wooden horse")
TRAPS = ("mouse trap", "wasp nest", "hot coal")


class Layout(NamedTuple):
    """What is where in one task."""

    containers: dict[str, tuple[str, ...]]  # room to its containers; the agent starts in the first room
    contents: dict[str, str]  # container to the thing inside
    target: str
    trap: str


class Faults(NamedTuple):
    """Where a toy environment misbehaves, for tests of what is built on it; counts are of its own actions, 0 is the reset."""

    fail_at: int | None = None  # raises
    hang_at: int | None = None  # sleeps for an hour
    die_at: int | None = None  # kills its process
    action: str = ""  # only when the action is this one; empty: any
    step_s: float = 0.0  # seconds every action takes

    def strike(self, count: int, action: str) -> None:
        """Do the damage that is due at this action."""
        if self.step_s:
            time.sleep(self.step_s)
        if self.action and action != self.action:
            return
        if count == self.fail_at:
            raise IndexError(f"toy fault at action {count}")
        if count == self.hang_at:
            time.sleep(3600)
        if count == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class ToyEnv(TextEnv):
    """One copy of a hide-and-seek task."""

    def __init__(self, layout: Layout, *, compact: bool = False, faults: Faults | None = None) -> None:
        self._layout = layout
        self._compact = compact
        self._faults = faults or Faults()
        self.goal = f"Find the {layout.target} and take it."
        self._begin()

    def _begin(self) -> None:
        self._room = next(iter(self._layout.containers))
        self._opened: list[str] = []
        self._count = 0
        self._score = 0.0
        self._ended = False

    def reset(self) -> Observation:
        """Back to the first room with everything closed."""
        self._begin()
        self._faults.strike(0, "")
        return self._observe(self._look())

    def step(self, action: str) -> Observation:
        """Do ``look``, ``go to ROOM``, ``open CONTAINER`` or ``take THING``; case and white space do not matter."""
        if self._ended:
            raise RuntimeError("this environment has ended; reset it first")
        self._count += 1
        action = " ".join(action.casefold().split())
        self._faults.strike(self._count, action)
        text = self._do(action)
        return self._observe(text or "Nothing happens.", valid=text is not None)

    def _do(self, action: str) -> str | None:
        """Carry an action out; None when it is not possible here."""
        if action not in self._admissible():
            return None
        if action == "look":
            return self._look()
        if action.startswith("go to "):
            self._room = action.removeprefix("go to ")
            return self._look()
        if action.startswith("open "):
            name = action.removeprefix("open ")
            self._opened.append(name)
            thing = self._layout.contents.get(name)
            self._score = max(self._score, 50.0 if thing == self._layout.target else 0.0)
            return f"You open the {name}. " + (f"Inside is a {thing}." if thing else "It is empty.")
        self._ended = True
        won = action == f"take {self._layout.target}"
        self._score = 100.0 if won else -100.0
        return (
            f"You take the {self._layout.target}. Well done!"
            if won
            else f"You take the {self._layout.trap}. Ouch! The search is over."
        )

    def _look(self) -> str:
        containers = ", ".join(f"an open {name}" if name in self._opened else f"a {name}" for name in self._here())
        things = "".join(f" You see a {thing}." for thing in self._visible())
        return f"You are in the {self._room}. There is {containers}.{things}"

    def _here(self) -> tuple[str, ...]:
        return self._layout.containers[self._room]

    def _visible(self) -> list[str]:
        return [self._layout.contents[name] for name in self._here() if name in self._opened and name in self._layout.contents]

    def _admissible(self) -> tuple[str, ...]:
        rooms = [f"go to {room}" for room in self._layout.containers if room != self._room]
        closed = [f"open {name}" for name in self._here() if name not in self._opened]
        return ("look", *rooms, *closed, *(f"take {thing}" for thing in self._visible()))

    def _observe(self, text: str, *, valid: bool = True) -> Observation:
        if self._compact:
            seen = " , ".join([*self._here(), *self._visible()])
            text = f"{'' if valid else 'unknown action | '}at {self._room} : {seen}"
        return Observation(
            text=text,
            admissible_actions=() if self._ended else self._admissible(),
            score=self._score,
            success=self._score == 100.0,
            ended=self._ended,
            valid=valid,
            state=f"{self._room}|{','.join(sorted(self._opened))}|{self._score:g}",
        )


class ToyWorld(World):
    """All hide-and-seek tasks: ``room`` (3 containers), ``house`` (6 in 3 rooms), ``castle`` (15 in 5 rooms)."""

    name: ClassVar[str] = "toy"
    guide = WorldGuide(
        role="You are looking for something hidden. You can walk between rooms, open containers and take what you find.",
        free_actions=("look",),
    )

    def __init__(
        self,
        *,
        observation: Literal["full", "compact"] = "full",
        fail_at: int | None = None,
        hang_at: int | None = None,
        die_at: int | None = None,
        fault_action: str = "",
        step_s: float = 0.0,
    ) -> None:
        """Make the world.

        Args:
            observation: full sentences, or "compact": ``at hall : box , drawer , brass key``.
            fail_at: An environment raises at this count of its own actions; 0 is the reset. For tests, like all that follow.
            hang_at: It sleeps for an hour at this count.
            die_at: It kills its process at this count.
            fault_action: Only when the action is this one.
            step_s: Seconds that every action takes.
        """
        if observation not in ("full", "compact"):
            raise ConfigError(f"env.options observation of the world 'toy' is full or compact, got {observation!r}")
        for option, count in (("fail_at", fail_at), ("hang_at", hang_at), ("die_at", die_at)):
            if count is not None and (type(count) is not int or count < 0):
                raise ConfigError(f"env.options {option} of the world 'toy' is a count of actions, 0 or more, got {count!r}")
        if type(step_s) not in (int, float) or not 0 <= step_s < math.inf:
            raise ConfigError(f"env.options step_s of the world 'toy' is a number of seconds, got {step_s!r}")
        if not isinstance(fault_action, str):
            raise ConfigError(f"env.options fault_action of the world 'toy' is an action, got {fault_action!r}")
        self._compact = observation == "compact"
        self._faults = Faults(fail_at=fail_at, hang_at=hang_at, die_at=die_at, action=fault_action, step_s=step_s)

    def make(self, task_id: str) -> ToyEnv:
        """One copy of a task."""
        task = self.task(task_id)
        return ToyEnv(layout_of(task), compact=self._compact, faults=self._faults)

    def tasks(self, split: str) -> list[Task]:
        """All tasks of a split, by size and variation."""
        self.check_split(split)
        return [_task(name, number) for name in SIZES for number in range(VARIATIONS) if _split(number) == split]

    def task(self, task_id: str) -> Task:
        """Read an id such as "toy/house/3"."""
        match task_id.split("/"):
            case [self.name, name, number] if name in SIZES and number in map(str, range(VARIATIONS)):
                return _task(name, int(number))
            case [self.name, name, _] if name in SIZES:
                raise TaskError(f"No task {task_id!r}: variations of toy/{name} are 0 to {VARIATIONS - 1}")
        raise TaskError(f"No task {task_id!r}. {did_you_mean(task_id, [f'toy/{name}/0' for name in SIZES])}")

    def expert(self, task_id: str) -> list[str]:
        """The shortest way: walk, open, take."""
        layout = layout_of(self.task(task_id))
        container = next(name for name, thing in layout.contents.items() if thing == layout.target)
        room = next(room for room, names in layout.containers.items() if container in names)
        walk = [] if room == next(iter(layout.containers)) else [f"go to {room}"]
        return [*walk, f"open {container}", f"take {layout.target}"]


def layout_of(task: Task) -> Layout:
    """What is where in a task: a function of its id alone, the same in every process and Python version."""
    rng = random.Random(f"layout/{task.id}")  # a str seeds through SHA-512, not through hash()
    num_rooms, per_room = SIZES[task.name]
    rooms = _shuffled(ROOMS, rng)[:num_rooms]
    containers = _shuffled(CONTAINERS, rng)[: num_rooms * per_room]
    target, trap = _shuffled(TARGETS, rng)[0], _shuffled(TRAPS, rng)[0]
    hiding, trapped = _shuffled(containers, rng)[:2]
    return Layout(
        containers={room: tuple(containers[i * per_room : (i + 1) * per_room]) for i, room in enumerate(rooms)},
        contents={hiding: target, trapped: trap},
        target=target,
        trap=trap,
    )


def _shuffled(items: Sequence[str], rng: random.Random) -> list[str]:
    """Shuffle by sorting on ``random()``, whose stream Python promises to keep (that of ``shuffle`` it does not)."""
    keys = {item: rng.random() for item in items}
    return sorted(items, key=keys.__getitem__)


def _split(number: int) -> str:
    return "train" if number < VARIATIONS // 2 else "dev" if number < VARIATIONS * 3 // 4 else "test"


def _task(name: str, number: int) -> Task:
    return Task(id=f"toy/{name}/{number}", world="toy", name=name, split=_split(number))
