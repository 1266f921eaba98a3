"""An optional process reward: how much of an expert's way an episode went, in order.

Used only for episodes without success, and only where expert actions are known; off unless they are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpepo.actions import action_key


def ordered_match(taken: Sequence[str], *, expert: Sequence[str]) -> int:
    """Expert actions met in order by one pass over `taken` with a greedy pointer; 0..len(expert).

    >>> ordered_match(["look", "open door", "look", "go to hall"], expert=["open door", "go to hall", "take lamp"])
    2
    """
    pointer = 0
    keys = [action_key(action) for action in expert]
    for action in taken:
        if pointer < len(keys) and action_key(action) == keys[pointer]:
            pointer += 1
    return pointer


def process_reward(lanes: Iterable[Sequence[str]], *, expert: Sequence[str]) -> float:
    """Share of the expert's actions met in order by the best environment, in [0, 1], rounded to 5 places.

    Args:
        lanes: The actions of each environment, oldest first.
        expert: The expert's actions; none gives 0.
    """
    if not expert:
        return 0.0
    return round(max((ordered_match(taken, expert=expert) for taken in lanes), default=0) / len(expert), 5)
