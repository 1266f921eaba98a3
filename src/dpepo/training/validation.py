"""Evaluations during training: every task of ``tasks.eval`` once, between optimiser steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dpepo.config import Config
from dpepo.envs import EnvPool
from dpepo.policies import HfPolicy
from dpepo.protocol import PromptBuilder
from dpepo.rollout import EpisodeRequest, play_many, play_settings
from dpepo.runs.episode_numbers import play_numbers, success_numbers
from dpepo.runs.rundir import RunFolder
from dpepo.types import Task


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Where and with whom to play."""

    config: Config
    tasks: Sequence[Task]
    pool: EnvPool
    prompts: PromptBuilder
    policy: HfPolicy
    run: RunFolder
    stage: str = "val"  # the episodes are kept under this name

    def play(self, step: int) -> dict[str, float]:
        """Play every task once, as section ``eval`` says, and give the success rate.

        Args:
            step: Optimiser or RL steps done.

        Returns:
            ``val/success_rate`` and its like per task type (left out where all episodes were lost), ``val/n``, ``val/lost``,
            ``val/turns``, ``val/actions_per_turn``, ``timing_s/val``.
        """
        config = self.config
        began = time.perf_counter()
        self.run.rewind(self.stage, step - 1)
        episodes = play_many(
            [EpisodeRequest(task=task, seed=config.seed) for task in self.tasks],
            settings=play_settings(
                config,
                num_envs=config.eval.num_envs or None,
                temperature=config.eval.temperature,
                over_limit=config.eval.over_limit,
            ),
            policy=self.policy,
            pool=self.pool,
            prompts=self.prompts,
            max_active=config.sampling.batch_size,
        )
        self.run.write_episodes(self.stage, step, episodes)
        return {
            **success_numbers("val", episodes),
            **play_numbers("val", episodes),
            "timing_s/val": time.perf_counter() - began,
        }


def is_best(run: RunFolder, score: float | None, *, step: int) -> bool:
    """Whether a score is above those of all checkpoints before this step."""
    if score is None:
        return False
    before = run.best_score(up_to=step - 1)
    return before is None or score > before
