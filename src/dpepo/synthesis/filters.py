"""Which played episodes become demonstrations, and why the others do not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dpepo.config import SynthConfig
from dpepo.types import Episode, Turn

CountTokens = Callable[[Turn], int]


class Sifted(NamedTuple):
    """An episode and the reason why it is no demonstration; an empty reason keeps it."""

    episode: Episode
    reason: str


def sift(episodes: Iterable[Episode], *, rules: SynthConfig, count_tokens: CountTokens | None = None) -> list[Sifted]:
    """Judge episodes in order; of several alike the first is kept.

    Args:
        episodes: Played episodes, in an order that does not depend on when they finished.
        rules: Section ``synth``.
        count_tokens: Tokens of a turn's prompt and reply; needed for ``rules.max_length``.
    """
    seen: set[tuple[object, ...]] = set()
    sifted = []
    for episode in episodes:
        reason = drop_reason(episode, rules=rules, count_tokens=count_tokens)
        if not reason and rules.drop_duplicates and _what_was_done(episode) in seen:
            reason = "duplicate"
        if not reason:
            seen.add(_what_was_done(episode))
        sifted.append(Sifted(episode, reason))
    return sifted


def drop_reason(episode: Episode, *, rules: SynthConfig, count_tokens: CountTokens | None = None) -> str:
    """Why an episode is no demonstration, in one word; empty when it is one.

    The first that holds: ``lost`` (environment or teacher broke), ``empty`` (no turn), ``malformed`` (a reply with a problem),
    ``failed`` (no success, unless ``synth.keep`` is all), ``invalid`` (more actions that the world did not understand than
    ``synth.max_invalid``), ``long`` (more turns than ``synth.max_episode_turns``, or a turn with more tokens than
    ``synth.max_length``), ``sequential`` (with K above 1, too few turns that act in several environments).
    """
    if episode.outcome is None:
        return "lost"
    if not episode.turns:
        return "empty"
    if any(turn.reply.problems for turn in episode.turns):
        return "malformed"
    if not episode.success and rules.keep != "all":
        return "failed"
    num_invalid = sum(not step.observation.valid for turn in episode.turns for step in turn.steps)
    if rules.max_invalid is not None and num_invalid > rules.max_invalid:
        return "invalid"
    if 0 < rules.max_episode_turns < len(episode.turns):
        return "long"
    if rules.max_length and count_tokens and max(map(count_tokens, episode.turns)) > rules.max_length:
        return "long"
    if episode.num_envs > 1 and parallel_share([episode]) < rules.min_parallel:
        return "sequential"
    return ""


def parallel_share(episodes: Sequence[Episode]) -> float:
    """Share of turns that act in at least two environments, in [0, 1]; 0 without turns."""
    turns = [turn for episode in episodes for turn in episode.turns]
    return sum(len(turn.steps) > 1 for turn in turns) / len(turns) if turns else 0.0


def _what_was_done(episode: Episode) -> tuple[object, ...]:
    """Equal for episodes that teach the same: task, K, and the words of every reply."""
    return (episode.task.id, episode.num_envs, *(turn.completion.text for turn in episode.turns))
