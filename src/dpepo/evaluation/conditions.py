"""How an evaluation was played: tasks, K, turn limit, temperature, prompt, rules. Results compare as far as these agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpepo.config import Config, Form, Memory, OverLimit
from dpepo.protocol import PromptBuilder
from dpepo.types import EpisodeView, Observation, Record, WorldGuide

RULES = {
    OverLimit.FAIL: "asking for more fails the episode",
    OverLimit.IGNORE: "actions for more are ignored",
}


class Conditions(Record):
    """What a success rate depends on besides the policy."""

    world: str
    options: dict[str, Any]  # of the world, e.g. the form of observations
    split: str  # the list of tasks: a split of the world, a file, or "ids"
    names: tuple[str, ...]  # task types; empty: all of the list
    num_envs: int  # K
    max_turns: int  # T
    temperature: float | None  # None: not recorded
    top_p: float
    max_new_tokens: int
    over_limit: OverLimit
    form: Form
    templates: str
    memory: Memory
    window: int | None  # turns kept by memory "window"; None for other memories
    limit_stated: bool | None = None  # whether the prompt names K; None: not recorded

    @property
    def memory_text(self) -> str:
        """The memory in words, e.g. "window 4"."""
        return self.memory.value if self.window is None else f"{self.memory.value} {self.window}"

    def __str__(self) -> str:
        """One line for a person."""
        stated = {True: ", named in the prompt", False: ", not named in the prompt", None: ""}[self.limit_stated]
        temperature = "temperature not recorded" if self.temperature is None else f"temperature {self.temperature:g}"
        types = f" ({', '.join(self.names)})" if self.names else ""
        return (
            f"{self.world} {self.split}{types}; K = {self.num_envs}{stated} ({RULES[self.over_limit]}); at most "
            f"{self.max_turns} turns; {temperature}; {self.form.value} form, {self.memory_text} memory, "
            f"templates {self.templates}"
        )


WORDS = {
    "world": "world",
    "options": "options of the world",
    "split": "list of tasks",
    "names": "task types",
    "num_envs": "K",
    "max_turns": "turn limit",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_new_tokens": "longest reply",
    "over_limit": "rule above K",
    "form": "form of replies",
    "templates": "wording of the prompt",
    "memory": "memory of the prompt",
    "window": "turns in memory",
    "limit_stated": "K named in the prompt",
}
"""What a person calls each field."""

TASK_FIELDS = ("world", "options", "split", "names")
"""The fields that say on what was played; the others say how."""


def conditions_of(config: Config, **known: Any) -> Conditions:
    """The conditions that a configuration asks for.

    Args:
        config: Of the run.
        known: Fields that are known otherwise, e.g. from the episodes of one stage of several.
    """
    selection = config.tasks.eval
    split = "ids" if selection.ids else selection.file or selection.split
    values: dict[str, Any] = {
        "world": config.env.world,
        "options": config.env.options,
        "split": split,
        "names": () if selection.ids else selection.names,
        "num_envs": config.eval.num_envs or config.env.num_envs,
        "max_turns": config.rollout.max_turns,
        "temperature": config.eval.temperature,
        "top_p": config.sampling.top_p,
        "max_new_tokens": config.sampling.max_new_tokens,
        "over_limit": config.eval.over_limit,
        "form": config.prompt.form,
        "templates": config.prompt.templates,
        "memory": config.prompt.memory,
        "window": config.prompt.window if config.prompt.memory is Memory.WINDOW else None,
    }
    return Conditions(**(values | known))


def names_limit(prompts: PromptBuilder, num_envs: int) -> bool:
    """Whether the words of a prompt depend on K: whether the agent is told how many environments it has."""

    def words(k: int) -> object:
        return prompts.build(EpisodeView(goal="", guide=WorldGuide(role=""), initial=Observation(text=""), num_envs=k))

    return words(num_envs) != words(num_envs + 1)


def differing(one: Conditions, other: Conditions) -> dict[str, tuple[Any, Any]]:
    """The fields in which two conditions differ, with both values; what one of them did not record is left out."""
    a, b = one.model_dump(mode="json"), other.model_dump(mode="json")
    return {field: (a[field], b[field]) for field in WORDS if a[field] != b[field] and not _unknown(field, a, b)}


def _unknown(field: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return field in ("temperature", "limit_stated") and None in (a[field], b[field])
