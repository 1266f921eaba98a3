"""ScienceWorld in worker processes: what Java does there, and what happens when it dies or hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from dpepo.envs import WorkerPool

TASK = "scienceworld/lifespan-longest-lived/3"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("scienceworld", workers=1, step_timeout_s=6) as made:
        yield made


def java_of(pool: WorkerPool) -> psutil.Process:
    (worker,) = pool.worker_pids()
    (java,) = psutil.Process(worker).children()
    assert "java" in java.name()
    return java


def test_java_listens_on_the_loopback_interface_only_and_has_its_memory_capped(pool: WorkerPool) -> None:
    pool.open_many([(TASK, 1)])
    java = java_of(pool)
    addresses = {connection.laddr.ip for connection in java.net_connections("tcp") if connection.status == "LISTEN"}
    assert addresses
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
    assert "-Xmx512m" in java.cmdline()


@pytest.mark.parametrize("victim", ["java", "worker"])
def test_an_episode_survives_a_process_that_is_killed_under_it(pool: WorkerPool, victim: str) -> None:
    """Case E18."""
    ((handle, _),) = pool.open_many([(TASK, 4)])
    pool.step_many([(handle, {1: "teleport to outside", 2: "wait1"})])
    java = java_of(pool)
    os.kill(java.pid if victim == "java" else pool.worker_pids()[0], signal.SIGKILL)
    (seen,) = pool.step_many([(handle, {1: "focus on parrot egg", 2: "look around", 3: "inventory"})])
    assert seen[1].success
    assert not any(observation.failure for observation in seen.values())
    assert not java.is_running()


def test_java_that_hangs_is_cut_off_with_its_worker_and_leaves_no_process(pool: WorkerPool) -> None:
    """Case E18. A stopped process sees no closed pipe, so only a kill ends it."""
    ((handle, _),) = pool.open_many([(TASK, 2)])
    pool.step_many([(handle, {2: "teleport to outside"})])
    java = java_of(pool)
    java.suspend()
    (seen,) = pool.step_many([(handle, {1: "open fridge", 2: "focus on parrot egg"})])
    assert seen[1].failure.startswith("Timeout: no answer within 6 s")
    assert seen[2].success  # brought back by replay on a new Java machine
    psutil.wait_procs([java], timeout=3)
    assert not java.is_running()


def test_the_clock_tells_start_resets_and_actions_apart(pool: WorkerPool) -> None:
    before = pool.clock.copy()
    ((handle, _),) = pool.open_many([("scienceworld/boil/3", 2)])
    pool.step_many([(handle, {1: "teleport to outside", 2: "inventory"})])
    took = pool.clock.since(before)
    assert (took.resets, took.steps) == (1, 2)
    assert took.reset_s > 0
    assert took.step_s > 0
