"""The ScienceWorld teacher that needs no model: gold paths played as parallel, honest exploration. See docs/coldstart.md.

The plan comes from the package's gold path. What the agent says and the order in which it finds things do not: a place or a
thing is used only after some environment, or the task, has shown its name.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from dpepo.config import Form, Style
from dpepo.protocol.reply import format_reply
from dpepo.rollout.casting import FindPlans
from dpepo.synthesis.oracle.scienceworld_answers import CROSSING_ROOM, PLANES_ROOM, boxes, find_planes, other_box
from dpepo.synthesis.oracle.scienceworld_plan import PlanStep, brief, rewrite, short_answer
from dpepo.synthesis.oracle.scienceworld_planes import PlaneExperiment
from dpepo.synthesis.oracle.scienceworld_scene import Scene
from dpepo.synthesis.oracle.scienceworld_turns import Director
from dpepo.synthesis.oracle.scienceworld_words import Wording
from dpepo.synthesis.oracle.styles import style_of
from dpepo.types import EpisodeView

_SEARCH_TURNS = 3  # turns that finding the first place may take
_SPARE_TURNS = 6  # with fewer than these to spare, the search is kept short


class ScienceWorldOracle:
    """Turns gold paths into demonstrations for K environments, or for one. A reply is a function of the episode so far."""

    def __init__(self, *, style: Style, form: Form, find: FindPlans, max_turns: int = 25) -> None:
        """Play by gold actions, asked for when a task comes up.

        Args:
            style: How it explores.
            form: The shape of the replies.
            find: From task ids to the gold actions of each, None where there are none, e.g. `EnvPool.expert_many`.
            max_turns: Turns of an episode; for longer plans the search is kept short.
        """
        self._find = find
        self._form = form
        self._style = style
        self._max_turns = max_turns
        self._gold: dict[str, tuple[str, ...] | None] = {}

    def prepare(self, task_ids: Sequence[str]) -> None:
        """Find the gold paths of tasks that come up together."""
        new = [task_id for task_id in dict.fromkeys(task_ids) if task_id not in self._gold and not _is_too_long(task_id)]
        for task_id, gold in zip(new, self._find(new) if new else (), strict=True):
            self._gold[task_id] = None if gold is None else tuple(gold)

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """The next reply.

        Raises:
            LookupError: There are no gold actions, or the plan needs something that no environment has shown.
        """
        gold = self._plan_source(view)
        scene = Scene.of(view)
        if not scene.start or not any(entry.template.startswith("teleport") for entry in view.guide.action_templates):
            raise LookupError("the oracle moves by teleport. Try: env.options.simplifications=easy")
        director = self._director(scene, gold)
        planes = find_planes(gold, view.goal)
        if not view.turns:
            draft = director.first_turn()
        elif planes:
            draft = PlaneExperiment(director, planes).turn()
        else:
            draft = director.turn()
        # a turn that only carries on has nothing new to tell; its reason is then that of its actions
        sentences = list(filter(None, draft.sentences)) or [
            director.words.because(action, env_id=env_id) for env_id, action in draft.actions.items()
        ]
        return format_reply(" ".join(sentences), draft.actions, form=self._form)

    def _plan_source(self, view: EpisodeView) -> Sequence[str]:
        """Gold actions, or for an answer that cannot be found out in time: either answer, to be tested with the other one."""
        if _is_too_long(view.task_id):
            if view.num_envs == 1:
                raise LookupError("with one environment an answer could only be guessed")
            return (f"go to {CROSSING_ROOM}", f"focus on {boxes(view.goal)[0]}")
        self.prepare([view.task_id])
        gold = self._gold[view.task_id]
        if gold is None:
            raise LookupError(f"there are no gold actions for {view.task_id}")
        return gold

    def _director(self, scene: Scene, gold: Sequence[str]) -> Director:
        view = scene.view
        style = style_of(self._style, seed=view.seed)
        plan = rewrite(gold, start_room=scene.start)
        if _turns_needed(plan) > self._max_turns:
            plan = brief(plan)
        needed = _turns_needed(plan)
        both = bool(other_box(plan[-1].action, view.goal)) and len(scene.latest) > 1
        both = both and (style is Style.HYPOTHESIS or needed > self._max_turns or _is_too_long(view.task_id))
        if find_planes(gold, view.goal):
            needed = 0
            plan = (PlanStep("look around", PLANES_ROOM),)
        return Director(
            scene=scene,
            plan=short_answer(plan) if both else plan,
            style=style,
            words=Wording(view.seed + len(view.turns), num_envs=len(scene.latest)),
            too_long=_is_too_long(view.task_id) or needed > self._max_turns,
            hurried=needed + _SPARE_TURNS > self._max_turns,
            both_answers=both,
        )


def _turns_needed(plan: Sequence[PlanStep]) -> int:
    """Turns that a plan takes, with changes of room, looking around once in each, and the search before it."""
    changes = sum(before.room != after.room for before, after in pairwise(plan))
    return len(plan) + changes + _SEARCH_TURNS


def _is_too_long(task_id: str) -> bool:
    """Whether gold paths of a task never fit: crossing plants takes more than 120 actions."""
    return task_id.split("/")[1].startswith("mendelian-genetics")
