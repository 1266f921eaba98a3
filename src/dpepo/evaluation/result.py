"""What an evaluation says: counts, rates with 95 % intervals, and means over episodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from dpepo.runs.stats import pass_at_k, wilson_interval
from dpepo.types import Episode, Record


class TypeResult(Record):
    """Success on one task type."""

    successes: int
    n: int


class EvalResult(Record):
    """Result of an evaluation. Lost episodes count in `played`, `lost` and `success_rate_played` and nowhere else."""

    successes: int
    played: int  # all episodes: n + lost
    n: int  # finished episodes
    lost: int  # episodes without an outcome, because environments or the policy broke
    success_rate: float  # successes / n, in [0, 1]; 0 when n is 0
    success_rate_played: float  # successes / played, in [0, 1]: as if every lost episode had failed; 0 when nothing was played
    interval: tuple[float, float]  # 95 % Wilson interval of the success rate
    by_type: dict[str, TypeResult]
    pass_at: dict[int, float]  # k to chance that one of k episodes of a task succeeds, mean over tasks with k finished episodes
    turns: float  # mean per episode
    actions_per_turn: float  # over all turns
    reply_tokens: float  # mean per turn, by the server's count where there is one; 0 for agents without tokens
    problems: dict[str, int]  # kind of reply problem to number of turns that had it

    def __str__(self) -> str:
        """The result for a person, both denominators included, a line per task type where there are several."""
        low, high = self.interval
        lines = [
            f"success {self.success_rate:.3f}, 95 % interval {low:.3f} to {high:.3f} "
            f"({self.successes} of {self.n} finished episodes; {self.lost} lost of {self.played} played)"
        ]
        if len(self.by_type) > 1:
            lines += [f"  {name}: {one.successes} of {one.n}" for name, one in self.by_type.items()]
        lines += [f"pass@{k} {value:.3f}" for k, value in self.pass_at.items() if k > 1]
        lines.append(
            f"turns {self.turns:.1f}, actions a turn {self.actions_per_turn:.2f}, reply tokens {self.reply_tokens:.0f}"
        )
        if self.problems:
            lines.append("replies with problems: " + ", ".join(f"{kind} {count}" for kind, count in self.problems.items()))
        return "\n".join(lines)


def summarise(episodes: Sequence[Episode]) -> EvalResult:
    """Count an evaluation's episodes.

    Args:
        episodes: Any number of them, any mix of tasks.
    """
    finished = [episode for episode in episodes if episode.outcome is not None]
    successes = sum(episode.success for episode in finished)
    turns = [turn for episode in finished for turn in episode.turns]
    names = Counter(episode.task.name for episode in finished)
    won = Counter(episode.task.name for episode in finished if episode.success)
    interval = wilson_interval(successes, len(finished))
    return EvalResult(
        successes=successes,
        played=len(episodes),
        n=len(finished),
        lost=len(episodes) - len(finished),
        success_rate=successes / len(finished) if finished else 0.0,
        success_rate_played=successes / len(episodes) if episodes else 0.0,
        interval=(interval.low, interval.high),
        by_type={name: TypeResult(successes=won[name], n=names[name]) for name in sorted(names)},
        pass_at=_pass_at(finished),
        turns=_mean([len(episode.turns) for episode in finished]),
        actions_per_turn=_mean([len(turn.steps) for turn in turns]),
        reply_tokens=_mean([turn.completion.reply_length for turn in turns]),
        problems=dict(sorted(Counter(problem.value for turn in turns for problem in turn.reply.problems).items())),
    )


def _pass_at(finished: Sequence[Episode]) -> dict[int, float]:
    """pass@k over the tasks that have at least k finished episodes; every task has, unless some were lost."""
    tries = Counter(episode.task.id for episode in finished)
    won = Counter(episode.task.id for episode in finished if episode.success)
    most = max(tries.values(), default=0)
    return {k: fmean(pass_at_k(n, won[task], k) for task, n in tries.items() if n >= k) for k in range(1, most + 1)}


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
