"""Episodes as the pages show them: records in, small JSON-able dicts out.

Pure; used by `dpepo.runs.viewer` (all episodes, packed in chunks) and `dpepo.runs.report` (a few). The reader of these dicts is
``web/lanes.js``; keys are spelled out there and here alike. Long texts that repeat (observations of siblings, lists of
admissible actions) are stored once per chunk in a `Pool` and referred to by number.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from dpepo.runs.advantages import EpisodeAdvantages
from dpepo.types import Episode, Message, Observation, ScoredEpisode, Step, StepReward, Turn

NOTHING = -1  # "no text" / "no list" where a number into the pool is expected


class Pool:
    """Texts and lists of texts of one chunk, each stored once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lists: list[list[str]] = []
        self.chars = 0  # characters stored
        self._text_numbers: dict[str, int] = {}
        self._list_numbers: dict[tuple[str, ...], int] = {}

    def text(self, text: str) -> int:
        """Number of a text; `NOTHING` for an empty one."""
        if not text:
            return NOTHING
        number = self._text_numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
            self.chars += len(text)
        return number

    def list(self, items: tuple[str, ...]) -> int:
        """Number of a list of texts; `NOTHING` for an empty one."""
        if not items:
            return NOTHING
        number = self._list_numbers.setdefault(items, len(self.lists))
        if number == len(self.lists):
            self.lists.append([*items])
            self.chars += sum(len(item) for item in items)
        return number


def episode_row(
    key: str, record: Episode | ScoredEpisode, *, stage: str, step: int, advantages: EpisodeAdvantages | None = None
) -> dict[str, Any]:
    """What the list of episodes shows and filters by.

    Args:
        key: stable name of the episode inside the run, used in links.
        record: the episode.
        stage: the job's stage that played it.
        step: step inside the stage.
        advantages: what RL made of it, where that was recorded.
    """
    rewards = [reward.value for reward in record.step_rewards] if isinstance(record, ScoredEpisode) else []
    episode = record.episode if isinstance(record, ScoredEpisode) else record
    outcome = record.outcome
    return {
        "key": key,
        "stage": stage,
        "step": step,
        "task": episode.task.id,
        "name": f"{episode.task.world}/{episode.task.name}",
        "split": episode.task.split,
        "goal": episode.goal[:400],
        "K": episode.num_envs,
        "seed": str(episode.seed),  # 64 bits, more than a number of the page holds
        "sibling": episode.sibling,
        "stop": episode.stop.value,
        "outcome": None if outcome is None else round(outcome, 5),
        "success": episode.success,
        "turns": len(episode.turns),
        "actions": episode.num_actions,
        "tokens": sum(turn.completion.reply_length for turn in episode.turns),
        "seconds": round(sum(turn.seconds for turn in episode.turns), 2),
        "reward": round(fmean(rewards), 4) if rewards else None,
        "phi": None if advantages is None or advantages.trajectory is None else round(advantages.trajectory, 4),
        "problems": sum(len(turn.reply.problems) for turn in episode.turns),
    }


def episode_detail(
    key: str,
    record: Episode | ScoredEpisode,
    *,
    pool: Pool,
    prompts: bool,
    advantages: EpisodeAdvantages | None = None,
) -> dict[str, Any]:
    """One episode with everything in it, its long texts in `pool`.

    Args:
        key: as in `episode_row`.
        record: the episode.
        pool: where long texts go.
        prompts: whether prompts are kept (they are most of the bytes).
        advantages: what RL made of it, where that was recorded.
    """
    phis = () if advantages is None else advantages.turns
    scored = isinstance(record, ScoredEpisode)
    episode = record.episode if isinstance(record, ScoredEpisode) else record
    rewards = record.step_rewards if isinstance(record, ScoredEpisode) else ()
    return {
        "key": key,
        "goal": episode.goal,
        "maxTurns": episode.max_turns,
        "seed": str(episode.seed),  # 64 bits, more than a number of the page holds
        "scored": scored,
        "error": episode.error,
        "algorithm": None if advantages is None else advantages.algorithm,
        "initial": _observation(episode.initial, pool),
        "turns": [
            _turn(
                turn,
                pool,
                prompts=prompts,
                reward=rewards[number] if number < len(rewards) else None,
                advantage=phis[number] if number < len(phis) else None,
            )
            for number, turn in enumerate(episode.turns)
        ],
    }


def _turn(turn: Turn, pool: Pool, *, prompts: bool, reward: StepReward | None, advantage: float | None) -> dict[str, Any]:
    completion = turn.completion
    done = {step.env_id for step in turn.steps}
    return {
        "prompt": [_message(message, pool) for message in turn.prompt.messages] if prompts else None,
        "raw": pool.text(completion.text),
        "thought": pool.text(turn.reply.thought),
        "finish": completion.finish.value,
        "error": completion.error,
        "problems": [problem.value for problem in turn.reply.problems],
        "messages": [*turn.reply.messages],
        "steps": [_step(step, pool) for step in turn.steps],
        # asked for but not done: the environment had ended, or the episode stopped first
        "skipped": {str(env): action for env, action in turn.reply.actions.items() if env not in done},
        "promptTokens": completion.prompt_length,
        "tokens": completion.reply_length,
        "logprob": round(sum(completion.logprobs) / len(completion.logprobs), 4) if completion.logprobs else None,
        "seconds": round(turn.seconds, 3),
        "envSeconds": round(turn.env_seconds, 3),
        "reward": None if reward is None else _reward(reward),
        "advantage": None if advantage is None else round(advantage, 4),
    }


def _message(message: Message, pool: Pool) -> dict[str, Any]:
    return {"role": message.role, "text": pool.text(message.content)}


def _step(step: Step, pool: Pool) -> dict[str, Any]:
    return {"env": step.env_id, "action": step.action, "observation": _observation(step.observation, pool)}


def _observation(observation: Observation, pool: Pool) -> dict[str, Any]:
    return {
        "text": pool.text(observation.text),
        "admissible": pool.list(observation.admissible_actions),
        "objects": pool.list(observation.objects),
        "score": observation.score,
        "success": observation.success,
        "ended": observation.ended,
        "valid": observation.valid,
        "failure": observation.failure,
    }


def _reward(reward: StepReward) -> dict[str, Any]:
    return {
        "value": reward.value,
        "scale": reward.scale,
        "actions": reward.num_actions,
        "cWidth": reward.c_width,
        "cDepth": {str(env): count for env, count in reward.c_depth.items()},
        "mDepth": {str(env): count for env, count in reward.m_depth.items()},
        "mWidth": {str(env): count for env, count in reward.m_width.items()},
        "invalid": reward.num_invalid,
    }
