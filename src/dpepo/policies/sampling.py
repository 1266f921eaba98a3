"""Drawing tokens: a pure function of scores, temperature and one uniform number per token.

Legend of shapes: B rows (replies in progress), L tokens of a reply, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

# SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MASK_64 = (1 << 64) - 1


class Drawn(NamedTuple):
    """One token per row."""

    ids_B: torch.Tensor  # int64
    logprobs_B: torch.Tensor  # float32, natural log; NaN where the scores of the row were not finite


def uniforms(seeds: Sequence[int], length: int) -> torch.Tensor:
    """Uniform numbers in (0, 1), a function of (seed, position) and of nothing else.

    Args:
        seeds: One per row; any integers, taken modulo 2**64.
        length: L, positions per row.

    Returns:
        A float64 tensor of shape (B, L) on the CPU. No value is 0 or 1, also after multiplication with a total.
    """
    starts_B1 = np.array([seed & _MASK_64 for seed in seeds], dtype=np.uint64).reshape(-1, 1)
    steps_1L = np.array([(_GOLDEN * (position + 1)) & _MASK_64 for position in range(length)], dtype=np.uint64).reshape(1, -1)
    # Mixing the seed first keeps neighbouring seeds from walking the same sequence one step apart.
    bits_BL = _mix(_mix(starts_B1 + np.uint64(_GOLDEN)) + steps_1L)
    return torch.from_numpy(((bits_BL >> np.uint64(32)).astype(np.float64) + 0.5) / 2.0**32)


def _mix(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def draw(logits_BV: torch.Tensor, uniforms_B: torch.Tensor, *, temperature: float, top_p: float = 1.0) -> Drawn:
    """Draw one token per row by inverting the cumulative distribution.

    The log-probability reported is that of the full softmax at the sampling temperature, also when ``top_p`` cuts the
    distribution drawn from: the learner computes the same quantity, so its ratio starts at 1. At temperature 0 the best
    token is taken and its log-probability is that at temperature 1.

    Args:
        logits_BV: Scores, any floating type.
        uniforms_B: float64 in (0, 1), see `uniforms`.
        temperature: At least 0; 0 is greedy.
        top_p: Nucleus mass in (0, 1].

    Returns:
        Token ids and log-probabilities.
    """
    logits_BV = logits_BV.float()
    if temperature == 0:
        logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
        ids_B1 = logits_BV.argmax(dim=-1, keepdim=True)
    else:
        logprobs_BV = torch.log_softmax(logits_BV / temperature, dim=-1)
        # float64: a float32 running sum over a large vocabulary is off by more than the rarest tokens weigh.
        weights_BV = logprobs_BV.exp().double()
        if top_p < 1:
            weights_BV = _nucleus(weights_BV, top_p)
        cumulative_BV = weights_BV.cumsum(dim=-1)
        targets_B1 = (uniforms_B * cumulative_BV[:, -1]).unsqueeze(-1)
        # right=True: the first token whose running sum exceeds the target, so a token of weight 0 is never drawn.
        ids_B1 = torch.searchsorted(cumulative_BV, targets_B1, right=True)
        # Only scores that are not finite can lead past the end; their log-probability is NaN and reported as such.
        ids_B1 = ids_B1.clamp_(max=logits_BV.shape[-1] - 1)
    return Drawn(ids_B=ids_B1.squeeze(-1), logprobs_B=logprobs_BV.gather(-1, ids_B1).squeeze(-1))


def _nucleus(weights_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    """Zero all but the smallest set of most likely tokens whose mass reaches ``top_p``."""
    sorted_BV, order_BV = weights_BV.sort(dim=-1, descending=True)
    mass_before_BV = sorted_BV.cumsum(dim=-1) - sorted_BV
    kept_BV = sorted_BV * (mass_before_BV < top_p)
    return torch.zeros_like(weights_BV).scatter_(-1, order_BV, kept_BV)
