"""Worlds: what an agent acts in, how copies of it are held together, and in which process they live."""

from dpepo.envs.base import TextEnv, World, WorldStatus

__all__ = ["TextEnv", "World", "WorldStatus"]
