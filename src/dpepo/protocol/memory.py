"""What a prompt repeats of an episode: the history by environment, cut to the chosen memory. Pure; used by `prompt`."""

from __future__ import annotations

from dataclasses import dataclass

from dpepo.config import Memory
from dpepo.types import EpisodeView, Observation

__all__ = ["EnvironmentMemory", "PastStep", "Recollection", "recall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    """One earlier action of one environment."""

    number: int  # k, from 1 within its environment
    turn: int  # from 0 within the episode
    action: str
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentMemory:
    """What is remembered of one environment that has been acted in."""

    env_id: int
    history: tuple[PastStep, ...]  # remembered steps but those of the last turn, oldest first
    num_omitted: int  # steps older than the window, which the prompt leaves out
    latest: PastStep  # the newest step, inside the window or not
    latest_is_current: bool  # the newest step belongs to the last turn in which anything was done

    @property
    def ended(self) -> bool:
        """No further action is accepted."""
        return self.latest.observation.ended or self.broken

    @property
    def broken(self) -> bool:
        """The environment itself failed; nothing the agent did is to blame."""
        return self.latest.observation.failure != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """An episode as remembered before the next turn."""

    environments: tuple[EnvironmentMemory, ...]  # those acted in so far, by id
    last_turn_idle: bool  # the last reply held nothing that could be executed

    @property
    def current(self) -> tuple[EnvironmentMemory, ...]:
        """Environments addressed in the last turn in which anything was done."""
        return tuple(memory for memory in self.environments if memory.latest_is_current)


def recall(view: EpisodeView, *, memory: Memory, window: int) -> Recollection:
    """Sort the steps of an episode by environment and drop what is older than the window.

    Args:
        view: The episode before its next turn.
        memory: ``window`` keeps the steps of the last ``window`` turns; the other kinds keep all.
        window: Turns kept, turns without a step included.
    """
    steps: dict[int, list[PastStep]] = {}
    last_active = -1
    for turn, done in enumerate(view.turns):
        for step in done:
            past = steps.setdefault(step.env_id, [])
            past.append(PastStep(number=len(past) + 1, turn=turn, action=step.action, observation=step.observation))
            last_active = turn
    oldest = len(view.turns) - window if memory is Memory.WINDOW else 0
    environments = []
    for env_id in sorted(steps):
        past = steps[env_id]
        before = [step for step in past if step.turn < last_active]
        kept = tuple(step for step in before if step.turn >= oldest)
        environments.append(
            EnvironmentMemory(
                env_id=env_id,
                history=kept,
                num_omitted=len(before) - len(kept),
                latest=past[-1],
                latest_is_current=past[-1].turn == last_active,
            )
        )
    return Recollection(environments=tuple(environments), last_turn_idle=bool(view.turns) and not view.turns[-1])
