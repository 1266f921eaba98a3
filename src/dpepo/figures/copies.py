"""Success and tokens against the number of copies, beside the best of as many tries of the sequential agent (pass@K)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpepo.figures.estimates import Estimate, intervals_text, mean, n_text, rate
from dpepo.figures.facts import EpisodeFacts
from dpepo.figures.options import Options
from dpepo.figures.picture import Axis, Line, Lines, NothingToShow, Picture, Point, caption_of
from dpepo.figures.sources import Material, Played
from dpepo.runs.stats import pass_at_k

_MAX_SETS = 2  # each brings two lines


@dataclass(frozen=True, kw_only=True)
class CopySet:
    """One agent, or one recipe, at several numbers of copies."""

    name: str
    by_copies: dict[int, list[Played]]  # K to repeats


def make(material: Material, options: Options) -> Picture:
    """Success on the left, tokens on the right where they were counted.

    Raises:
        NothingToShow: Nothing was played with two different numbers of copies.
    """
    tasks = next(iter(material.in_way(options.way).values()))[0].tasks
    found = copy_sets(material, tasks=tasks)
    most = max(len(one.by_copies) for one in found)
    chosen = [one for one in found if len(one.by_copies) == most][:_MAX_SETS]
    success, tokens = [], []
    parallel_all: list[Estimate | None] = []
    single_all: list[Estimate | None] = []
    for number, one in enumerate(chosen):
        parallel = {copies: _success(repeats) for copies, repeats in one.by_copies.items()}
        tries = _pass_at(one)
        parallel_all += parallel.values()
        single_all += tries.values() if len(tries) > 1 else ()
        success += [
            _line(f"{one.name}: K copies", parallel, number),
            *([_line(f"{one.name}: one copy, best of K tries", tries, number, dashed=True)] if len(tries) > 1 else []),
        ]
        spent = {copies: _tokens(repeats) for copies, repeats in one.by_copies.items()}
        single = spent.get(1)
        tokens.append(_line("", spent, number))
        if single is not None and len(tries) > 1:
            tokens.append(_line("", {copies: _times(single, copies) for copies in tries}, number, dashed=True))
    ticks = tuple(sorted({float(point.x) for line in success for point in line.points}))
    copies = Axis(label="K (copies, or tries)", log=2, ticks=ticks)
    panels = [Lines(x=copies, y=Axis(label="tasks solved", percent=True, from_zero=True), lines=tuple(success))]
    counted = any(point.y for line in tokens for point in line.points)
    if counted:
        label = "tokens (prompts and replies)"
        panels.append(Lines(x=copies, y=Axis(label=label, from_zero=True), lines=tuple(tokens)))
    left = dict.fromkeys(one.name for one in found if one not in chosen)
    return Picture(
        kind="copies",
        title="Success and tokens against the number of copies" if counted else "Success against the number of copies",
        caption=caption_of(
            f"Played: {tasks}.",
            n_text(parallel_all),
            "Dashed: K separate episodes of one copy, the best of which counts (pass@K, mean over tasks); tokens of them all."
            if single_all
            else "",
            intervals_text([*parallel_all, *single_all]),
            "" if counted else "No tokens were counted in these runs.",
            material.source,
        ),
        panels=tuple(panels),
        notes=(f"Not shown: {'; '.join(left)}. Choose with --only.",) if left else (),
    )


def copy_sets(material: Material, *, tasks: str) -> list[CopySet]:
    """Recipes that were trained at several K and played as trained, and agents that were played at several K.

    Args:
        material: What was found.
        tasks: Only what was played on these tasks at this temperature.

    Raises:
        NothingToShow: There are none.
    """
    trained: dict[str, dict[int, list[Played]]] = {}
    played: dict[tuple[str, str], dict[int, list[Played]]] = {}
    for one in material.played:
        if one.tasks == tasks and one.facts:
            if one.as_trained:
                trained.setdefault(one.run.family, {}).setdefault(one.num_envs, []).append(one)
            played.setdefault((one.policy, one.run.family), {}).setdefault(one.num_envs, []).append(one)
    sets = [
        CopySet(name=_name(by_copies), by_copies=dict(sorted(by_copies.items())))
        for by_copies in (*trained.values(), *played.values())
        if len(by_copies) > 1
    ]
    if not sets:
        raise NothingToShow(
            f"{', '.join(material.words)}: nothing was played with two numbers of copies. Evaluate with another eval.num_envs"
        )
    return sets


def _name(by_copies: dict[int, list[Played]]) -> str:
    """What the methods' names have in common, without what they say about K."""
    names = sorted({re.sub(r"[, ]*\bK = \d+", "", repeats[0].method).replace(" ()", "") for repeats in by_copies.values()})
    policy = by_copies[min(by_copies)][0].policy
    shared = [words[0] for words in zip(*(name.split() for name in names), strict=False) if len(set(words)) == 1]
    return " ".join(shared).rstrip(",") or Path(policy).name


def _success(repeats: Sequence[Played]) -> Estimate | None:
    return rate([[facts.success for facts in one.facts] for one in repeats])


def _tokens(repeats: Sequence[Played]) -> Estimate | None:
    return mean([[float(facts.prompt_tokens + facts.reply_tokens) for facts in one.facts] for one in repeats])


def _times(single: Estimate, copies: int) -> Estimate:
    low, high = (None if bound is None else copies * bound for bound in (single.low, single.high))
    return Estimate(copies * single.value, low, high, single.n, tuple(copies * value for value in single.each))


def _pass_at(one: CopySet) -> dict[int, Estimate | None]:
    """K to pass@K of the single copy, as far as every task was tried often enough."""
    repeats = one.by_copies.get(1, [])
    most = min((_tries(played.facts) for played in repeats), default=0)
    wanted = sorted({*one.by_copies, *(2**power for power in range(most.bit_length()))})
    return {k: mean([_chances(played.facts, k) for played in repeats], share=True) for k in wanted if k <= most}


def _tries(facts: Sequence[EpisodeFacts]) -> int:
    return min(Counter(one.task for one in facts).values())


def _chances(facts: Sequence[EpisodeFacts], k: int) -> list[float]:
    """pass@k of each task."""
    tries = Counter(one.task for one in facts)
    won = Counter(one.task for one in facts if one.success)
    return [pass_at_k(n, won[task], k) for task, n in tries.items()]


def _line(name: str, values: dict[int, Estimate | None], colour: int, *, dashed: bool = False) -> Line:
    points = tuple(Point(copies, one.value, one.low, one.high) for copies, one in sorted(values.items()) if one is not None)
    return Line(name, points, colour=colour, dashed=dashed, whiskers=True)
