"""ScienceWorld: 30 elementary-science tasks in a simulated house (arXiv 2203.07540), many environments in one Java machine."""

from typing import Any

__all__ = ["ScienceWorld"]


def __getattr__(name: str) -> Any:
    """Import the world when it is asked for."""
    if name == "ScienceWorld":
        from dpepo.envs.scienceworld.world import ScienceWorld

        return ScienceWorld
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
