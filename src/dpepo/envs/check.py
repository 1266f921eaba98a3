"""Does a world keep its promises? A kit for authors of worlds: run it in your tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from dpepo.envs.base import TextEnv, World
from dpepo.envs.bundle import describe
from dpepo.envs.check_process import fill_template
from dpepo.errors import TaskError
from dpepo.types import Observation, Task, WorldGuide

NONSENSE = "xyzzy the frobnicator"  # no world understands it


def check_world(world: World, task_ids: Sequence[str], *, steps: int = 20, seed: int = 0) -> list[str]:
    """Play tasks of a world at random and compare what copies of it answer.

    Checked are: the guide; task ids and splits, and that unknown ones are refused; types of answers; that `reset` leads back
    to the start, after an end as well, and to the same answers from there on; that copies fed the same actions answer the
    same, also while another copy does something else and after it is closed; that nonsense is answered and not raised; that
    offered actions are understood; that expert actions succeed. What needs a world's name is in `dpepo.envs.check_process`.

    Args:
        world: The world; stays open.
        task_ids: Tasks to play; a few are enough.
        steps: Actions per task.
        seed: Of the random actions.

    Returns:
        One sentence per broken promise; empty when all are kept.
    """
    problems = _check_names(world)
    for task_id in task_ids:
        try:
            problems += _TaskCheck(world, task_id, random.Random(f"{seed}/{task_id}")).run(steps)
        except Exception as error:  # the kit reports; it does not fall over the faults it looks for
            problems.append(f"{task_id}: raised {describe(error)}")
    return problems


def _check_names(world: World) -> list[str]:
    problems = []
    if not isinstance(getattr(world, "guide", None), WorldGuide):
        problems.append("guide: a WorldGuide is missing")
    for split in world.splits:
        try:
            tasks = world.tasks(split)
        except TaskError:  # its files are not on this machine
            continue
        if tasks != world.tasks(split):
            problems.append(f"tasks({split!r}): the order differs from call to call")
        ids = [task.id for task in tasks]
        if len(set(ids)) != len(ids):
            problems.append(f"tasks({split!r}): a task is listed twice")
        problems += [p for task in tasks[:1] + tasks[-1:] for p in _check_task(world, task, split)]
    unknown = f"{world.name}/no such task"
    for what, ask, name in (
        ("tasks", world.tasks, "no such split"),
        ("task", world.task, unknown),
        ("make", world.make, unknown),
    ):
        if not _refused(ask, name):
            problems.append(f"{what}({name!r}) is not refused with a TaskError")
    return problems


def _refused(ask: Callable[[str], object], name: str) -> bool:
    """Whether an unknown name is refused in the way that a job can tell to a person."""
    try:
        ask(name)
    except TaskError:
        return True
    except Exception:
        return False
    return False


def _check_task(world: World, task: Task, split: str) -> list[str]:
    problems = []
    if not task.id.startswith(f"{world.name}/") or task.world != world.name:
        problems.append(f"{task.id}: id and world do not name {world.name!r}")
    if task.split != split:
        problems.append(f"{task.id}: says split {task.split!r} but is listed in {split!r}")
    if world.task(task.id).model_copy(update={"split": split}) != task:  # a task may be in several lists
        problems.append(f"{task.id}: task() gives something else than tasks()")
    return problems


class _TaskCheck:
    """Two copies of one task that do the same, and a third that does not."""

    def __init__(self, world: World, task_id: str, rng: random.Random) -> None:
        self._world = world
        self._task_id = task_id
        self._rng = rng
        self._problems: list[str] = []

    def run(self, steps: int) -> list[str]:
        """Play, and return what was wrong."""
        with self._world.make(self._task_id) as first, self._world.make(self._task_id) as second:
            start = self._reset(first)
            if self._reset(second) != start:
                self._say("copies do not start equal")
            if not first.goal or first.goal != second.goal:
                self._say("goal is empty or differs between copies")
            log = self._walk(first, start, steps)
            self._follow(second, log)
            self._check_resets(first, start)
            self._repeat(first, log)
        self._check_expert()
        return self._problems

    def _say(self, problem: str) -> None:
        self._problems.append(f"{self._task_id}: {problem}")

    def _reset(self, env: TextEnv) -> Observation:
        return self._checked(env.reset(), "reset()")

    def _checked(self, answer: object, where: str) -> Observation:
        if not isinstance(answer, Observation):
            raise TypeError(f"{where} returned {type(answer).__name__}, not an Observation")
        if not answer.text.strip():
            self._say(f"{where} shows no text")
        if answer.failure:
            self._say(f"{where} calls itself broken: {answer.failure}")
        if not math.isfinite(answer.score):
            self._say(f"{where} has the score {answer.score}")
        return answer

    def _walk(self, env: TextEnv, seen: Observation, steps: int) -> list[tuple[str, Observation]]:
        """Random offered actions after one that is nonsense."""
        log: list[tuple[str, Observation]] = []
        action, offered = NONSENSE, False
        for _ in range(steps):
            seen = self._checked(env.step(action), f"step({action!r})")
            log.append((action, seen))
            if offered and not seen.valid:
                self._say(f"offers {action!r} but does not understand it")
            if action == NONSENSE and seen.valid:
                self._say(f"calls the nonsense {NONSENSE!r} valid")
            if seen.ended:
                break
            choices = seen.admissible_actions
            action = fill_template(self._rng.choice(choices), seen, self._rng) if choices else NONSENSE
            offered = bool(choices) and not seen.objects  # a template filled at random need not make sense
        return log

    def _follow(self, env: TextEnv, log: Sequence[tuple[str, Observation]]) -> None:
        """Repeat the walk; in its first half a third copy does something else between the actions, then it is closed."""
        with self._world.make(self._task_id) as other:
            last = self._reset(other)
            for number, (action, recorded) in enumerate(log):
                if env.step(action) != recorded:
                    self._say(f"copies answer {action!r} differently after the same actions, or share state")
                    return
                if number == len(log) // 2:
                    other.close()
                elif number < len(log) // 2 and not last.ended and last.admissible_actions:
                    last = other.step(fill_template(self._rng.choice(last.admissible_actions), last, self._rng))

    def _check_resets(self, env: TextEnv, start: Observation) -> None:
        """Reset after the long walk, and after single actions (a long walk may end where it began)."""
        actions = start.admissible_actions
        for action in ["", *self._rng.sample(actions, min(5, len(actions)))]:
            if action:
                env.step(fill_template(action, start, self._rng))
            if self._reset(env) != start:
                self._say("reset does not lead back to the initial state")
                return

    def _repeat(self, env: TextEnv, log: Sequence[tuple[str, Observation]]) -> None:
        """The walk once more in the same copy, just reset: what a start does not show may have stayed as it was."""
        for action, recorded in log:
            if env.step(action) != recorded:
                self._say(f"after a reset, {action!r} is answered differently than after the reset before")
                return

    def _check_expert(self) -> None:
        actions = self._world.expert(self._task_id)
        if actions is None:
            return
        with self._world.make(self._task_id) as env:
            start = last = env.reset()
            for action in actions:
                if last.ended:
                    break
                last = env.step(action)
            if not last.success:
                self._say("the expert's actions do not succeed")
            if env.reset() != start:
                self._say("reset after the expert's actions does not lead back to the initial state")
