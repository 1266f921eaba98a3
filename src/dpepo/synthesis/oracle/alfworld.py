"""The honest teacher of ALFWorld: it searches by the texts of K copies, and finishes in the one that is nearest to the goal."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import takewhile

from dpepo.config import Form, Style
from dpepo.envs.alfworld.observed import asked
from dpepo.protocol.reply import format_reply
from dpepo.rollout.casting import FindPlans
from dpepo.synthesis.oracle.alfworld_plan import plan
from dpepo.synthesis.oracle.alfworld_search import Search
from dpepo.synthesis.oracle.alfworld_seen import Copy, House, Move
from dpepo.synthesis.oracle.alfworld_words import Words
from dpepo.synthesis.oracle.styles import style_of
from dpepo.types import EpisodeView


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is done in a turn, and what it is for."""

    moves: dict[int, Move]  # env id to what it does
    commands: dict[int, str]  # the same in the game's words
    worker: int | None  # the environment that goes on towards the goal; None while all search
    plan: list[Move]  # its way on, this turn's move first
    searched: dict[int, str]  # searching environment to the place it wants to look into


class SearchingAgent:
    """Looks for things in different places of different copies, shares what was read, and brings one copy to the goal.

    It reads texts and lists of admissible actions, as a student does: never the state of the game, never its gold path.
    """

    def __init__(self, *, style: Style = Style.MIXED, form: Form = Form.PARALLEL, find: FindPlans | None = None) -> None:
        """Make the agent.

        Args:
            style: How it explores.
            form: The shape of its replies.
            find: Gold actions, as `dpepo.synthesis.teachers.HonestTeacher` hands them out; never asked for.
        """
        del find
        self._style, self._form = style, form

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """The next turn.

        Raises:
            LookupError: The task is in words that are not understood, or every place was searched in vain.
        """
        goal = asked(view.initial.text)
        if goal is None:
            raise LookupError(f"the first text states no task in ALFWorld's words (env.options.observation=full): {view.goal}")
        style = style_of(self._style, seed=view.seed)
        house = House(view, goal=goal)
        decision = decide(house, style=style, seed=view.seed, turn=len(view.turns))
        before = House(view.model_copy(update={"turns": view.turns[:-1]}), goal=goal) if view.turns else None
        words = Words(house, before=before, style=style, rng=rng)
        thought = words.thought(decision.moves, worker=decision.worker, plan=decision.plan, searched=decision.searched)
        return format_reply(thought, decision.commands, form=self._form)


def decide(house: House, *, style: Style, seed: int, turn: int) -> Decision:
    """What to do next, by what has been seen.

    Args:
        house: What has been seen.
        style: How to search.
        seed: Of the episode; settles where to look first.
        turn: Turns played so far.

    Raises:
        LookupError: Nothing is left to do.
    """
    chosen: dict[int, tuple[Move, str]] = {}
    plans = {env_id: plan(house, copy) for env_id, copy in house.copies.items() if not copy.latest.ended}
    worker = _nearest(plans)
    if worker is not None:
        _choose(chosen, house.copies[worker], _first_errand(plans[worker]))
    searched: dict[int, str] = {}
    if house.missing():
        search = Search(house, style=style, seed=seed)
        searched = search.goals([env_id for env_id in search.searchers(turn=turn) if env_id != worker and env_id in plans])
        for env_id, place in searched.items():
            _choose(chosen, house.copies[env_id], search.moves(place))
    if not chosen:
        raise LookupError(f"every place was searched in vain for {' and '.join(house.missing())}")
    return Decision(
        moves={env_id: move for env_id, (move, _) in chosen.items()},
        commands={env_id: command for env_id, (_, command) in chosen.items()},
        worker=worker,
        plan=plans[worker] if worker is not None else [],
        searched=searched,
    )


def _nearest(plans: dict[int, list[Move]]) -> int | None:
    """The environment with the fewest moves left; None where the nearest has to wait until more is found.

    Of several alike the one that need not walk first.
    """
    order = sorted((len(moves), bool(moves) and moves[0].verb == "go", env_id) for env_id, moves in plans.items())
    return order[0][2] if order and order[0][0] else None


def _first_errand(moves: list[Move]) -> list[Move]:
    """The moves at the next place; where none is possible yet (it is closed and has never been seen), a look at it."""
    place = moves[0].place
    return [*takewhile(lambda move: move.place == place, moves), Move("look", place)]


def _choose(chosen: dict[int, tuple[Move, str]], copy: Copy, moves: list[Move]) -> None:
    found = copy.command(moves)
    if found is not None:
        chosen[copy.env_id] = found
