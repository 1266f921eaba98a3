"""Hand-written example episodes that a teacher reads before it plays; a file per world, replayed by a test.

Each is a real episode of a training task: the answers are those of the world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import yaml

from dpepo.protocol.reply import format_reply
from dpepo.types import Record


class ExampleTurn(Record):
    """One reply, and what the environments answered."""

    thought: str
    actions: Mapping[int, str]  # env id to action
    answers: Mapping[int, str]  # env id to the observation's text


class ExampleEpisode(Record):
    """A whole episode that reaches its goal."""

    task: str  # task id
    num_envs: int  # K
    shows: str  # the habit it teaches, in a few words
    goal: str
    initial: str  # the initial observation's text
    turns: tuple[ExampleTurn, ...]


def load_examples(world: str) -> tuple[ExampleEpisode, ...]:
    """The examples that ship for a world; empty where there are none."""
    file = resources.files("dpepo.synthesis") / "example_episodes" / f"{world}.yaml"
    if not file.is_file():
        return ()
    return tuple(ExampleEpisode.model_validate(entry) for entry in yaml.safe_load(file.read_text(encoding="utf-8")))


def show_examples(examples: Sequence[ExampleEpisode]) -> str:
    """Examples as text for a system message; empty where there are none."""
    if not examples:
        return ""
    shown = [f"Example {number} ({example.shows})\n{_show(example)}" for number, example in enumerate(examples, start=1)]
    return "\n\n".join(["Here are whole episodes of other tasks, played well. Reply in the same form.", *shown])


def _show(example: ExampleEpisode) -> str:
    lines = [
        f"Task: {example.goal}",
        f"Up to {example.num_envs} environments. At the beginning each of them shows: {example.initial}",
    ]
    for turn in example.turns:
        lines.append(f"Reply: {format_reply(turn.thought, turn.actions)}")
        lines += [f"Environment {env_id} answers: {turn.answers[env_id]}" for env_id in sorted(turn.answers)]
    return "\n".join(lines)
