"""What an evaluation says: counts, rates with 95 % intervals, and means over episodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from dpepo.evaluation.conditions import Conditions
from dpepo.runs.stats import pass_at_k, wilson_interval
from dpepo.types import Episode, Record


class TypeResult(Record):
    """Success on one task type."""

    successes: int
    n: int  # finished episodes
    lost: int  # episodes lost to faults
    interval: tuple[float, float]  # 95 % Wilson interval
    turns: float  # mean per finished episode

    @property
    def success_rate(self) -> float | None:
        """In [0, 1]; None where all episodes were lost."""
        return self.successes / self.n if self.n else None


class EvalResult(Record):
    """Result of an evaluation. Lost episodes count in `played`, `lost` and `success_rate_played` and nowhere else."""

    conditions: Conditions | None = None  # how it was played; None where only episodes are known
    tasks: int  # different tasks
    successes: int
    played: int  # all episodes: n + lost
    n: int  # finished episodes
    lost: int  # episodes without an outcome, because environments or the policy broke
    success_rate: float  # successes / n, in [0, 1]; 0 when n is 0
    success_rate_played: float  # successes / played, in [0, 1]: as if every lost episode had failed; 0 when nothing was played
    interval: tuple[float, float]  # 95 % Wilson interval of the success rate
    by_type: dict[str, TypeResult]
    pass_at: dict[int, float]  # k to chance that one of k episodes of a task succeeds, mean over tasks with k finished episodes
    score: float  # the world's own score of an episode's best copy at its end, negative ones as they are; mean
    score_cut: float  # the same with negative scores as 0
    turns: float  # mean per episode
    actions_per_turn: float  # over all turns, in all copies together
    actions: float  # mean per episode
    reply_tokens: float  # mean per turn, by the server's count where there is one; 0 for agents without tokens
    prompt_tokens: float  # mean per turn
    reply_tokens_per_episode: float
    prompt_tokens_per_episode: float
    seconds_per_episode: float  # of policy and environments; shared batches divided evenly
    env_seconds_per_episode: float  # of these, in environments
    stops: dict[str, int]  # reason to stop to number of finished episodes
    problems: dict[str, int]  # kind of reply problem to number of turns that had it

    def __str__(self) -> str:
        """The result for a person, both denominators included, a line per task type where there are several."""
        low, high = self.interval
        lines = [] if self.conditions is None else [f"{self.conditions}; {self.tasks} tasks"]
        lines.append(
            f"success {self.success_rate:.3f}, 95 % interval {low:.3f} to {high:.3f} "
            f"({self.successes} of {self.n} finished episodes; {self.lost} lost of {self.played} played)"
        )
        if self.lost:
            lines.append(f"success {self.success_rate_played:.3f} if every lost episode had failed")
        if len(self.by_type) > 1:
            lines += [f"  {name}: {_type_text(one)}" for name, one in self.by_type.items()]
        lines += [f"pass@{k} {value:.3f}" for k, value in self.pass_at.items() if k > 1]
        lines.append(
            f"turns {self.turns:.1f}, actions a turn {self.actions_per_turn:.2f}, reply tokens {self.reply_tokens:.0f} "
            f"(an episode: {self.reply_tokens_per_episode:.0f}, prompts {self.prompt_tokens_per_episode:.0f}), "
            f"seconds an episode {self.seconds_per_episode:.2f} (environments {self.env_seconds_per_episode:.2f})"
        )
        if {self.score, self.score_cut} not in ({0.0}, {self.success_rate}):  # then the score says more than success
            lines.append(f"score {self.score:.2f}, with negative ones as 0: {self.score_cut:.2f}")
        lines.append("ended by: " + ", ".join(f"{reason} {count}" for reason, count in self.stops.items()))
        if self.problems:
            lines.append("replies with problems: " + ", ".join(f"{kind} {count}" for kind, count in self.problems.items()))
        return "\n".join(lines)


def _type_text(one: TypeResult) -> str:
    if one.success_rate is None:
        return f"all {one.lost} lost"
    low, high = one.interval
    lost = f", {one.lost} lost" if one.lost else ""
    return f"{one.success_rate:.3f} [{low:.3f}, {high:.3f}], {one.successes} of {one.n}{lost}, turns {one.turns:.1f}"


def summarise(episodes: Sequence[Episode], *, conditions: Conditions | None = None) -> EvalResult:
    """Count an evaluation's episodes.

    Args:
        episodes: Any number of them, any mix of tasks.
        conditions: How they were played.
    """
    finished = [episode for episode in episodes if episode.outcome is not None]
    successes = sum(episode.success for episode in finished)
    turns = [turn for episode in finished for turn in episode.turns]
    interval = wilson_interval(successes, len(finished))
    scores = [best_score(episode) for episode in finished]
    return EvalResult(
        conditions=conditions,
        tasks=len({episode.task.id for episode in episodes}),
        successes=successes,
        played=len(episodes),
        n=len(finished),
        lost=len(episodes) - len(finished),
        success_rate=successes / len(finished) if finished else 0.0,
        success_rate_played=successes / len(episodes) if episodes else 0.0,
        interval=(interval.low, interval.high),
        by_type=_by_type(episodes),
        pass_at=_pass_at(finished),
        score=_mean(scores),
        score_cut=_mean([max(score, 0.0) for score in scores]),
        turns=_mean([len(episode.turns) for episode in finished]),
        actions_per_turn=_mean([len(turn.steps) for turn in turns]),
        actions=_mean([episode.num_actions for episode in finished]),
        reply_tokens=_mean([turn.completion.reply_length for turn in turns]),
        prompt_tokens=_mean([turn.completion.prompt_length for turn in turns]),
        reply_tokens_per_episode=_mean([sum(turn.completion.reply_length for turn in e.turns) for e in finished]),
        prompt_tokens_per_episode=_mean([sum(turn.completion.prompt_length for turn in e.turns) for e in finished]),
        seconds_per_episode=_mean([sum(turn.seconds for turn in episode.turns) for episode in finished]),
        env_seconds_per_episode=_mean([sum(turn.env_seconds for turn in episode.turns) for episode in finished]),
        stops=dict(sorted(Counter(episode.stop.value for episode in finished).items())),
        problems=dict(sorted(Counter(problem.value for turn in turns for problem in turn.reply.problems).items())),
    )


def best_score(episode: Episode) -> float:
    """The world's score where the copy that stands best was left; of the start where nothing was done."""
    last = {step.env_id: step.observation.score for turn in episode.turns for step in turn.steps}
    return max(last.values(), default=episode.initial.score)


def _by_type(episodes: Sequence[Episode]) -> dict[str, TypeResult]:
    results = {}
    for name in sorted({episode.task.name for episode in episodes}):
        played = [episode for episode in episodes if episode.task.name == name]
        finished = [episode for episode in played if episode.outcome is not None]
        successes = sum(episode.success for episode in finished)
        interval = wilson_interval(successes, len(finished))
        results[name] = TypeResult(
            successes=successes,
            n=len(finished),
            lost=len(played) - len(finished),
            interval=(interval.low, interval.high),
            turns=_mean([len(episode.turns) for episode in finished]),
        )
    return results


def _pass_at(finished: Sequence[Episode]) -> dict[int, float]:
    """pass@k over the tasks that have at least k finished episodes; every task has, unless some were lost."""
    tries = Counter(episode.task.id for episode in finished)
    won = Counter(episode.task.id for episode in finished if episode.success)
    most = max(tries.values(), default=0)
    return {k: fmean(pass_at_k(n, won[task], k) for task, n in tries.items() if n >= k) for k in range(1, most + 1)}


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
