"""Gold paths of ScienceWorld rewritten for demonstrations. Pure.

The package's solver walks from room to room and looks at everything along the way. Here a walk is one ``teleport to``, steps
that do nothing are left out, and long watching is done with ``wait``. Nothing says that the rewritten path still reaches the
goal: episodes are played, and those that fail are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

WAIT, WAIT_ONE = "wait", "wait1"
_TICKS_PER_WAIT = 10  # moments that pass during `wait`
_WATERING_SHARE = 3  # with watering left out, as many times the moments pass in waits
_TRY = 4  # steps of filling a pot: put it into the sink, on, off, take it
_LONG_RUN = 7  # a run of this many moments is shortened
_GO = re.compile(r"(?:go|teleport) to (?P<room>[a-z ]+)")
_USELESS = re.compile(r"open door to .*|look around|\d+|pour (?P<thing>.+) (?:in|into) (?P=thing)")
_WATERING = re.compile(r"(?:activate|deactivate) sink|move jug to sink|pour jug into flower pot \d+")
_READS = re.compile(r"use thermometer .*|examine .*")
_NOT_SHOWN = (  # words of the solver that the simulator does not show
    (re.compile(r"^(use thermometer .*|examine )(?:liquid|solid) (?!unknown)"), r"\1"),
    (re.compile(r" in living thing$| in the seed stage.*"), ""),
)
_MATTER = re.compile(r"\b(?:solid|liquid) ")
_PARTS = re.compile(r"\b(?:to|into|in|on|onto|containing|and|with)\b")
_CONTACT = re.compile(r"^(?:the )|(?:^| )(?:terminal \d|anode|cathode)$")  # every electrical thing has them
_NO_NAMES = frozenset({"inventory", "nothing", "agent", ""})
_VERBS = (
    "focus on",
    "pick up",
    "put down",
    "look at",
    "look in",
    "teleport to",
    "go to",
    "look around",
    "open",
    "close",
    "move",
    "pour",
    "use",
    "connect",
    "disconnect",
    "mix",
    "activate",
    "deactivate",
    "examine",
    "read",
    "drop",
    "dunk",
    "eat",
    "flush",
    WAIT_ONE,
    WAIT,
    "inventory",
)


class PlanStep(NamedTuple):
    """One action of a plan, and where it is done."""

    action: str
    room: str


def rewrite(gold: Sequence[str], *, start_room: str) -> tuple[PlanStep, ...]:
    """The gold actions without walks, without steps that do nothing, and with short waits.

    Answers to questions ("0") are left out: whoever follows the plan answers when asked.

    Args:
        gold: The package's actions.
        start_room: Where the environment begins.

    >>> rewrite(["open door to hall", "go to hall", "go to attic", "look around", "pick up lamp"], start_room="cellar")
    (PlanStep(action='pick up lamp', room='attic'),)
    """
    room = start_room
    steps = []
    self_watering = any("flower pot" in action for action in gold)
    for number, action in enumerate(gold):
        walk = _GO.fullmatch(action)
        if walk:
            room = walk["room"]
        elif not (_USELESS.fullmatch(action) or (self_watering and _WATERING.fullmatch(action)) or _is_doubled(gold, number)):
            for pattern, shown in _NOT_SHOWN:
                action = " ".join(pattern.sub(shown, action).split())
            steps.append(PlanStep(action, room))
    steps = _without_repeats(steps)
    return _shorten_waits(steps, unwatered=self_watering)


def brief(plan: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """A plan without the readings that have a wait beside them.

    >>> [step.action for step in brief([PlanStep("examine ice", "hut"), PlanStep("wait", "hut"), PlanStep("mix pot", "hut")])]
    ['wait', 'mix pot']
    """
    around = [frozenset(step.action for step in plan[max(0, at - 1) : at + 2]) for at in range(len(plan))]
    return tuple(step for step, near in zip(plan, around, strict=True) if not (_READS.fullmatch(step.action) and WAIT in near))


def same_step(action: str, other: str) -> bool:
    """Whether two actions are one step of a plan: readings count as the same before and after melting.

    >>> same_step("use thermometer in inventory on solid wax", "use thermometer in inventory on liquid wax")
    True
    """
    if action == other:
        return True
    return bool(_READS.fullmatch(action)) and _MATTER.sub("", action) == _MATTER.sub("", other)


def in_other_state(action: str) -> str:
    """The same reading of a thing that has melted, or has not yet."""
    return _MATTER.sub(lambda found: "liquid " if found[0] == "solid " else "solid ", action)


def verb(action: str) -> str:
    """The kind of an action: its first words.

    >>> verb("focus on dove egg"), verb("wait1"), verb("0")
    ('focus on', 'wait1', '')
    """
    return next((known for known in _VERBS if action == known or action.startswith(known + " ")), "")


def arguments(action: str) -> tuple[str, ...]:
    """What an action names, split into things and places.

    >>> arguments("pour cup containing blue paint in art studio in jug")
    ('cup', 'blue paint', 'art studio', 'jug')
    >>> arguments("use thermometer in inventory on substance in metal pot")
    ('thermometer', 'substance', 'metal pot')
    """
    parts = (_CONTACT.sub("", part.strip()).strip() for part in _PARTS.split(action.removeprefix(verb(action))))
    return tuple(dict.fromkeys(part for part in parts if part not in _NO_NAMES))


def is_wait(action: str) -> bool:
    """Whether an action only lets time pass."""
    return action in (WAIT, WAIT_ONE)


def short_answer(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """A plan's declarations and its last step: the way to an answer without the experiment.

    >>> [step.action for step in short_answer([PlanStep("focus on tin", "attic"), PlanStep("wait", "attic"),
    ...                                        PlanStep("move tin to red box", "attic")])]
    ['focus on tin', 'move tin to red box']
    """
    short = [
        PlanStep(step.action.removesuffix(" in inventory"), step.room) for step in steps[:-1] if verb(step.action) == "focus on"
    ]
    last = steps[-1]
    if verb(last.action) == "move" and short and short[-1].room != last.room:
        thing = short[-1].action.removeprefix("focus on ")
        short.append(PlanStep(f"pick up {thing}", short[-1].room))
    return (*short, last)


def _is_doubled(gold: Sequence[str], number: int) -> bool:
    """An `examine` right before a reading of the thermometer."""
    action, after = gold[number], gold[number + 1 : number + 2]
    return action.startswith("examine ") and bool(after) and after[0].startswith("use thermometer ")


def _without_repeats(steps: Sequence[PlanStep]) -> list[PlanStep]:
    """Without picking up what is held already, and without trying the same few things twice in a row."""
    kept: list[PlanStep] = []
    held: set[str] = set()
    for step in steps:
        thing = step.action.removeprefix("pick up ")
        if verb(step.action) == "pick up":
            if thing in held:
                continue
            held.add(thing)
        elif verb(step.action) in ("move", "drop", "put down"):
            held -= {name for name in held if step.action.partition(" ")[2].startswith(name)}
        kept.append(step)
        if kept[-_TRY:] == kept[-2 * _TRY : -_TRY] and not _watching(step):
            del kept[-_TRY:]
    return kept


def _shorten_waits(steps: Sequence[PlanStep], *, unwatered: bool) -> tuple[PlanStep, ...]:
    short: list[PlanStep] = []
    done = 0
    for kind, run in groupby(steps, key=_watching):
        same = list(run)
        done += len(same)
        if kind == "wait":
            short += _wait_run(same, unwatered=unwatered, until=steps[done].action if done < len(steps) else "")
        else:
            short += _read_run(same) if kind == "read" else same
    return tuple(short)


def _watching(step: PlanStep) -> str:
    if is_wait(step.action):
        return "wait"
    return "read" if _READS.fullmatch(step.action) else ""


def _wait_run(steps: list[PlanStep], *, unwatered: bool, until: str) -> list[PlanStep]:
    moments = sum(_TICKS_PER_WAIT if step.action == WAIT else 1 for step in steps)
    if unwatered:
        moments *= _WATERING_SHARE
    if moments < _LONG_RUN + (0 if unwatered or verb(until) == "focus on" else _TICKS_PER_WAIT):
        return steps
    room = steps[0].room
    return [PlanStep(WAIT, room)] * -(-moments // _TICKS_PER_WAIT)


def _read_run(steps: list[PlanStep]) -> list[PlanStep]:
    """Readings, two moments each in the gold path; of many, some, with waits between them."""
    if len(steps) <= _LONG_RUN // 2:
        return steps
    room = steps[0].room
    short = [steps[0]]
    for number in range(_TICKS_PER_WAIT // 2, len(steps) + _TICKS_PER_WAIT // 2, _TICKS_PER_WAIT // 2):
        short += [PlanStep(WAIT, room), steps[min(number, len(steps) - 1)]]
    return short
