"""Losses per token, and nothing that depends on how a batch is cut into forward passes.

Sums are returned, not means: the caller divides by the reply tokens of the whole minibatch (DAPO's and verl's token mean).
Shapes: N reply tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpepo.config import ActorConfig

_LARGEST_LOG_RATIO = 20.0  # exp stays finite in float32; beyond it a token has no gradient and is counted


@dataclass(frozen=True, kw_only=True)
class ActorLoss:
    """The loss of some reply tokens, as sums."""

    loss: torch.Tensor  # scalar with gradient: policy loss plus kl_coef times KL
    sums: dict[str, float]  # metric name to its sum over the tokens


def policy_loss(
    logprobs_N: torch.Tensor,
    *,
    old_N: torch.Tensor,
    advantages_N: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """Clipped policy loss per token (arXiv 1707.06347), optionally dual-clipped (arXiv 1912.09729).

    Args:
        logprobs_N: Log-probabilities under the present policy, with gradient.
        old_N: Under the policy that sampled, at the same temperature.
        advantages_N: Phi of each token's turn.
        clip_low: Lower ratio bound is 1 - clip_low.
        clip_high: Upper ratio bound is 1 + clip_high.
        dual_clip: Bound c > 1 on the loss of negative advantages in units of -advantage; None: off.

    Returns:
        N losses. Values and gradients are finite for any finite input: log-ratios are held within +-20.
    """
    ratio_N = _bounded(logprobs_N - old_N).exp()
    clipped_N = ratio_N.clamp(1 - clip_low, 1 + clip_high)
    loss_N = torch.maximum(-advantages_N * ratio_N, -advantages_N * clipped_N)
    if dual_clip is None:
        return loss_N
    return torch.where(advantages_N < 0, torch.minimum(loss_N, -advantages_N * dual_clip), loss_N)


def k3_kl(logprobs_N: torch.Tensor, *, reference_N: torch.Tensor) -> torch.Tensor:
    """KL(policy || reference) per token by the estimator exp(d) - d - 1 with d = reference - policy; at least 0.

    The "low variance" estimator k3 of Schulman's note on approximating KL. d is held within +-20.
    """
    d_N = _bounded(reference_N - logprobs_N)
    return d_N.exp() - d_N - 1


def actor_loss(
    logprobs_N: torch.Tensor,
    *,
    old_N: torch.Tensor,
    advantages_N: torch.Tensor,
    reference_N: torch.Tensor | None,
    config: ActorConfig,
) -> ActorLoss:
    """The GRPO objective over some reply tokens, summed, with what is worth watching.

    Args:
        logprobs_N: Log-probabilities under the present policy, with gradient.
        old_N: Under the policy that sampled.
        advantages_N: Phi of each token's turn.
        reference_N: Under the reference policy; None leaves the KL term out.
        config: Clipping and the weight of the KL term.
    """
    loss_N = policy_loss(
        logprobs_N,
        old_N=old_N,
        advantages_N=advantages_N,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        dual_clip=config.dual_clip,
    )
    loss = loss_N.sum()
    log_ratio_N = (logprobs_N - old_N).detach()
    ratio_N = _bounded(log_ratio_N).exp()
    clipped_N = torch.where(advantages_N > 0, ratio_N > 1 + config.clip_high, ratio_N < 1 - config.clip_low) & (
        advantages_N != 0
    )
    sums = {
        "actor/pg_loss": loss.item(),
        "actor/pg_clipfrac": float(clipped_N.sum().item()),
        "actor/ppo_kl": -log_ratio_N.sum().item(),
        "actor/ratio_capped": float((log_ratio_N.abs() > _LARGEST_LOG_RATIO).sum().item()),
    }
    if reference_N is not None:
        kl = k3_kl(logprobs_N, reference_N=reference_N).sum()
        sums["actor/kl_loss"] = kl.item()
        loss = loss + config.kl_coef * kl
    return ActorLoss(loss=loss, sums=sums)


def _bounded(log_ratio_N: torch.Tensor) -> torch.Tensor:
    # before exp, not after: an overflow in a branch that is not taken still makes 0 x inf = NaN in the gradient
    return log_ratio_N.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
