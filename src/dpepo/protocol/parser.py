"""From the text of a reply to a thought and actions. The only parser in the project; its rules are told in docs/protocol.md.

A reply is cut into tags once (`_scan`), the thought is taken off (`_split_thought`), the part that holds actions is chosen
(`_choose_region`), and entries are read from it (`_read_entries`). Each stage walks its list once, so time is linear in the
length of the reply. Whatever is wrong is noted as a `ReplyProblem`; nothing here raises on any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpepo.actions import normalize_action, replace_surrogates
from dpepo.config import MAX_ENVS, Form
from dpepo.types import ParsedReply, ReplyProblem

MAX_ENV_ID = MAX_ENVS
"""Largest environment id that is accepted where the number of environments is unlimited."""

# Possessive quantifiers never give back what they took, and [^<>] stops at the next tag: every character is looked at once.
_TAG = re.compile(r"<\s*+(/?+)\s*+(think|parallel|action|env(?![a-z])([^<>]*+))\s*+>", re.ASCII | re.IGNORECASE)
_TAG_START = re.compile(r"<\s*+/?+\s*+(?:think|parallel|action|env)(?![a-z])", re.ASCII | re.IGNORECASE)
_ENV_ID = re.compile(r"_\s*+([1-9][0-9]*+)\s*+", re.ASCII)
_SHOWN = 5  # details named in one message
_SHOWN_CHARS = 24  # characters of a detail that are repeated


@dataclass(frozen=True, slots=True)
class _Tag:
    """One tag of the reply, or one whole later thought."""

    name: str  # "think", "parallel", "action" or "env"
    closing: bool
    env: str  # what stands behind "env", stripped: "_1" for <env_1>; empty for other tags
    start: int
    end: int


@dataclass(slots=True)
class _Notes:
    """Problems found so far, with the details that a message names."""

    details: dict[ReplyProblem, dict[str, None]] = field(default_factory=dict)

    def add(self, problem: ReplyProblem, detail: str = "") -> None:
        found = self.details.setdefault(problem, {})
        if detail and len(found) <= _SHOWN:
            found[detail if len(detail) <= _SHOWN_CHARS else detail[:_SHOWN_CHARS] + "..."] = None


@dataclass(frozen=True, slots=True)
class _Body:
    """What follows the thought."""

    tags: tuple[_Tag, ...]
    start: int
    end: int


def parse_reply(text: str, *, num_envs: int | None, form: Form = Form.PARALLEL) -> ParsedReply:
    """Take a reply apart. Never raises; time is linear in the length of the text.

    Args:
        text: The completion as decoded, with or without an opening ``<think>`` (a prompt may have ended with it).
        num_envs: K; ids outside 1..K are dropped and noted. None: any id from 1 on.
        form: ``parallel`` reads ``<parallel><env_i>action</env_i>...</parallel>``; ``sequential`` reads
            ``<action>action</action>`` and calls its environment 1.

    Returns:
        The thought, at most one action per environment in id order, normalised by `dpepo.actions.normalize_action`, and what
        was wrong. A reply without problems follows the format exactly.

    >>> reply = parse_reply("<think>both</think><parallel><env_2>look</env_2><env_1>wait</env_1></parallel>", num_envs=4)
    >>> reply.thought, dict(reply.actions), reply.problems
    ('both', {1: 'wait', 2: 'look'}, ())
    >>> reply = parse_reply("<think>t</think><parallel><env_5>look</env_5></parallel>", num_envs=4)
    >>> dict(reply.actions), reply.messages[-1]
    ({}, 'Environments run from 1 to 4; the reply asks for 5.')
    """
    text = replace_surrogates(text)
    notes = _Notes()
    thought, body = _split_thought(text, _scan(text), notes)
    actions: dict[int, str] = {}
    if body is not None:
        region = _choose_region(text, body, form, notes)
        actions = _read_entries(text, region, form, num_envs, notes)
    if not actions:
        notes.add(ReplyProblem.NO_ACTION)
    problems = tuple(problem for problem in ReplyProblem if problem in notes.details)
    return ParsedReply(
        thought=thought.strip(),
        actions={env_id: actions[env_id] for env_id in sorted(actions)},
        problems=problems,
        messages=tuple(_message(problem, tuple(notes.details[problem]), num_envs, form) for problem in problems),
    )


def _scan(text: str) -> list[_Tag]:
    """All tags of the reply, in order."""
    tags = []
    for match in _TAG.finditer(text):
        env = match.group(3)
        name = match.group(2).lower() if env is None else "env"
        tags.append(_Tag(name, match.group(1) == "/", (env or "").strip(), match.start(), match.end()))
    return tags


def _split_thought(text: str, tags: Sequence[_Tag], notes: _Notes) -> tuple[str, _Body | None]:
    """The thought, and what follows it; None when the thought never ends."""
    first = next((index for index, tag in enumerate(tags) if tag.name == "think"), None)
    if first is None:
        notes.add(ReplyProblem.MISSING_THINK)
        return "", _Body(tuple(tags), 0, len(text))
    begin = 0
    if not tags[first].closing:
        begin = tags[first].end
        _note_stray(text, 0, tags[first].start, notes)
    last = next((index for index in range(first, len(tags)) if tags[index].name == "think" and tags[index].closing), None)
    if last is None:
        notes.add(ReplyProblem.UNCLOSED_THINK)
        return text[begin:], None
    if any(tag.name == "think" for tag in tags[first + 1 : last]):
        notes.add(ReplyProblem.MULTIPLE_THINK)
    thought = text[begin : tags[last].start]
    if not thought.strip():
        notes.add(ReplyProblem.MISSING_THINK)
    return thought, _without_later_thoughts(text, tags[last + 1 :], tags[last].end, notes)


def _without_later_thoughts(text: str, tags: Sequence[_Tag], start: int, notes: _Notes) -> _Body:
    """Fold every later thought into one tag, so that nothing inside it is read. One that never ends closes the body."""
    kept: list[_Tag] = []
    opened: _Tag | None = None
    for tag in tags:
        if tag.name != "think":
            if opened is None:
                kept.append(tag)
            continue
        notes.add(ReplyProblem.MULTIPLE_THINK)
        if not tag.closing:
            opened = opened or tag
        else:
            kept.append(_Tag("think", opened is None, "", (opened or tag).start, tag.end))
            opened = None
    if opened is not None:
        notes.add(ReplyProblem.UNCLOSED_THINK)
    return _Body(tuple(kept), start, len(text) if opened is None else opened.start)


def _choose_region(text: str, body: _Body, form: Form, notes: _Notes) -> _Body:
    """The part of the body in which entries count: the first block, or all of it where there is none."""
    opener = "parallel" if form is Form.PARALLEL else "action"
    body = _after_unopened_end(body, opener)
    opening = [index for index, tag in enumerate(body.tags) if tag.name == opener and not tag.closing]
    if not opening:
        notes.add(ReplyProblem.MISSING_PARALLEL)
    if not opening or form is Form.SEQUENTIAL:
        return body
    first, following = opening[0], opening[1:]
    if following:
        notes.add(ReplyProblem.MULTIPLE_PARALLEL)
    _note_stray(text, body.start, body.tags[first].start, notes)
    ends = (index for index in range(first + 1, len(body.tags)) if body.tags[index].name == "parallel")
    last = next(ends, len(body.tags))
    end = body.tags[last].start if last < len(body.tags) else body.end
    if last < len(body.tags) and body.tags[last].closing:
        _note_stray(text, body.tags[last].end, body.tags[following[0]].start if following else body.end, notes)
    else:
        notes.add(ReplyProblem.UNCLOSED_PARALLEL)
    return _Body(body.tags[first + 1 : last], body.tags[first].end, end)


def _after_unopened_end(body: _Body, opener: str) -> _Body:
    """The body behind its last </think> that nothing opened, since what stands before may be reasoning (case P03).

    Where blocks stand before it and none behind it, the end tag was a slip and the body stays whole.
    """
    ends = [index for index, tag in enumerate(body.tags) if tag.name == "think" and tag.closing]
    if not ends:
        return body
    behind = body.tags[ends[-1] + 1 :]
    opens = [index for index, tag in enumerate(body.tags) if tag.name == opener and not tag.closing]
    if opens and opens[-1] < ends[-1]:
        return body
    return _Body(behind, body.tags[ends[-1]].end, body.end)


def _read_entries(text: str, region: _Body, form: Form, num_envs: int | None, notes: _Notes) -> dict[int, str]:
    """Actions of the region. An entry is an opening tag whose very next tag is its own closing tag."""
    entry = "env" if form is Form.PARALLEL else "action"
    actions: dict[int, str] = {}
    asked: set[int] = set()
    position = region.start
    for index, tag in enumerate(region.tags):
        _note_stray(text, position, tag.start, notes)
        position = tag.end
        if tag.name != entry or tag.closing:
            follows_entry = index > 0 and region.tags[index - 1].name == entry and not region.tags[index - 1].closing
            if tag.name != "think" and not follows_entry:
                notes.add(ReplyProblem.STRAY_TEXT)
            continue
        follower = region.tags[index + 1] if index + 1 < len(region.tags) else None
        position = follower.start if follower is not None else region.end  # what an entry holds is never stray
        env_id = 1 if form is Form.SEQUENTIAL else _env_id(tag, num_envs, notes)
        if follower is None or follower.name != entry or not follower.closing or follower.env != tag.env:
            notes.add(ReplyProblem.UNCLOSED_ENV, _shown_id(tag))
            action = ""
        else:
            action = _entry_action(text[tag.end : follower.start], tag, notes)
        if env_id is None:
            continue
        if env_id in asked:
            notes.add(ReplyProblem.DUPLICATE_ENV, str(env_id))
        asked.add(env_id)
        if action:
            actions.setdefault(env_id, action)
    _note_stray(text, position, region.end, notes)
    return actions


def _entry_action(inner: str, tag: _Tag, notes: _Notes) -> str:
    """The action of a closed entry; empty when there is nothing to send."""
    action = normalize_action(inner)
    if not action:
        notes.add(ReplyProblem.EMPTY_ACTION, _shown_id(tag))
    elif _TAG_START.search(action):  # a tag cut short, such as "look <env_2"
        notes.add(ReplyProblem.UNCLOSED_ENV, _shown_id(tag))
        return ""
    return action


def _env_id(tag: _Tag, num_envs: int | None, notes: _Notes) -> int | None:
    """The id of an opening tag; None, with a note, when it is no number from 1 on or above the limit."""
    match = _ENV_ID.fullmatch(tag.env)
    if match is None:
        notes.add(ReplyProblem.BAD_ENV_ID, f"<env{tag.env}>")
        return None
    limit = MAX_ENV_ID if num_envs is None else num_envs
    digits = match.group(1)
    # compared by length first: int() refuses numbers of thousands of digits
    if len(digits) > len(str(limit)) or int(digits) > limit:
        notes.add(ReplyProblem.OVER_LIMIT, digits)
        return None
    return int(digits)


def _shown_id(tag: _Tag) -> str:
    return "<action>" if tag.name == "action" else f"<env{tag.env}>"


def _note_stray(text: str, start: int, end: int, notes: _Notes) -> None:
    if start < end and not text[start:end].isspace():
        notes.add(ReplyProblem.STRAY_TEXT)


def _message(problem: ReplyProblem, details: tuple[str, ...], num_envs: int | None, form: Form) -> str:
    """One sentence about a problem, naming what was found and what is allowed."""
    named = ", ".join(details[:_SHOWN]) + (", ..." if len(details) > _SHOWN else "")
    block = "<parallel>" if form is Form.PARALLEL else "<action>"
    limit = MAX_ENV_ID if num_envs is None else num_envs
    return {
        ReplyProblem.NO_ACTION: "The reply holds no action that can be executed.",
        ReplyProblem.UNCLOSED_THINK: "A <think> has no </think>; what follows it is thought, not action.",
        ReplyProblem.MULTIPLE_THINK: "The reply holds more than one thought; nothing inside a thought is executed.",
        ReplyProblem.MISSING_THINK: "The reply has no <think>...</think>.",
        ReplyProblem.MISSING_PARALLEL: f"The reply has no {block} after the thought.",
        ReplyProblem.MULTIPLE_PARALLEL: "The reply holds several <parallel> blocks; only the first counts.",
        ReplyProblem.UNCLOSED_PARALLEL: "The <parallel> block has no </parallel>; its complete entries count.",
        ReplyProblem.UNCLOSED_ENV: f"An entry is not closed or holds another tag, so it is not sent: {named}.",
        ReplyProblem.DUPLICATE_ENV: f"Only the first usable action of an environment counts; addressed again: {named}.",
        ReplyProblem.BAD_ENV_ID: f"Environments are numbered 1 to {limit}; the reply names {named}.",
        ReplyProblem.OVER_LIMIT: f"Environments run from 1 to {limit}; the reply asks for {named}.",
        ReplyProblem.EMPTY_ACTION: f"An entry is empty: {named}.",
        ReplyProblem.STRAY_TEXT: "The reply holds text outside its tags.",
    }[problem]
