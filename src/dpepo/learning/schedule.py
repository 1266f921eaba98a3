"""The learning rate of a step, as a function of the step alone: a resumed job needs no scheduler state."""

from __future__ import annotations

import math

from dpepo.config import ActorConfig, Schedule, SftConfig


def learning_rate(step: int, *, num_steps: int, config: ActorConfig | SftConfig) -> float:
    """Linear warm-up to the peak ``lr``; then constant, or a line or half a cosine that reaches zero after the last step.

    Args:
        step: From 1.
        num_steps: Steps of the job.
        config: Peak, share of warm-up, and schedule.
    """
    warmup = max(1, round(config.warmup * num_steps))
    if step <= warmup:
        return config.lr * step / warmup
    passed = min(1.0, (step - warmup) / max(1, num_steps - warmup + 1))
    match config.schedule:
        case Schedule.CONSTANT:
            return config.lr
        case Schedule.LINEAR:
            return config.lr * (1.0 - passed)
        case Schedule.COSINE:
            return config.lr * 0.5 * (1.0 + math.cos(math.pi * passed))
