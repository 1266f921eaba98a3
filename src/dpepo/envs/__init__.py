"""Worlds: what an agent acts in, how copies of it are held together, and in which process they live."""

from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.envs.bundle import Bundle, BundleStart
from dpepo.envs.check import check_world
from dpepo.envs.check_process import check_loading
from dpepo.envs.clock import EnvClock
from dpepo.envs.pool import EnvPool, LocalPool, lent_pool, make_pool
from dpepo.envs.registry import load_world, make, select_tasks, world_names, world_status
from dpepo.envs.task_lists import refuse_overlap, types_note
from dpepo.envs.worker_pool import WorkerPool

__all__ = [
    "Bundle",
    "BundleStart",
    "EnvClock",
    "EnvPool",
    "LocalPool",
    "TextEnv",
    "WorkerPool",
    "World",
    "WorldStatus",
    "check_loading",
    "check_world",
    "lent_pool",
    "load_world",
    "make",
    "make_pool",
    "refuse_overlap",
    "select_tasks",
    "types_note",
    "world_names",
    "world_status",
]
