"""A run's folder: written by jobs, read by people."""

from dpepo.runs.checkpoints import Checkpoint, LatestCheckpoint, is_save_step, latest_checkpoint, save_checkpoint
from dpepo.runs.episodes import EpisodeLine, read_episodes, write_episodes
from dpepo.runs.metrics import MetricsFile, MetricsLog, MetricsRow, read_metrics
from dpepo.runs.progress import Progress, SilentProgress
from dpepo.runs.rundir import RunFolder
from dpepo.runs.stats import Interval, pass_at_k, wilson_interval

__all__ = [
    "Checkpoint",
    "EpisodeLine",
    "Interval",
    "LatestCheckpoint",
    "MetricsFile",
    "MetricsLog",
    "MetricsRow",
    "Progress",
    "RunFolder",
    "SilentProgress",
    "is_save_step",
    "latest_checkpoint",
    "pass_at_k",
    "read_episodes",
    "read_metrics",
    "save_checkpoint",
    "wilson_interval",
    "write_episodes",
]
