"""One turn of a demonstrated ScienceWorld agent: exploring, following a plan, testing answers side by side."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from dpepo.config import Style
from dpepo.synthesis.oracle.scienceworld_answers import animals, asks_life_span, other_box
from dpepo.synthesis.oracle.scienceworld_plan import WAIT, WAIT_ONE, PlanStep, arguments, in_other_state, is_wait, verb
from dpepo.synthesis.oracle.scienceworld_scene import Scene, is_telling, last_failures
from dpepo.synthesis.oracle.scienceworld_seen import rooms_named
from dpepo.synthesis.oracle.scienceworld_words import Wording, goal_subject, listed

_MAX_QUOTE = 160  # characters of an answer that is repeated in a thought
_EXTRA_MOMENTS = 9  # a thing waited for that is not there yet gets so many moments more
_PASSING = (WAIT, WAIT_ONE, "look around")
_EXTRA_WAITS = 4  # after the last step of a plan that ended in waiting
_SCOUT_TURNS = 3  # style search: turns in which free copies look into other rooms whether or not something is missing
_WRONG_ROOMS = 2  # a single environment tries at most so many other rooms first


class NotShownError(LookupError):
    """The plan needs something that no environment has shown: an honest agent cannot go on."""


@dataclass
class TurnDraft:
    """A reply in the making."""

    actions: dict[int, str] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Director:
    """Everything that one turn is decided from."""

    scene: Scene
    plan: tuple[PlanStep, ...]
    style: Style
    words: Wording
    hurried: bool  # few turns to spare: the place where the plan begins is looked at first
    too_long: bool  # the experiment would not fit
    both_answers: bool  # the plan leaves the experiment out; two copies test both answers

    @property
    def coin(self) -> bool:
        """Drawn once per episode."""
        return self._dice("coin").random() < 0.5

    def first_turn(self) -> TurnDraft:
        """The turn before anything but the start is known."""
        draft = TurnDraft(actions=self._opening())
        self._introduce(draft)
        return draft

    def turn(self) -> TurnDraft:
        """The next turn, not the first.

        Raises:
            NotShownError: The plan cannot go on honestly.
        """
        draft = TurnDraft()
        self.comment(draft)
        lead = self.scene.finder(self.plan[0].room)
        if lead is None:
            self.search(draft)
        elif self.both_answers:
            self.test_both(draft, lead)
        elif self._tests_animals(draft, lead):
            pass
        else:
            self.follow(draft, lead)
        if not draft.actions:
            raise NotShownError("nothing is left to be done")
        return draft

    def comment(self, draft: TurnDraft) -> None:
        """What the last turn taught."""
        scene, words = self.scene, self.words
        failed = last_failures(scene.view)
        if failed:
            tried = " and ".join(f'"{action}"' for action in dict.fromkeys(step.action for step in failed))
            ids = " and ".join(str(step.env_id) for step in failed)
            which = f"environment{'s' if len(failed) > 1 else ''} {ids}"
            draft.sentences.append(words.say("ended", which=which, what=tried))
        for step in scene.view.turns[-1] if scene.view.turns else ():
            text = " ".join(step.observation.text.split())
            if is_telling(step.action) and not step.observation.ended and len(text) <= _MAX_QUOTE and words.often(0.8):
                draft.sentences.append(words.say("says", env=step.env_id, text=text))

    def _opening(self) -> dict[int, str]:
        """The first turn's actions: different rooms in different environments."""
        scene = self.scene
        first = self.plan[0].room
        rng = self._dice("opening")
        rooms = self._ordered_rooms()
        env_ids = scene.live
        rng.shuffle(env_ids)
        actions: dict[int, str] = {}
        taken: set[tuple[str, str]] = set()
        if scene.start == first:
            stays = env_ids.pop(0)
            step = self.plan[0].action
            actions[stays] = "look around" if scene.unseen(step) or self._is_choice(step) else step
        elif len(env_ids) == 1 and first in rooms and rng.random() < 0.5:
            rooms.remove(first)
            rooms.insert(0, first)
        for env_id in env_ids:
            action = f"teleport to {rooms.pop(0)}" if rooms else scene.exploring(env_id, rooms, taken)
            if action:
                actions[env_id] = action
        return actions

    def _introduce(self, draft: TurnDraft) -> None:
        """Words for the first turn."""
        targets = [action.removeprefix("teleport to ") for _, action in sorted(draft.actions.items())]
        named = next((room for room in targets if room in rooms_named(self.scene.view.goal)), "")
        alone = len(self.scene.latest) == 1
        if alone and not draft.actions[1].startswith("teleport to "):
            draft.sentences.append(self.words.because(draft.actions[1], env_id=1))
        elif named:
            draft.sentences.append(self.words.say("open_named", room=named))
        else:
            subject = goal_subject(self.scene.view.goal)
            draft.sentences.append(self.words.say("open", thing=subject, room=targets[0]))
        if not alone and self.words.often(0.4):
            draft.sentences.append(self.words.say("scout", list=listed(draft.actions)))

    def search(self, draft: TurnDraft) -> None:
        """A turn before anything useful was found."""
        scene = self.scene
        rooms = self._ordered_rooms()
        taken: set[tuple[str, str]] = set()
        for env_id in scene.live:
            quick = self.style is Style.FOCUSED or self.hurried
            action = (
                f"teleport to {rooms.pop(0)}" if rooms and quick else scene.exploring(env_id, rooms, taken, may_go_back=True)
            )
            if action:
                draft.actions[env_id] = action
        if all(action == "look around" for action in draft.actions.values()):
            draft.sentences.append(self.words.say("read"))
        else:
            draft.sentences.append(self.words.say("search", thing=goal_subject(self.scene.view.goal)))

    def follow(self, draft: TurnDraft, lead: int) -> None:
        """A turn that goes on with the plan in one environment; the others look for what is still missing."""
        scene = self.scene
        action = self.lead_action(draft, lead)
        if action:
            draft.actions[lead] = action
        free = [env_id for env_id in scene.live if env_id != lead]
        remaining = self.plan[scene.progress(lead, self.plan) :]
        missing = list(dict.fromkeys(name for step in remaining for name in scene.unseen(step.action)))
        unvisited = {step.room for step in remaining} - set(scene.seen.visited)
        wanted = bool(missing or unvisited) and self.style is not Style.FOCUSED
        early = self.style is Style.SEARCH and len(scene.view.turns) < _SCOUT_TURNS
        if not (wanted or early or not action):
            return
        rooms = self._ordered_rooms(first=next((step.room for step in remaining if step.room in unvisited), ""))
        taken = {(scene.room(lead), action)}
        scouts = {env_id: found for env_id in free if (found := scene.exploring(env_id, rooms, taken))}
        draft.actions.update(scouts)
        if scouts:
            named = next((name for name in missing if name in scene.view.goal.lower()), "")
            kind = "help" if named else "scout"
            draft.sentences.append(self.words.say(kind, thing=_the(named), list=listed(scouts)))

    def lead_action(self, draft: TurnDraft, lead: int) -> str:
        """The plan's next action in an environment, with its reason; empty where it has to wait for the others.

        Raises:
            NotShownError: A name has not been shown, and looking around did not help.
        """
        scene = self.scene
        offered = scene.latest[lead].admissible_actions
        if offered and all(one.isdigit() for one in offered):
            draft.sentences.append(self.words.say("choice"))
            return offered[0]
        at = self._next_step(lead)
        if at == len(self.plan):
            return self._wait_on(draft, lead)
        step = self.plan[at]
        if step.room != scene.room(lead):
            return self._travel(draft, lead, step)
        more_time = self._more_time(lead, at)
        if more_time:
            draft.sentences.append(self.words.because(more_time, env_id=lead))
            return more_time
        action = step.action
        if scene.unseen(action) and not scene.unseen(in_other_state(action)):
            action = in_other_state(action)
        if scene.unseen(action):
            if (step.room, "look around") in scene.seen.done:
                raise NotShownError(f"{scene.unseen(step.action)[0]} has not been shown in the {step.room}")
            draft.sentences.append(self.words.because("look around", env_id=lead))
            return "look around"
        self._found(draft, lead, step, at)
        if asks_life_span(scene.view.goal):
            draft.sentences.append(self.words.say("believe", thing=_the(arguments(action)[0])))
        else:
            draft.sentences.append(self.words.because(action, env_id=lead))
        return action

    def test_both(self, draft: TurnDraft, lead: int) -> None:
        """Two copies make the same preparation and then try one answer each."""
        scene = self.scene
        pair = [lead, *[env_id for env_id in scene.live if env_id != lead]][:2]
        ready = {env_id: self._next_step(env_id) == len(self.plan) - 1 for env_id in pair}
        last = self.plan[-1]
        placed = {env_id: ready[env_id] and scene.room(env_id) == last.room for env_id in pair}
        if all(placed.values()) and len(pair) == 2:
            unseen = scene.unseen(last.action)
            if unseen:
                raise NotShownError(f"{unseen[0]} has not been shown")
            right, wrong = last.action, other_box(last.action, scene.view.goal)
            first, second = (right, wrong) if self.coin else (wrong, right)
            draft.actions = {pair[0]: first, pair[1]: second}
            draft.sentences.append(self.words.say("too_long") if self.too_long else "")
            draft.sentences.append(self.words.say("test", list=listed(draft.actions)))
            return
        for env_id in pair:
            if not placed[env_id]:
                note = TurnDraft()
                action = self.lead_action(note, env_id)
                if action:
                    draft.actions[env_id] = action
                    draft.sentences += note.sentences if env_id == lead or placed[lead] else []
        if len(draft.actions) == 2:
            draft.sentences.append(self.words.say("mirror", env=pair[1]))
        if not draft.actions:
            self.follow(draft, lead)

    def _tests_animals(self, draft: TurnDraft, lead: int) -> bool:
        """Other copies try other animals before or beside the one believed in; False where that is not to be done."""
        scene, words = self.scene, self.words
        at = self._next_step(lead)
        if (
            self.style is Style.FOCUSED
            or not asks_life_span(scene.view.goal)
            or at != 0
            or scene.room(lead) != self.plan[0].room
        ):
            return False
        tried = any(step.observation.ended for turn in scene.view.turns for step in turn)
        testers = [env_id for env_id in scene.live if env_id != lead]
        if tried or not testers:
            return False
        here = self.plan[0].room
        away = [env_id for env_id in testers if scene.room(env_id) != here]
        if away:
            draft.actions = {env_id: f"teleport to {here}" for env_id in away}
            if here not in scene.seen.described:
                draft.actions[lead] = "look around"
            draft.sentences.append(words.say("found", env=lead, room=here, thing="animals to compare"))
            return True
        action = self.plan[0].action
        others = animals(scene.latest[lead].objects, but=action.removeprefix("focus on "))
        self._dice("animals").shuffle(others)
        tests = {env_id: f"focus on {name}" for env_id, name in zip(testers, others, strict=False)}
        if not tests or scene.unseen(action):
            return False
        if self.style is Style.HYPOTHESIS:
            draft.actions = {lead: action, **tests}
            draft.sentences.append(words.say("test", list=listed(draft.actions)))
        else:
            draft.actions = tests
            draft.sentences.append(words.say("test_first", env=lead, list=listed(tests)))
        return True

    def _next_step(self, lead: int) -> int:
        """The plan's next step; waits are skipped once the thing waited for is there."""
        at = self.scene.progress(lead, self.plan)
        ahead = at
        while ahead < len(self.plan) and is_wait(self.plan[ahead].action):
            ahead += 1
        if ahead < len(self.plan) and verb(self.plan[ahead].action) == "focus on":
            return ahead if self.scene.at_hand(lead, self.plan[ahead].action) else at
        return at

    def _more_time(self, lead: int, at: int) -> str:
        """Another wait, where the plan has waited for a thing to focus on and it is not there yet; empty otherwise."""
        before = self.plan[at - 1].action if at else ""
        if not is_wait(before) or verb(self.plan[at].action) != "focus on" or self.scene.at_hand(lead, self.plan[at].action):
            return ""
        actions = [step.action for step in self.scene.steps(lead)]
        waited = next((n for n, action in enumerate(reversed(actions)) if verb(action) not in _PASSING), len(actions))
        planned = next((n for n, step in enumerate(reversed(self.plan[:at])) if not is_wait(step.action)), at)
        if actions[-1] == WAIT or actions[-3:] == [WAIT_ONE] * 3:
            return "look around"  # the list of objects does not name every stage of life
        more = WAIT if self.plan[at - 2 : at] == (PlanStep(WAIT, self.plan[at].room),) * 2 else WAIT_ONE
        return more if waited < planned + (_EXTRA_WAITS if more == WAIT else _EXTRA_MOMENTS) else ""

    def _wait_on(self, draft: TurnDraft, lead: int) -> str:
        """The plan is done and the goal is not reached: more time may do it, nothing else."""
        waited = sum(step.action == WAIT for step in self.scene.steps(lead)[-_EXTRA_WAITS:])
        watching = is_wait(self.plan[-1].action) or is_telling(self.plan[-1].action)
        if not watching or waited >= _EXTRA_WAITS:
            raise NotShownError("the plan ended without reaching the goal")
        draft.sentences.append(self.words.because(WAIT, env_id=lead))
        return WAIT

    def _travel(self, draft: TurnDraft, lead: int, step: PlanStep) -> str:
        """Go to the step's room, when something shown says so; otherwise let the others look first."""
        scene, room = self.scene, step.room
        names = [name for name in arguments(step.action) if room in scene.seen.rooms_with(name)]
        witness = scene.seen.witness(room)
        if names and witness and witness != lead:
            say = ("go_seen", {"thing": _the(names[0]), "witness": witness})
        elif room in scene.view.goal:
            say = ("go_named", {})
        elif room in scene.seen.visited:
            say = ("go_back", {})
        elif room in scene.seen.rooms and len(scene.live) == 1:
            say = ("go_try", {})
        elif len(scene.live) == 1:
            room = next(iter(self._ordered_rooms()), "")
            if not room:
                raise NotShownError(f"the {step.room} has not been shown")
            say = ("go_try", {})
        else:
            return ""
        draft.sentences.append(self.words.say(say[0], env=lead, room=room, **say[1]))
        return f"teleport to {room}"

    def _found(self, draft: TurnDraft, lead: int, step: PlanStep, at: int) -> None:
        """Say where the work goes on, once, before the first step of the plan."""
        if at or not self.scene.view.turns:
            return
        here = [name for name in arguments(step.action) if step.room in self.scene.seen.rooms_with(name)]
        kind = "found" if here else "ready"
        draft.sentences.append(self.words.say(kind, env=lead, room=step.room, thing=_the(here[0]) if here else ""))

    def _ordered_rooms(self, first: str = "") -> list[str]:
        """Rooms to visit; the plan's comes first where turns are short, and at the latest after a few others."""
        rooms = self.scene.new_rooms(self._dice("rooms"))
        first = first or self.plan[0].room
        late = len(self.scene.latest) == 1 and len(self.scene.seen.visited) > _WRONG_ROOMS
        if first in rooms and (self.hurried or late):
            rooms.remove(first)
            rooms.insert(0, first)
        return rooms

    def _dice(self, what: str) -> random.Random:
        """Chance for one kind of decision, the same at every turn of an episode."""
        return random.Random(f"{self.scene.view.seed}/{what}")

    def _is_choice(self, action: str) -> bool:
        return asks_life_span(self.scene.view.goal) or bool(other_box(action, self.scene.view.goal))


def _the(name: str) -> str:
    return f"the {name}" if name and not name.startswith("the ") else name
