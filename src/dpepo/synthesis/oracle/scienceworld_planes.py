"""Two inclined planes compared: a block slides down each for the same time, in two copies at once where possible."""

from __future__ import annotations

from dataclasses import dataclass

from dpepo.synthesis.oracle.scienceworld_answers import Planes, plane_readings, verdict
from dpepo.synthesis.oracle.scienceworld_plan import WAIT, verb
from dpepo.synthesis.oracle.scienceworld_turns import Director, NotShownError, TurnDraft
from dpepo.synthesis.oracle.scienceworld_words import listed

_MAX_LOOKS = 4


@dataclass(frozen=True)
class PlaneExperiment:
    """Decides the turns of a comparison of planes; the director explores until the place is found."""

    director: Director
    planes: Planes

    def turn(self) -> TurnDraft:
        """The next turn.

        Raises:
            NotShownError: The planes cannot be told apart with a single environment.
        """
        scene = self.director.scene
        draft = TurnDraft()
        self.director.comment(draft)
        lead = scene.finder(self.planes.room)
        if lead is None:
            self.director.search(draft)
        elif len(scene.live) == 1:
            self._one_after_the_other(draft, lead)
        else:
            self._side_by_side(draft, lead)
        return draft

    def _side_by_side(self, draft: TurnDraft, lead: int) -> None:
        scene, words = self.director.scene, self.director.words
        other = next(env_id for env_id in scene.live if env_id != lead)
        pair = dict(zip((lead, other), self._order(), strict=True))
        placed = {env_id: any(step.action == self._place(pair[env_id]) for step in scene.steps(env_id)) for env_id in pair}
        if scene.room(other) != self.planes.room:
            draft.actions = {other: f"teleport to {self.planes.room}"}
            if self.planes.room not in scene.seen.described:
                draft.actions[lead] = "look around"
            draft.sentences.append(words.say("found", env=lead, room=self.planes.room, thing="the inclined planes"))
        elif not all(placed.values()):
            unseen = scene.unseen(self._place(pair[lead])) + scene.unseen(self._place(pair[other]))
            if unseen:
                raise NotShownError(f"{unseen[0]} has not been shown")
            draft.actions = {env_id: self._place(name) for env_id, name in pair.items()}
            draft.sentences.append(words.say("split_planes", list=listed(draft.actions)))
        else:
            self._watch(draft, pair)

    def _watch(self, draft: TurnDraft, pair: dict[int, str]) -> None:
        scene, words = self.director.scene, self.director.words
        readings = plane_readings(scene.view, self.planes)
        answer = verdict(self.planes, readings)
        lead = next(iter(pair))
        last = scene.steps(lead)[-1].action
        looks = sum(verb(step.action) == "look at" for step in scene.steps(lead))
        if answer and looks > 1:
            self._decide(draft, lead, answer, readings)
        elif verb(last) != "look at":
            draft.actions = {env_id: f"look at {name}" for env_id, name in pair.items()}
            draft.sentences.append(words.say("positions"))
        elif looks < _MAX_LOOKS:
            draft.actions = dict.fromkeys(pair, WAIT)
            draft.sentences.append(words.say("same_time"))
        else:
            draft.actions = {env_id: f"focus on {name}" for env_id, name in pair.items()}
            draft.sentences.append(words.say("test", list=listed(draft.actions)))

    def _one_after_the_other(self, draft: TurnDraft, lead: int) -> None:
        scene, words = self.director.scene, self.director.words
        if self.planes.room not in scene.seen.described:
            draft.actions[lead] = "look around"
            draft.sentences.append(words.say("read"))
            return
        for number, name in enumerate(self._order()):
            action = self._next_for(name, lead)
            if action:
                draft.actions[lead] = action
                kind = {"move": ("plane", "plane_again")[number], WAIT: "same_time"}.get(verb(action), "positions")
                draft.sentences.append(words.say(kind))
                return
        readings = plane_readings(scene.view, self.planes)
        answer = verdict(self.planes, readings)
        if answer is None:
            raise NotShownError("the planes cannot be told apart")
        self._decide(draft, lead, answer, readings)

    def _next_for(self, name: str, lead: int) -> str:
        """The next action of the measurement on one plane; empty when it is done."""
        place = self._place(name)
        measured = [place, f"look at {name}", WAIT, f"look at {name}"]
        actions = [step.action for step in self.director.scene.steps(lead)]
        if place not in actions:
            return place
        done = actions[actions.index(place) :]
        return "" if len(done) >= len(measured) else measured[len(done)]

    def _decide(self, draft: TurnDraft, lead: int, answer: str, readings: dict[str, int]) -> None:
        first, second = self.planes.names
        draft.actions = {lead: f"focus on {answer}"}
        draft.sentences.append(
            self.director.words.say(
                "verdict",
                first=f"{readings[first]}%",
                second=f"{readings[second]}%",
                first_name=first,
                second_name=second,
                answer=answer,
            )
        )

    def _order(self) -> tuple[str, str]:
        first, second = self.planes.names
        return (first, second) if self.director.coin else (second, first)

    def _place(self, name: str) -> str:
        return next(action for action in self.planes.place if action.endswith(f" to {name}"))
