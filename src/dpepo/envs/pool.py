"""Many bundles at once, behind one interface, whatever process they live in.

`LocalPool` plays in this process; `dpepo.envs.worker_pool.WorkerPool` in others. A caller cannot tell them apart by results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from dpepo.config import EnvConfig
from dpepo.envs.base import World
from dpepo.envs.bundle import Bundle, BundleStart, check_handles, describe
from dpepo.envs.clock import EnvClock
from dpepo.envs.registry import load_world
from dpepo.envs.worker_pool import START_TIMEOUT_S, WorkerPool
from dpepo.errors import DpepoError, JobError
from dpepo.types import Observation


class EnvPool(Protocol):
    """Opens bundles of K copies and steps many of them together. Not for use by several threads at once."""

    @property
    def clock(self) -> EnvClock:
        """What the environments have taken so far; copy it to compare with later."""
        ...

    def open_many(self, requests: Sequence[tuple[str, int | None]]) -> list[tuple[int, BundleStart]]:
        """Start an episode per request.

        Args:
            requests: Task id and K (None: no limit) of each.

        Returns:
            Per request, in order, a handle and the start; a start that failed has an initial observation with a `failure`.
            Close every handle, failed ones too.

        Raises:
            RequestError: An unknown task, a missing package: nothing stays open.
        """
        ...

    def step_many(self, actions: Sequence[tuple[int, Mapping[int, str]]]) -> list[dict[int, Observation]]:
        """Do actions in many bundles.

        Args:
            actions: Handle, and environment id to action, of each bundle; a handle at most once.

        Returns:
            Per item, in order, what the environments answered, by id. Environments that had ended are left out: no action
            reached them. A broken one answers once with a `failure`.

        Raises:
            ValueError: An unknown handle, a handle given twice, or an environment id outside 1..K; nothing is done at all.
        """
        ...

    def close_many(self, handles: Sequence[int]) -> None:
        """End episodes; unknown and closed handles are ignored."""
        ...

    def expert_many(self, task_ids: Sequence[str]) -> list[list[str] | None]:
        """Gold actions of each task, in order; None where the world has none.

        Raises:
            RequestError: An unknown task.
            JobError: The world broke while looking for them.
        """
        ...

    def metadata(self) -> dict[str, str]:
        """What a run should remember about the world: its name, versions, rules."""
        ...

    def close(self) -> None:
        """End everything; calling it twice does no harm."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class LocalPool:
    """All bundles in this process. A world that hangs or crashes takes the caller along: see `WorkerPool`."""

    def __init__(self, world: World) -> None:
        """Play in a world.

        Args:
            world: Closed together with the pool.
        """
        self._world = world
        self._bundles: dict[int, Bundle] = {}
        self._next = 0
        self._clock = EnvClock()

    @property
    def clock(self) -> EnvClock:
        """See `EnvPool`."""
        return self._clock

    def open_many(self, requests: Sequence[tuple[str, int | None]]) -> list[tuple[int, BundleStart]]:
        """See `EnvPool`."""
        opened: list[tuple[int, BundleStart]] = []
        try:
            for task_id, num_envs in requests:
                bundle = Bundle(self._world, task_id, num_envs)
                with self._clock.timing("reset_s"):
                    opened.append((self._next, bundle.reset()))
                self._clock.resets += 1
                self._bundles[self._next] = bundle
                self._next += 1
        except BaseException:
            self.close_many([handle for handle, _ in opened])
            raise
        return opened

    def step_many(self, actions: Sequence[tuple[int, Mapping[int, str]]]) -> list[dict[int, Observation]]:
        """See `EnvPool`."""
        check_handles(actions)
        for handle, asked in actions:
            if handle not in self._bundles:
                raise ValueError(f"no open bundle {handle}")
            self._bundles[handle].check(asked)
        with self._clock.timing("step_s"):
            answers = [self._bundles[handle].step(asked) for handle, asked in actions]
        self._clock.steps += sum(len(answer) for answer in answers)
        return answers

    def close_many(self, handles: Sequence[int]) -> None:
        """See `EnvPool`."""
        for handle in handles:
            if handle in self._bundles:
                self._bundles.pop(handle).close()

    def expert_many(self, task_ids: Sequence[str]) -> list[list[str] | None]:
        """See `EnvPool`."""
        try:
            return [self._world.expert(task_id) for task_id in task_ids]
        except DpepoError:
            raise
        except Exception as error:
            raise JobError(f"The world broke: {describe(error)}") from error

    def metadata(self) -> dict[str, str]:
        """See `EnvPool`."""
        return {"world": self._world.name, **self._world.metadata()}

    def close(self) -> None:
        """See `EnvPool`."""
        self.close_many(list(self._bundles))
        self._world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def make_pool(config: EnvConfig) -> EnvPool:
    """The pool a configuration asks for: in this process for ``workers: 0``, else in that many processes.

    Raises:
        RequestError: The world or one of its options does not exist.
    """
    if config.workers == 0:
        return LocalPool(load_world(config.world, config.options))
    return WorkerPool(
        config.world,
        config.options,
        workers=config.workers,
        step_timeout_s=config.step_timeout_s,
        start_timeout_s=max(START_TIMEOUT_S, config.step_timeout_s),
    )


@contextmanager
def lent_pool(config: EnvConfig, pool: EnvPool | None) -> Iterator[EnvPool]:
    """A pool for the length of a job: one the caller lends, left open, or else a new one.

    Lending one pool to several jobs in turn keeps what its worlds have loaded and remembered.

    Raises:
        RequestError: The world or one of its options does not exist.
    """
    if pool is not None:
        yield pool
        return
    with make_pool(config) as own:
        yield own
