"""From rows of dpepo back to the episodes they were made of, as they were."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pydantic import ValidationError

from dpepo.synthesis.formats.rows import with_messages
from dpepo.types import Episode, ScoredEpisode


class BadRow(Exception):
    """A row that cannot be used; its text is the reason, in a few words that are counted."""


class RestoredTurn(NamedTuple):
    """One turn, and the episode it belongs to."""

    episode: str  # id inside the file
    number: int  # from 1
    num_turns: int  # of the episode
    head: dict[str, Any]  # the episode without its turns
    turn: dict[str, Any]


def is_own_row(row: Any) -> bool:
    """Whether a row was written by dpepo and holds an episode, or a turn of one."""
    return isinstance(row, dict) and "record" in row and ("kind" in row or {"messages", "episode", "turn"} <= row.keys())


def restore(row: dict[str, Any]) -> Episode | RestoredTurn:
    """The episode of a conversation row or of a line of a run's episode file; of a turn row, the turn.

    Raises:
        BadRow: The row is damaged.
    """
    try:
        if "kind" in row:
            return _recorded(row)
        record = json.loads(row["record"])
        if row.get("turn") == 0:
            return Episode.model_validate(record["episode"])
        turn = with_messages(record["turn"], row["messages"])
        return RestoredTurn(str(row["episode"]), int(row["turn"]), int(row["num_turns"]), record["episode"], turn)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise BadRow("damaged record") from None


def joined(turns: list[RestoredTurn]) -> Episode:
    """The episode of its turns, in whatever order they came.

    Raises:
        BadRow: They are not those of one episode.
    """
    ordered = sorted(turns, key=lambda one: one.number)
    if [one.number for one in ordered] != list(range(1, ordered[0].num_turns + 1)):
        raise BadRow("turns of an episode are missing or double")
    if any(one.head != ordered[0].head for one in ordered):
        raise BadRow("turns of different episodes under one id")
    try:
        return Episode.model_validate({**ordered[0].head, "turns": [one.turn for one in ordered]})
    except ValidationError:
        raise BadRow("damaged record") from None


def _recorded(row: dict[str, Any]) -> Episode:
    if row["kind"] == "scored":
        return ScoredEpisode.model_validate(row["record"]).episode
    return Episode.model_validate(row["record"])
