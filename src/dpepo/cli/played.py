"""Keeping what a person played, in a run folder like those of ``dpepo synth``, so that ``dpepo sft`` learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpepo.config import Config
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode

STAGE = "synth"


class Keeper:
    """Writes the episodes of one session; one that is kept again in the same folder replaces what was kept of it."""

    def __init__(self, config: Config, *, world: dict[str, str]) -> None:
        """Keep episodes.

        Args:
            config: Settings of the session, as they are recorded.
            world: What the world says about itself.
        """
        self._config, self._world = config, world
        self._kept: dict[Path, Episode] = {}

    def has(self, episode: Episode) -> bool:
        """Whether this very episode was kept somewhere."""
        return episode in self._kept.values()

    def keep(self, episode: Episode, folder: Path) -> int:
        """Add an episode to a folder, made when missing.

        Returns:
            Number of demonstrations there now.

        Raises:
            RunFolderError: The folder holds something else, or episodes played with other settings.
        """
        section = self._config.run.model_copy(update={"dir": str(folder), "resume": True})
        run = RunFolder.create(folder, config=self._config.model_copy(update={"run": section}), job=STAGE)
        try:
            lines = [line for line in run.read_episodes(stage=STAGE, problems=[]) if line.step == episode.num_envs]
            before = self._kept.get(folder)
            episodes = [*(line.episode for line in lines if line.episode != before), episode]
            run.replace_episodes(STAGE, episode.num_envs, episodes)
            counts = {"played": len(episodes), "kept": len(episodes), "succeeded": sum(one.success for one in episodes)}
            run.metrics.log(STAGE, episode.num_envs, counts)
            record: dict[str, Any] = {"world": self._world, "tasks": sorted({one.task.id for one in episodes})}
            run.record(**record)
            run.finish(counts)
        finally:
            run.close()
        self._kept[folder] = episode
        return len(episodes)
