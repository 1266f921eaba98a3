"""Two evaluations compared on the tasks that both have, task by task: ``dpepo compare A B``.

The same task is as hard for both, so comparing pairs says more than comparing two rates. One episode per task: McNemar's exact
test and Newcombe's interval of the difference. Several: a sign-flip test and a bootstrap over the tasks' success rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from dpepo.errors import RequestError
from dpepo.evaluation.conditions import TASK_FIELDS, WORDS, Conditions, differing
from dpepo.evaluation.measured import Measured, read_measured
from dpepo.evaluation.result import EvalResult, summarise
from dpepo.runs.stats import bootstrap_mean_interval, mcnemar_exact, newcombe_paired_interval, sign_flip_test
from dpepo.types import Episode, Record

Rates = Mapping[str, float]  # task id to success rate


class Side(Record):
    """One of the two."""

    name: str  # folder, and stage where there are several
    policy: str
    conditions: Conditions
    finished: bool
    whole: EvalResult  # of all its episodes
    shared: EvalResult  # of the tasks that count
    only: int  # tasks with a finished episode that the other has not


class PairedTest(Record):
    """What the pairs say."""

    difference: float  # B - A, mean over tasks, in [-1, 1]
    interval: tuple[float, float]  # 95 %
    interval_by: str
    p_value: float  # two-sided
    p_by: str
    a_better: int  # tasks at which A's success rate is higher
    b_better: int
    equal: int


class Comparison(Record):
    """Two evaluations, side by side."""

    a: Side
    b: Side
    tasks: int  # that both have
    test: PairedTest
    by_type: dict[str, tuple[int, float, float]]  # task type to tasks, A's rate and B's rate
    warnings: tuple[str, ...]  # what stands in the way of reading the difference as one between policies
    notes: tuple[str, ...]  # damaged lines, unfinished runs

    def __str__(self) -> str:
        """The comparison for a person."""
        a, b, test = self.a, self.b, self.test
        lines = [f"A  {a.name}: {a.policy}", f"   {a.conditions}", f"B  {b.name}: {b.policy}", f"   {b.conditions}", ""]
        lines += [*(f"Attention: {warning}" for warning in self.warnings), *self.notes]
        lines += [""] if self.warnings or self.notes else []
        lines.append(
            f"{self.tasks} tasks in both; {a.only} only in A, {b.only} only in B; "
            f"lost to faults: {a.whole.lost} of {a.whole.played} episodes of A, {b.whole.lost} of {b.whole.played} of B"
        )
        lines += ["", *_columns(self)]
        low, high = test.interval
        lines += [
            "",
            f"B - A: {test.difference:+.3f}, 95 % interval {low:+.3f} to {high:+.3f} ({test.interval_by})",
            f"p = {test.p_value:.4g} ({test.p_by})",
            f"tasks: A better {test.a_better}, B better {test.b_better}, equal {test.equal}",
        ]
        return "\n".join(lines)


def compare_runs(a: str, b: str, *, seed: int = 0) -> Comparison:
    """Compare two evaluations.

    Args:
        a: A run folder with one evaluation, or ``RUN#STAGE``.
        b: The other one; a positive difference means that this one succeeds more often.
        seed: Of the resampling, where tasks were played several times.

    Raises:
        RequestError: One of them cannot be read, or they have no task in common.
    """
    notes: list[str] = []
    one, episodes_a = read_measured(a, note=notes.append)
    other, episodes_b = read_measured(b, note=notes.append)
    rates_a, rates_b = task_rates(episodes_a), task_rates(episodes_b)
    shared = sorted(rates_a.keys() & rates_b.keys())
    if not shared:
        raise RequestError(
            f"{one.name} ({len(rates_a)} tasks of {one.conditions.world} {one.conditions.split}) and {other.name} "
            f"({len(rates_b)} tasks of {other.conditions.world} {other.conditions.split}) have no finished task in common"
        )
    return Comparison(
        a=_side(one, episodes_a, shared, rates_a),
        b=_side(other, episodes_b, shared, rates_b),
        tasks=len(shared),
        test=paired_test(
            rates_a, rates_b, shared, single=_single(episodes_a, shared) and _single(episodes_b, shared), seed=seed
        ),
        by_type=_by_type(episodes_a, rates_a, rates_b, shared),
        warnings=tuple([*_differences(one, other), *_starts(episodes_a, episodes_b, one, other)]),
        notes=tuple(notes),
    )


def task_rates(episodes: Sequence[Episode]) -> dict[str, float]:
    """Success rate of every task with a finished episode."""
    outcomes: dict[str, list[float]] = {}
    for episode in episodes:
        if episode.outcome is not None:
            outcomes.setdefault(episode.task.id, []).append(float(episode.success))
    return {task: fmean(values) for task, values in outcomes.items()}


def paired_test(a: Rates, b: Rates, shared: Sequence[str], *, single: bool, seed: int = 0) -> PairedTest:
    """The difference on tasks that both have, with its interval and a test.

    Args:
        a: A's success rate per task.
        b: B's.
        shared: Ids of the tasks that both have, at least one.
        single: Whether each rate is of one episode, so that tasks are solved or not.
        seed: Of the resampling otherwise.
    """
    differences = [b[task] - a[task] for task in shared]
    better_a, better_b = sum(d < 0 for d in differences), sum(d > 0 for d in differences)
    if single:
        both = sum(a[task] + b[task] == 2 for task in shared)
        neither = len(shared) - both - better_a - better_b
        interval = newcombe_paired_interval(both, better_a, better_b, neither)
        p_value, p_by, interval_by = mcnemar_exact(better_a, better_b), "McNemar's exact test", "Newcombe, paired"
    else:
        interval, interval_by = bootstrap_mean_interval(differences, seed=seed), "paired bootstrap over tasks"
        p_value, p_by = sign_flip_test(differences, seed=seed), "sign-flip test over tasks"
    return PairedTest(
        difference=fmean(differences),
        interval=(interval.low, interval.high),
        interval_by=interval_by,
        p_value=p_value,
        p_by=p_by,
        a_better=better_a,
        b_better=better_b,
        equal=len(shared) - better_a - better_b,
    )


def _single(episodes: Sequence[Episode], shared: Sequence[str]) -> bool:
    counts = Counter(episode.task.id for episode in episodes if episode.outcome is not None)
    return all(counts[task] == 1 for task in shared)


def _side(measured: Measured, episodes: Sequence[Episode], shared: Sequence[str], rates: Rates) -> Side:
    kept = set(shared)
    return Side(
        name=measured.name,
        policy=measured.policy,
        conditions=measured.conditions,
        finished=measured.finished,
        whole=measured.result,
        shared=summarise([episode for episode in episodes if episode.task.id in kept]),
        only=len(rates.keys() - kept),
    )


def _by_type(episodes: Sequence[Episode], a: Rates, b: Rates, shared: Sequence[str]) -> dict[str, tuple[int, float, float]]:
    names = {episode.task.id: episode.task.name for episode in episodes}
    of_type: dict[str, list[str]] = {}
    for task in shared:
        of_type.setdefault(names[task], []).append(task)
    return {
        name: (len(tasks), fmean(a[task] for task in tasks), fmean(b[task] for task in tasks))
        for name, tasks in sorted(of_type.items())
    }


def _differences(a: Measured, b: Measured) -> list[str]:
    """Everything named in which the two were not played alike."""
    differs = differing(a.conditions, b.conditions)
    how = [f"{WORDS[field]}: {one} and {other}" for field, (one, other) in differs.items() if field not in TASK_FIELDS]
    what = [f"{WORDS[field]}: {one} and {other}" for field, (one, other) in differs.items() if field in TASK_FIELDS]
    unknown = a.conditions.temperature is None or b.conditions.temperature is None
    return [
        *([f"not played alike, so the difference is not the policies' alone: {'; '.join(how)}"] if how else []),
        *([f"taken from other lists: {'; '.join(what)}"] if what else []),
        *(["the temperature of one of them is not recorded"] if unknown else []),
    ]


def _starts(a: Sequence[Episode], b: Sequence[Episode], one: Measured, other: Measured) -> list[str]:
    """Tasks that begin otherwise, and prompts in other words although the settings are equal."""
    first_b = {episode.task.id: episode for episode in b if episode.turns}
    played = sorted((episode for episode in a if episode.turns), key=lambda episode: episode.task.id)
    pairs = {e.task.id: (e, first_b[e.task.id]) for e in played if e.task.id in first_b}
    begins = [task for task, (x, y) in pairs.items() if (x.goal, x.initial.text) != (y.goal, y.initial.text)]
    if begins:
        return [f"{len(begins)} tasks begin otherwise (other versions or options of the world?), e.g. {begins[0]}"]
    if {"form", "templates", "num_envs", "options"} & differing(one.conditions, other.conditions).keys():
        return []  # then other words are no surprise, and named already
    words = [task for task, (x, y) in pairs.items() if x.turns[0].prompt != y.turns[0].prompt]
    return [f"the first prompts of {len(words)} tasks are worded differently, e.g. of {words[0]}"] if words else []


_LINES: dict[str, Callable[[EvalResult], str]] = {
    "success": lambda r: f"{r.success_rate:.3f} ({r.successes} of {r.n})",
    "turns an episode": lambda r: f"{r.turns:.2f}",
    "actions a turn": lambda r: f"{r.actions_per_turn:.2f}",
    "reply tokens an episode": lambda r: f"{r.reply_tokens_per_episode:.0f}",
    "prompt tokens an episode": lambda r: f"{r.prompt_tokens_per_episode:.0f}",
    "seconds an episode": lambda r: f"{r.seconds_per_episode:.2f}",
    "lost episodes": lambda r: str(r.lost),
}


def _columns(comparison: Comparison) -> list[str]:
    """Both sides' numbers on the shared tasks, in columns."""
    rows = [("on these tasks", "A", "B")]
    rows += [(name, show(comparison.a.shared), show(comparison.b.shared)) for name, show in _LINES.items()]
    if len(comparison.by_type) > 1:
        rows += [(f"  {name} ({n})", f"{a:.3f}", f"{b:.3f}") for name, (n, a, b) in comparison.by_type.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"{name.ljust(first)}  {one.ljust(second)}  {other}".rstrip() for name, one, other in rows]
