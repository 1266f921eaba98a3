"""From an episode to rows that people and trainers read: a row per turn, or a row per episode.

Both carry ``record``, a JSON text that holds whatever the other columns leave out, so that `dpepo.synthesis.formats.restore`
gives the episode back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dpepo.actions import replace_surrogates
from dpepo.types import Episode, Message, Step, Turn

Row = dict[str, Any]

ASSISTANT, SYSTEM, USER = "assistant", "system", "user"


def turn_rows(episode: Episode, *, number: int) -> Iterator[Row]:
    """A row per turn: what the model reads at that turn, and its reply.

    Args:
        episode: May have no turn; then there is no row.
        number: Its place in the dataset, from 0; makes ``episode`` unique.
    """
    head = episode.model_dump(mode="json", exclude={"turns"})
    for place, turn in enumerate(episode.turns):
        messages = [*prompt_messages(turn), message(ASSISTANT, turn.completion.text)]
        record = {"episode": head, "turn": _without(turn.model_dump(mode="json"), messages)}
        yield {"messages": messages, "turn": place + 1, **fields(episode, number=number), "record": json.dumps(record)}


def conversation_row(episode: Episode, *, number: int) -> Row:
    """A row for the whole episode: the first prompt, then replies and, between them, what the environments answered.

    Prompts after the first are not in ``messages``: they repeat the history, which here stands above. A model trained on such
    rows therefore reads something else than what `dpepo` shows it in training and evaluation; `turn_rows` are that.
    """
    messages: list[dict[str, str]] = []
    for before, turn in zip((None, *episode.turns), episode.turns, strict=False):
        messages += prompt_messages(turn) if before is None else [message(USER, answers(before.steps))]
        messages.append(message(ASSISTANT, turn.completion.text))
    record = {"episode": episode.model_dump(mode="json")}
    return {"messages": messages, "turn": 0, **fields(episode, number=number), "record": json.dumps(record)}


def fields(episode: Episode, *, number: int) -> Row:
    """The columns beside the messages, the same for both kinds of row."""
    return {
        "episode": f"{number:06d}",
        "task": replace_surrogates(episode.task.id),
        "world": replace_surrogates(episode.task.world),
        "task_type": replace_surrogates(episode.task.name),
        "split": replace_surrogates(episode.task.split),
        "num_envs": episode.num_envs,
        "num_turns": len(episode.turns),
        "seed": episode.seed,
        "sibling": episode.sibling,
        "success": episode.success,
        "stop": episode.stop.value,
    }


def prompt_messages(turn: Turn) -> list[dict[str, str]]:
    """The prompt of a turn as chat messages."""
    return [message(one.role, one.content) for one in turn.prompt.messages]


def message(role: str, content: str) -> dict[str, str]:
    """One chat message as JSON has it; half a surrogate pair, which no file can hold, becomes U+FFFD."""
    return {"role": role, "content": replace_surrogates(content)}


def answers(steps: Sequence[Step]) -> str:
    r"""What the addressed environments answered, as one message.

    >>> from dpepo.types import Observation
    >>> answers([Step(env_id=2, action="look", observation=Observation(text="A desk."))])
    'In Environment 2:\nA desk.'
    """
    return "\n\n".join(f"In Environment {step.env_id}:\n{step.observation.text}" for step in steps) or "Nothing was done."


def _without(turn: dict[str, Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    """A turn without what its messages say already; text that they cannot hold as it is stays."""
    if turn["prompt"]["messages"] == messages[:-1]:
        del turn["prompt"]
    if turn["completion"]["text"] == messages[-1]["content"]:
        del turn["completion"]["text"]
    return turn


def with_messages(turn: dict[str, Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    """The inverse of what `turn_rows` leaves out of ``record``: the turn with its prompt and reply."""
    completion = {"text": messages[-1]["content"], **turn["completion"]}
    prompt = {"messages": [Message.model_validate(one).model_dump() for one in messages[:-1]]}
    return {"prompt": prompt, **turn, "completion": completion}
