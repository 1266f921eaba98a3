"""The diversity reward of one turn: repeated actions and repeated transitions, in depth and in width.

Eq. 3-5 of arXiv 2604.24320 and the variants of its public code (docs/algorithms.md says where they differ). Pure: called
turn by turn by `dpepo.rewards.scoring`; its value weighs the advantage in `dpepo.algorithms.dpepo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from dpepo.actions import action_key
from dpepo.config import Scale, Transition, WidthCount
from dpepo.errors import ConfigError, did_you_mean
from dpepo.types import StepReward

_E = TypeVar("_E", bound=StrEnum)


class _Pair(NamedTuple):
    """A transition p: what was there before, and what was done."""

    before: str
    action: str


class _Lane(NamedTuple):
    """One addressed environment, with everything compared in its normalised form."""

    action: str
    earlier: tuple[str, ...]
    pairs_before: Counter[_Pair]
    pair_now: _Pair | None  # None: no state before is known, so the action makes no transition


def step_reward(
    actions: Mapping[int, str],
    *,
    history: Mapping[int, Sequence[str]],
    scale: str = Scale.REFERENCE,
    transition: str | None = Transition.PREVIOUS_ACTION,
    width_count: str | None = None,
    alpha: float = 0.8,
    gamma: float = 0.95,
    beta: float = 0.95,
    omega: float = 0.95,
    num_invalid: int | None = None,
    invalid: float = 1.0,
    free_actions: Collection[str] = (),
    states: Mapping[int, Sequence[str]] | None = None,
    action: bool = True,
    transitions: bool = True,
    no_action: float = 0.5,
) -> StepReward:
    """Diversity reward of one turn, with the counts behind it; never NaN, also on an empty turn.

    Args:
        actions: Addressed environment (1..K) to its action this turn. Empty actions count as none.
        history: Environment to its earlier actions, oldest first; a missing environment has none. Nothing is changed.
        scale: ``equations`` (eq. 3-5, in (0, 2]), ``reference`` (the authors' code, in (0, 1], rounded to 4 places) or
            ``reference_invalid_only`` (what their ScienceWorld loop ends up with, in (0, 1]).
        transition: The state before an action: ``observation``, ``previous_action`` or ``state``. None: the scale's own.
        width_count: ``environments_before`` or ``occurrences_incl_now``. None: the scale's own.
        alpha: Base of C_depth, in (0, 1].
        gamma: Base of M_depth, in (0, 1].
        beta: Base of M_width, in (0, 1].
        omega: Base of C_width, in (0, 1].
        num_invalid: Actions of this turn the world did not understand; None leaves that term out.
        invalid: Base of num_invalid, in (0, 1].
        free_actions: Actions left out of C_width (ALFWorld: ``look``).
        states: Environment to the states before each of its earlier actions plus the present one (one longer than its
            history). Needed unless the transition is ``previous_action``.
        action: Whether the Diverse Action Reward is on.
        transitions: Whether the Diverse State Transition Reward is on. With both off the value is 1.
        no_action: Value when no environment got an action.

    Raises:
        ConfigError: An unknown scale, transition or width count.
        ValueError: `states` is missing or does not fit `history`.

    >>> step_reward({1: "go to desk 1", 2: "go to desk 1", 3: "go to desk 1"}, history={}, omega=0.8).value
    0.82
    """
    chosen = _member(Scale, scale, "scale")
    before = default_transition(chosen) if transition is None else _member(Transition, transition, "transition")
    count = default_width_count(chosen) if width_count is None else _member(WidthCount, width_count, "width_count")
    lanes = _lanes(actions, history=history, states=states, transition=before)
    counts = _counts(lanes, scale=chosen, count=count, free_actions=free_actions, num_invalid=num_invalid)
    if not action and not transitions:
        return counts
    if not lanes:
        return counts.model_copy(update={"value": float(no_action)})
    parts = _parts(counts, alpha=alpha, gamma=gamma, beta=beta, omega=omega, invalid=invalid)
    return counts.model_copy(update={"value": _combine(parts, chosen, action=action, transitions=transitions)})


def _counts(
    lanes: Mapping[int, _Lane], *, scale: Scale, count: WidthCount, free_actions: Collection[str], num_invalid: int | None
) -> StepReward:
    """The integers behind a step reward, with the value of a turn that is not charged for anything."""
    free = {action_key(text) for text in free_actions}
    return StepReward(
        value=1.0,
        scale=scale.value,
        num_actions=len(lanes),
        c_width=_repeats(lane.action for lane in lanes.values() if lane.action not in free),
        c_depth={env_id: lane.earlier.count(lane.action) for env_id, lane in lanes.items()},
        m_depth={env_id: lane.pairs_before[lane.pair_now] if lane.pair_now else 0 for env_id, lane in lanes.items()},
        m_width=_shared(lanes, count),
        num_invalid=num_invalid,
    )


def default_transition(scale: Scale) -> Transition:
    """The state before an action that a scale was published with."""
    return Transition.OBSERVATION if scale is Scale.EQUATIONS else Transition.PREVIOUS_ACTION


def default_width_count(scale: Scale) -> WidthCount:
    """The count of shared transitions that a scale was published with."""
    return WidthCount.ENVIRONMENTS_BEFORE if scale is Scale.EQUATIONS else WidthCount.OCCURRENCES_INCL_NOW


class _Parts(NamedTuple):
    """The powers of a turn, each in (0, 1]; means are over the addressed environments."""

    action_width: float
    action_depth: float
    transition_depth: float
    transition_width: float
    per_env: float  # mean over environments of the mean of the three per-environment powers
    invalid: float | None


def _parts(counts: StepReward, *, alpha: float, gamma: float, beta: float, omega: float, invalid: float) -> _Parts:
    num = counts.num_actions
    depths = [alpha**c for c in counts.c_depth.values()]
    befores = [gamma**m for m in counts.m_depth.values()]
    widths = [beta**m for m in counts.m_width.values()]
    # summed environment by environment as in the authors' code, so that the fourth decimal never differs by rounding
    per_env = sum((d + b + w) / 3 for d, b, w in zip(depths, befores, widths, strict=True)) / num
    return _Parts(
        action_width=omega**counts.c_width,
        action_depth=sum(depths) / num,
        transition_depth=sum(befores) / num,
        transition_width=sum(widths) / num,
        per_env=per_env,
        invalid=None if counts.num_invalid is None else invalid**counts.num_invalid,
    )


def _combine(parts: _Parts, scale: Scale, *, action: bool, transitions: bool) -> float:
    """Mean of the terms that are switched on; `equations` doubles the invalid term to stay in (0, 2]."""
    extra = [] if parts.invalid is None else [parts.invalid]
    if scale is Scale.REFERENCE_INVALID_ONLY:
        return round(extra[0], 4) if extra else 1.0
    if scale is Scale.EQUATIONS:
        terms = [parts.action_depth + parts.action_width] * action
        terms += [parts.transition_depth + parts.transition_width] * transitions
        terms += [2 * value for value in extra]
        return sum(terms) / len(terms)
    if action and transitions:
        terms = [parts.action_width, parts.per_env, *extra]
    elif action:
        terms = [parts.action_width, parts.action_depth, *extra]
    else:
        terms = [(parts.transition_depth + parts.transition_width) / 2, *extra]
    return round(sum(terms) / len(terms), 4)


def _lanes(
    actions: Mapping[int, str],
    *,
    history: Mapping[int, Sequence[str]],
    states: Mapping[int, Sequence[str]] | None,
    transition: Transition,
) -> dict[int, _Lane]:
    lanes = {}
    for env_id, text in sorted(actions.items()):
        now = action_key(text)
        if not now:
            continue
        earlier = tuple(action_key(past) for past in history.get(env_id, ()))
        befores: list[str | None]
        if transition is Transition.PREVIOUS_ACTION:
            befores = [None, *earlier]
        else:
            befores = list(_states_of(env_id, states, transition=transition, num_earlier=len(earlier)))
        pairs = [None if b is None else _Pair(b, a) for b, a in zip(befores, (*earlier, now), strict=True)]
        lanes[env_id] = _Lane(now, earlier, Counter(pair for pair in pairs[:-1] if pair), pairs[-1])
    return lanes


def _states_of(
    env_id: int, states: Mapping[int, Sequence[str]] | None, *, transition: Transition, num_earlier: int
) -> Sequence[str]:
    if states is None or env_id not in states:
        raise ValueError(
            f"transition {transition.value!r} needs states[{env_id}]: the states before each action, the present one last"
        )
    if len(states[env_id]) != num_earlier + 1:
        got = f"got {len(states[env_id])} states for {num_earlier} actions"
        raise ValueError(f"states[{env_id}] must be one longer than history[{env_id}]: {got}")
    return states[env_id]


def _shared(lanes: Mapping[int, _Lane], count: WidthCount) -> dict[int, int]:
    """M_width of every environment: how its present transition occurs in the *other* addressed environments."""
    totals: Counter[_Pair] = Counter()
    for lane in lanes.values():
        totals.update(_met(lane, count))
    return {
        env_id: totals[lane.pair_now] - _met(lane, count)[lane.pair_now] if lane.pair_now else 0
        for env_id, lane in lanes.items()
    }


def _met(lane: _Lane, count: WidthCount) -> Counter[_Pair]:
    if count is WidthCount.ENVIRONMENTS_BEFORE:
        return Counter(set(lane.pairs_before))
    return lane.pairs_before + Counter([lane.pair_now] if lane.pair_now else [])


def _repeats(keys: Iterable[str]) -> int:
    """C_width: |A_t| - |distinct actions in A_t|."""
    found = list(keys)
    return len(found) - len(set(found))


def _member(kind: type[_E], name: str, setting: str) -> _E:
    try:
        return kind(name)
    except ValueError:
        known = [member.value for member in kind]
        raise ConfigError(f"step_reward.{setting} {name!r} does not exist. {did_you_mean(str(name), known)}") from None
