"""GSPO: GRPO's advantages with one importance ratio per reply instead of one per token."""

from __future__ import annotations

from typing import ClassVar

from dpepo.algorithms.grpo import Grpo
from dpepo.config import LossAverage, LossTraits


class Gspo(Grpo):
    """Sequence ratio s = exp(mean of log-ratios over the reply's tokens), clipped (arXiv 2507.18071, eq. 5-7).

    The sequence is a turn's reply, as each turn is sampled from a prompt of its own. As in the paper, the loss is a mean over
    sequences (eq. 5) and clipping is narrow (section 5.1): the ratio of a sequence moves far less than those of its tokens.
    """

    loss: ClassVar[LossTraits] = LossTraits(sequence_ratio=True, loss_average=LossAverage.TURNS, clip_low=3e-4, clip_high=4e-4)
