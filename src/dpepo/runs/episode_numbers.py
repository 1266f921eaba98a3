"""Numbers about episodes that training, validation and evaluation share, by the field's names (docs/metrics.md). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pstdev

from dpepo.envs import EnvClock
from dpepo.types import LOST, Episode, FinishReason, ReplyProblem, StopReason, Turn


def success_numbers(prefix: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """``PREFIX/success_rate``, the same per task type where there are several, ``PREFIX/n`` and ``PREFIX/lost``.

    Lost episodes count in ``lost`` and nowhere else; where all were lost there is no rate, because nothing was measured.
    """
    kept = finished(episodes)
    names = sorted({episode.task.name for episode in kept})
    types = {f"/{name}": [episode for episode in kept if episode.task.name == name] for name in names if len(names) > 1}
    rates = {
        f"{prefix}/success_rate{suffix}": fmean(float(episode.success) for episode in some)
        for suffix, some in {"": kept, **types}.items()
        if some
    }
    return {**rates, f"{prefix}/n": float(len(kept)), f"{prefix}/lost": float(len(episodes) - len(kept))}


def play_numbers(prefix: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """``PREFIX/turns`` per episode, ``PREFIX/actions_per_turn`` and its deviation over turns; lost episodes left out."""
    kept = finished(episodes)
    actions = [len(turn.steps) for episode in kept for turn in episode.turns]
    return {
        f"{prefix}/turns": mean([len(episode.turns) for episode in kept]),
        f"{prefix}/actions_per_turn": mean(actions),
        f"{prefix}/actions_per_turn_std": pstdev(actions) if actions else 0.0,
    }


def env_numbers(clock: EnvClock) -> dict[str, float]:
    """What environments took: ``timing_s/env_*`` in seconds of worker processes, and ``env/*`` as counts.

    Args:
        clock: Of the time that is meant, e.g. one step (`EnvClock.since`).
    """
    return {
        "timing_s/env_start": clock.start_s,
        "timing_s/env_reset": clock.reset_s,
        "timing_s/env_step": clock.step_s,
        "timing_s/env_restore": clock.restore_s,
        "env/resets": float(clock.resets),
        "env/steps": float(clock.steps),
        "env/restarts": float(clock.restarts),
    }


def finished(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes that were not lost to a fault."""
    return [episode for episode in episodes if episode.outcome is not None]


def actions_over_turns(episodes: Sequence[Episode]) -> dict[str, float]:
    """``actions_at_turn/T``: mean actions of the T-th turn (from 1), over the episodes that had one."""
    latest = max((len(episode.turns) for episode in episodes), default=0)
    return {
        f"actions_at_turn/{t + 1}": mean([len(episode.turns[t].steps) for episode in episodes if len(episode.turns) > t])
        for t in range(latest)
    }


def stop_numbers(kept: Sequence[Episode]) -> dict[str, float]:
    """``stop/REASON``: share of the episodes that ended so, for every reason but faults; they sum to 1."""
    counts = Counter(episode.stop for episode in kept)
    return {f"stop/{reason.value}": counts[reason] / max(len(kept), 1) for reason in StopReason if reason not in LOST}


def length_numbers(turns: Sequence[Turn]) -> dict[str, float]:
    """``response_length/*`` and ``prompt_length/*`` in tokens, over turns.

    ``clip_ratio`` is the share of replies cut at ``sampling.max_new_tokens``, and of prompts that left no room for a reply.
    """
    return {
        **_spread("response_length", turns, [turn.completion.reply_length for turn in turns], cut=FinishReason.LENGTH),
        **_spread("prompt_length", turns, [turn.completion.prompt_length for turn in turns], cut=FinishReason.CONTEXT_FULL),
    }


def problem_numbers(turns: Sequence[Turn]) -> dict[str, float]:
    """``reply_problem/KIND``: share of turns whose reply had it, for every kind there is."""
    counts = Counter(problem for turn in turns for problem in turn.reply.problems)
    return {f"reply_problem/{kind.value}": counts[kind] / max(len(turns), 1) for kind in ReplyProblem}


def mean(values: Sequence[float]) -> float:
    """Their mean; 0 where there are none."""
    return fmean(values) if values else 0.0


def _spread(name: str, turns: Sequence[Turn], lengths: Sequence[int], *, cut: FinishReason) -> dict[str, float]:
    return {
        f"{name}/mean": mean(lengths),
        f"{name}/max": float(max(lengths, default=0)),
        f"{name}/min": float(min(lengths, default=0)),
        f"{name}/clip_ratio": mean([float(turn.completion.finish is cut) for turn in turns]),
    }
