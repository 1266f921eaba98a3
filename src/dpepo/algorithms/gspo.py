"""GSPO: GRPO's advantages with one importance ratio per reply instead of one per token."""

from __future__ import annotations

from typing import ClassVar

from dpepo.algorithms.grpo import Grpo


class Gspo(Grpo):
    """Sequence ratio s = exp(mean of log-ratios over the reply's tokens), clipped (arXiv 2507.18071, eq. 5-7).

    The sequence is a turn's reply, as each turn is sampled from a prompt of its own. The paper averages over sequences
    (``actor.loss_average: turns``) and clips narrowly (``actor.clip_low: 3e-4``, ``actor.clip_high: 4e-4``).
    """

    sequence_ratio: ClassVar[bool] = True
