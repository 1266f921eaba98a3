"""Trackers beside ``metrics.jsonl``: console, TensorBoard, MLflow, Weights & Biases; chosen by ``run.loggers``."""

from dpepo.runs.loggers.base import Loggers, check_loggers

__all__ = ["Loggers", "check_loggers"]
