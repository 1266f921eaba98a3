"""K copies of one task for one episode, in this process, with the guards every caller needs.

- An environment that ended is never stepped again.
- An environment that breaks becomes an observation with a `failure`; the others go on.
- A copy that no action has reached yet costs nothing: it is made when it is first addressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from dpepo.envs.base import TextEnv, World
from dpepo.errors import RequestError
from dpepo.types import Observation, Record, WorldGuide

BROKEN = "This environment broke down and takes no more actions."


class BundleStart(Record):
    """How an episode begins, for all copies alike."""

    goal: str  # the task in words
    guide: WorldGuide
    initial: Observation  # with a `failure` (and then `ended`) when the task could not be started


def failed(reason: str) -> Observation:
    """An observation of an environment that broke.

    Args:
        reason: What happened, "Type: message"; one line.

    >>> failed("IndexError: list index out of range").ended
    True
    """
    return Observation(text=BROKEN, ended=True, failure=reason)


def describe(error: BaseException) -> str:
    """An exception as "Type: message" on one line of at most 500 characters.

    >>> describe(ValueError("no such room"))
    'ValueError: no such room'
    """
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:500]


def check_env_ids(env_ids: Iterable[int], num_envs: int | None) -> None:
    """Raise ValueError unless all ids are in 1..K (None: no upper limit)."""
    for env_id in env_ids:
        if env_id < 1 or (num_envs is not None and env_id > num_envs):
            raise ValueError(
                f"no environment {env_id}: they are numbered from 1" + ("" if num_envs is None else f" to {num_envs}")
            )


def check_handles(actions: Sequence[tuple[int, Mapping[int, str]]]) -> None:
    """Raise ValueError when a handle is given twice: the order of its actions would be unclear."""
    handles = [handle for handle, _ in actions]
    if len(set(handles)) != len(handles):
        raise ValueError("a handle may appear only once in step_many")


class Bundle:
    """K copies of one task, numbered 1..K, all starting equal."""

    def __init__(self, world: World, task_id: str, num_envs: int | None) -> None:
        """Hold copies of a task; nothing is made before `reset`.

        Args:
            world: Makes the copies; stays open when the bundle closes.
            task_id: The task.
            num_envs: K, at least 1; None: as many as are addressed.
        """
        if num_envs is not None and num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self._world = world
        self._task_id = task_id
        self._num_envs = num_envs
        self._start: BundleStart | None = None
        self._spare: TextEnv | None = None  # a copy in its initial state that no number has claimed yet
        self._envs: dict[int, TextEnv] = {}
        self._ended: set[int] = set()

    def reset(self) -> BundleStart:
        """Begin an episode: nothing of an earlier one remains.

        Returns:
            Goal, guide and initial observation; a world that breaks while starting gives an initial observation with a failure.

        Raises:
            RequestError: The request itself is wrong (unknown task, missing Java): no other copy could do better.
        """
        self.close()
        try:
            self._spare = self._world.make(self._task_id)
            initial = _observation(self._spare.reset())
            goal = self._spare.goal
        except RequestError:
            self._discard_spare()
            raise
        except Exception as error:  # whatever a world raises is a value from here on
            self._discard_spare()
            initial, goal = failed(describe(error)), ""
        self._start = BundleStart(goal=goal, guide=self._world.guide, initial=initial)
        return self._start

    def step(self, actions: Mapping[int, str]) -> dict[int, Observation]:
        """Do at most one action in each addressed environment.

        Args:
            actions: Environment id (1..K) to action.

        Returns:
            What each of them answered, by id in ascending order. Environments that had ended are left out: no action
            reached them.

        Raises:
            ValueError: An id outside 1..K; nothing is done at all.
            RuntimeError: `reset` was never called.
        """
        if self._start is None:
            raise RuntimeError("Bundle.step before Bundle.reset")
        self.check(actions)
        if self._start.initial.ended:
            return {}
        return {env_id: self._step_one(env_id, actions[env_id]) for env_id in sorted(actions) if env_id not in self._ended}

    def check(self, actions: Mapping[int, str]) -> None:
        """Raise ValueError when an id is outside 1..K."""
        check_env_ids(actions, self._num_envs)

    def end(self, env_id: int) -> None:
        """Take an environment out of play, as when it broke elsewhere; it is not stepped again before `reset`."""
        self._ended.add(env_id)
        _close_quietly(self._envs.pop(env_id, None))

    def close(self) -> None:
        """Close all copies; calling it twice does no harm."""
        self._discard_spare()
        for env in self._envs.values():
            _close_quietly(env)
        self._envs = {}
        self._ended = set()
        self._start = None

    def _step_one(self, env_id: int, action: str) -> Observation:
        try:
            observation = _observation(self._claim(env_id).step(action))
        except Exception as error:  # whatever a world raises is a value from here on
            observation = failed(describe(error))
        if observation.ended:
            self.end(env_id)
        return observation

    def _claim(self, env_id: int) -> TextEnv:
        """The copy with this number, made and reset when it is addressed for the first time."""
        if env_id not in self._envs:
            env, self._spare = self._spare, None
            self._envs[env_id] = env or self._another()
        return self._envs[env_id]

    def _another(self) -> TextEnv:
        """One more copy in the initial state; one that starts otherwise would make the prompt a lie, so it counts as broken."""
        env = self._world.make(self._task_id)
        try:
            text = _observation(env.reset()).text
            if self._start is None or text != self._start.initial.text:
                raise RuntimeError(f"copies of {self._task_id} do not start equal: {text[:80]!r}")
        except BaseException:
            _close_quietly(env)
            raise
        return env

    def _discard_spare(self) -> None:
        _close_quietly(self._spare)
        self._spare = None


def _observation(answer: object) -> Observation:
    """Refuse what a careless world may return, so that it breaks here and not three layers up."""
    if not isinstance(answer, Observation):
        raise TypeError(f"the environment returned {type(answer).__name__}, not an Observation")
    if answer.failure and not answer.ended:
        return answer.model_copy(update={"ended": True})
    return answer


def _close_quietly(env: TextEnv | None) -> None:
    """Close a copy; one that broke may well fail at this too, and nothing depends on it any more."""
    if env is None:
        return
    with suppress(Exception):
        env.close()
