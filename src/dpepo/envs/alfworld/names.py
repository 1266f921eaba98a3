"""From the names in a problem ("mug_bar__minus_00_dot_84...") to those a player reads ("mug 1"). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_SPELLINGS = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def readable_names(ids: Iterable[str]) -> dict[str, str]:
    """Number the things of each kind as the package alfworld does: in order of their names, the highest number first.

    Args:
        ids: Names in the problem, lower case.

    >>> readable_names(["mug_bar_1", "mug_bar_2", "sink_bar_1_bar_sinkbasin", "agent1"])
    {'agent1': 'agent1 ', 'mug_bar_1': 'mug 2', 'mug_bar_2': 'mug 1', 'sink_bar_1_bar_sinkbasin': 'sinkbasin 1'}
    """
    ordered = sorted(set(ids))
    left = Counter(_kind(name) for name in ordered if "_bar_" in name)
    names = {}
    for name in ordered:
        if "_bar_" not in name:
            names[name] = f"{_spelt(name)} "  # the package's own trailing space
            continue
        kind = _kind(name)
        names[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def _kind(name: str) -> str:
    return _spelt(name).partition("|")[0] + ("basin" if "basin" in name else "")


def _spelt(name: str) -> str:
    for written, meant in _SPELLINGS:
        name = name.replace(written, meant)
    return name
