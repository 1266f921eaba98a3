"""Which evaluations stand on one line of a table: those of one method, played alike, on several lists of tasks or seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpepo.config import OverLimit
from dpepo.evaluation.conditions import TASK_FIELDS, WORDS, Conditions
from dpepo.evaluation.measured import Measured

HOW_FIELDS = tuple(field for field in WORDS if field not in (*TASK_FIELDS, "window", "limit_stated"))
"""The fields that keep evaluations apart: how they were played. The window of a memory belongs to the memory's name."""

_PHRASES: Mapping[str, Callable[[Conditions], str]] = {
    "num_envs": lambda c: f"K = {c.num_envs}",
    "max_turns": lambda c: f"{c.max_turns} turns",
    "temperature": lambda c: "temperature not recorded" if c.temperature is None else f"temperature {c.temperature:g}",
    "top_p": lambda c: f"top_p {c.top_p:g}",
    "max_new_tokens": lambda c: f"replies up to {c.max_new_tokens} tokens",
    "over_limit": lambda c: f"asking for more than K {'fails' if c.over_limit is OverLimit.FAIL else 'is ignored'}",
    "form": lambda c: f"{c.form.value} form",
    "templates": lambda c: f"templates {c.templates}",
    "memory": lambda c: c.memory_text if c.window is not None else f"{c.memory_text} memory",
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """Evaluations of one method, played alike."""

    name: str  # its label
    how: tuple[Any, ...]  # values of `HOW_FIELDS`
    by_column: Mapping[str, tuple[Measured, ...]]  # "world/split" to the evaluations there, e.g. of several seeds

    @property
    def conditions(self) -> Conditions:
        """How all of them were played; the lists of tasks are those of the first."""
        return next(iter(self.by_column.values()))[0].conditions


def methods_of(measured: Sequence[Measured]) -> list[Method]:
    """Sort evaluations into methods, in order of first mention."""
    lines: dict[tuple[str, tuple[Any, ...]], dict[str, list[Measured]]] = {}
    for one in measured:
        line = lines.setdefault((one.label, _how(one.conditions)), {})
        line.setdefault(column_key(one), []).append(one)
    return [
        Method(name=name, how=how, by_column={column: tuple(same) for column, same in columns.items()})
        for (name, how), columns in lines.items()
    ]


def column_key(one: Measured) -> str:
    """The column of an evaluation: world and list of tasks."""
    return f"{one.conditions.world}/{one.conditions.split}"


def labels_of(methods: Sequence[Method], *, always: Collection[str] = ()) -> list[str]:
    """A label per method: its name, and everything in which some of them were played differently.

    Args:
        methods: The lines of a table.
        always: Fields to name even where all agree.
    """
    wanted = [f for place, f in enumerate(HOW_FIELDS) if f in always or len({method.how[place] for method in methods}) > 1]
    phrases = [[_PHRASES[field](method.conditions) for field in wanted] for method in methods]
    return [
        "; ".join([method.name, *(phrase for phrase in some if not re.search(rf"\b{re.escape(phrase)}\b", method.name))])
        for method, some in zip(methods, phrases, strict=True)
    ]


def playing_notes(methods: Sequence[Method], measured: Sequence[Measured]) -> list[str]:
    """What has to be known about how these numbers came about: settings all share, lists of tasks, losses."""
    alike = [f for place, f in enumerate(HOW_FIELDS) if len({method.how[place] for method in methods}) == 1]
    played = ", ".join(_PHRASES[field](methods[0].conditions) for field in alike)
    return [*([f"All played with: {played}."] if played else []), *_list_notes(measured), *_lost_notes(measured)]


def _how(conditions: Conditions) -> tuple[Any, ...]:
    values = conditions.model_dump(mode="json")
    return tuple((values["memory"], values["window"]) if field == "memory" else values[field] for field in HOW_FIELDS)


def _list_notes(measured: Sequence[Measured]) -> list[str]:
    """Per list of tasks: how many, and whether everyone played the same ones."""
    notes = []
    for column in dict.fromkeys(map(column_key, measured)):
        same = [one for one in measured if column_key(one) == column]
        sizes = sorted({one.result.tasks for one in same})
        tries = sorted({round(one.result.played / one.result.tasks, 1) for one in same if one.result.tasks})
        text = f"{column}: {' or '.join(f'{size:,}' for size in sizes)} tasks"
        text += f", {' or '.join(f'{count:g}' for count in tries)} episodes each" if tries not in ([], [1.0]) else ""
        notes.append(text + (" (NOT THE SAME NUMBER FOR ALL)" if len(sizes) > 1 else "") + ".")
        for field in ("names", "options"):
            values = list(dict.fromkeys(str(getattr(one.conditions, field) or "all") for one in same))
            if len(values) > 1:
                notes.append(f"{column}: {WORDS[field]} differ: {'; '.join(values)}.")
    return notes


def _lost_notes(measured: Sequence[Measured]) -> list[str]:
    """Both denominators where episodes were lost."""
    return [
        f"{one.name}: {one.result.lost} of {one.result.played} episodes lost to faults and left out; "
        f"success {100 * one.result.success_rate_played:.1f} % if they had failed."
        for one in measured
        if one.result.lost
    ]
