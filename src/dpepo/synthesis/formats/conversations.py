"""From conversations that others wrote to episodes: messages with ``<think>...</think><parallel><env_1>...`` replies.

What is understood: a list of messages, or a record that holds one (`_LISTS`), in the two usual spellings of a message (``role``
and ``content``, ``from`` and ``value``); records with a prompt and a reply (`_PAIRS`). A message of the assistant is a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dpepo.config import MAX_ENVS, Form
from dpepo.protocol import parse_reply
from dpepo.synthesis.card import UNKNOWN_WORLD
from dpepo.synthesis.formats.restore import BadRow
from dpepo.synthesis.formats.rows import ASSISTANT, SYSTEM, USER
from dpepo.types import (
    Completion,
    Episode,
    FinishReason,
    Message,
    Observation,
    ParsedReply,
    Prompt,
    Step,
    StopReason,
    Task,
    Turn,
    WorldGuide,
)

TASK_COLUMNS = ("task", "task_id", "gamefile", "id")
"""Where a record may name its task, in this order."""

_K_COLUMNS = ("num_envs", "K", "k")
_LISTS = ("messages", "conversations", "conversation", "trajectory")
_PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "output"), ("input", "output"))
_ROLES = {"human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": SYSTEM}
_UNKNOWN = Observation(text="")  # the environment answered, and nobody kept what


class Conversation(NamedTuple):
    """A row, understood."""

    prompts: tuple[Prompt, ...]  # what was read at each turn, as far as the row holds it
    replies: tuple[str, ...]  # one per prompt
    parsed: tuple[ParsedReply, ...]
    form: Form
    num_envs: int  # K
    task: Any  # as the row names it; None where it does not
    split: str


def read_conversation(row: Any) -> Conversation:
    """Understand one row.

    Raises:
        BadRow: It holds no conversation, or a reply in it is malformed.
    """
    messages = _messages(row)
    replies = tuple(content for role, content in messages if role == ASSISTANT)
    if not replies:
        raise BadRow("no reply")
    record = row if isinstance(row, dict) else {}
    form = _form(replies)
    limit = _num_envs(record)
    parsed = tuple(parse_reply(reply, num_envs=limit, form=form) for reply in replies)
    for reply in parsed:
        if reply.problems:
            raise BadRow(f"malformed ({reply.problems[0].value})")
    named = [env_id for reply in parsed for env_id in reply.actions]
    return Conversation(
        prompts=_prompts(messages),
        replies=replies,
        parsed=parsed,
        form=form,
        num_envs=limit or max(named),
        task=next((record[column] for column in TASK_COLUMNS if record.get(column)), None),
        split=str(record.get("split") or ""),
    )


CONVERSATION_COLUMNS = ("kind", "record", *_LISTS, *(asked for asked, _ in _PAIRS))
"""A record without any of these holds no conversation."""


def as_episode(found: Conversation, *, task: Task) -> Episode:
    """The conversation as it is: its own prompts, its replies, and nothing of what the environments said.

    Whether it succeeded is not known, so it does not count as a success.
    """
    turns = tuple(
        Turn(
            prompt=prompt,
            completion=Completion(text=reply, finish=FinishReason.STOP),
            reply=parsed,
            steps=tuple(Step(env_id=i, action=action, observation=_UNKNOWN) for i, action in parsed.actions.items()),
        )
        for prompt, reply, parsed in zip(found.prompts, found.replies, found.parsed, strict=True)
    )
    return Episode(
        task=task,
        goal="",
        guide=WorldGuide(role=""),
        num_envs=found.num_envs,
        max_turns=len(turns),
        seed=0,
        initial=_UNKNOWN,
        turns=turns,
        stop=StopReason.MAX_TURNS,
    )


def unknown_task(found: Conversation, *, number: int) -> Task:
    """A task for a row whose world is not known: what the row names, or the row's number."""
    if isinstance(found.task, str):
        world, slash, _ = found.task.partition("/")
        return Task(id=found.task, world=world if slash and world else UNKNOWN_WORLD, name=_type(found.task), split=found.split)
    return Task(id=f"{UNKNOWN_WORLD}/{number}", world=UNKNOWN_WORLD, name=UNKNOWN_WORLD, split=found.split)


def _type(task_id: str) -> str:
    parts = [part for part in task_id.split("/") if part]
    return parts[1] if len(parts) > 2 and not task_id.startswith("/") else UNKNOWN_WORLD


def _messages(row: Any) -> list[tuple[str, str]]:
    """Role and content of every message, in order."""
    if isinstance(row, list):
        return _checked(row)
    if not isinstance(row, dict):
        raise BadRow("no conversation")
    system = row.get("system")
    before = [{"role": SYSTEM, "content": system}] if isinstance(system, str) and system else []
    for column in _LISTS:
        if isinstance(row.get(column), list):
            return _checked([*before, *row[column]])
    for asked, answered in _PAIRS:
        if row.get(asked) and row.get(answered):
            said = row[asked]
            if isinstance(said, str) and isinstance(row.get("input"), str) and asked == "instruction" and row["input"]:
                said = f"{said}\n{row['input']}"  # as LLaMA-Factory joins them
            return _checked([*before, *_as_list(said, USER), *_as_list(row[answered], ASSISTANT)])
    raise BadRow("no conversation")


def _as_list(said: Any, role: str) -> list[Any]:
    return said if isinstance(said, list) else [{"role": role, "content": said}]


def _checked(messages: Iterable[Any]) -> list[tuple[str, str]]:
    found = []
    for one in messages:
        if not isinstance(one, Mapping):
            raise BadRow("a message is no record")
        role, content = one.get("role") or one.get("from"), one.get("content", one.get("value"))
        if not isinstance(role, str) or role.lower() not in _ROLES:
            raise BadRow("a message of an unknown role")
        if not isinstance(content, str) or not content.strip():
            raise BadRow("an empty message")
        found.append((_ROLES[role.lower()], content))
    if found and found[0][0] == ASSISTANT:
        raise BadRow("a reply to nothing")
    return found


def _prompts(messages: list[tuple[str, str]]) -> tuple[Prompt, ...]:
    """One prompt per reply: the system text, and all the user said so far with the actions in between, without thoughts."""
    system = "\n\n".join(content for role, content in messages if role == SYSTEM)
    head = (Message(role=SYSTEM, content=system),) if system else ()
    said: list[str] = []
    prompts = []
    for role, content in messages:
        if role == ASSISTANT:
            prompts.append(Prompt(messages=(*head, Message(role=USER, content="\n\n".join(said)))))
            said.append(content.rpartition("</think>")[2].strip())
        elif role == USER:
            said.append(content)
    return tuple(prompts)


def _form(replies: Iterable[str]) -> Form:
    text = "".join(replies)
    return Form.SEQUENTIAL if "<action>" in text and "<parallel>" not in text else Form.PARALLEL


def _num_envs(record: Mapping[str, Any]) -> int | None:
    """K as the row says it; None where it does not, or says nonsense."""
    for column in _K_COLUMNS:
        value = record.get(column)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ENVS:
            return value
    return None
