"""Algorithms: a group of scored episodes to an advantage per turn. Pure python, one small file each."""

from dpepo.algorithms.base import Algorithm, algorithm_names, load_algorithm
from dpepo.algorithms.groups import group_metrics, trajectory_advantages, turn_weighted_advantages

__all__ = [
    "Algorithm",
    "algorithm_names",
    "group_metrics",
    "load_algorithm",
    "trajectory_advantages",
    "turn_weighted_advantages",
]
