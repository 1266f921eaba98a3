"""Losses per token, and nothing that depends on how a batch is cut into forward passes.

Sums are returned, not means: `sample_weights` says what a token counts within the whole minibatch.
Shapes: N reply tokens, reply after reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch

from dpepo.config import ActorConfig, KlEstimator, KlPlace, LossAverage, LossTraits
from dpepo.types import TrainingSample

_LARGEST_LOG_RATIO = 20.0  # exp stays finite in float32; beyond it a token has no gradient and is counted


@dataclass(frozen=True, kw_only=True)
class Objective(LossTraits):
    """What is minimised: the traits of an algorithm, or what was configured in their place."""

    dual_clip: float | None = None
    kl_coef: float = 0.0
    loss_length: int = 0

    @classmethod
    def of(cls, config: ActorConfig, traits: LossTraits | None = None) -> Self:
        """The objective of a configuration.

        Raises:
            ValueError: A mean by a constant length without that length.
        """
        chosen: dict[str, Any] = {}
        for trait in fields(LossTraits):
            configured = getattr(config, trait.name, None)
            chosen[trait.name] = getattr(traits or LossTraits(), trait.name) if configured is None else configured
        if chosen["loss_average"] is LossAverage.CONSTANT and not config.loss_length:
            raise ValueError("actor.loss_average constant needs actor.loss_length, e.g. sampling.max_new_tokens")
        return cls(**chosen, dual_clip=config.dual_clip, kl_coef=config.kl_coef, loss_length=config.loss_length)


@dataclass(frozen=True, kw_only=True)
class ActorLoss:
    """The loss of some reply tokens."""

    loss: torch.Tensor  # scalar with gradient: weighted sum of policy loss and KL term
    sums: dict[str, float]  # metric name to its unweighted sum over the tokens


def policy_loss(
    log_ratios_N: torch.Tensor,
    *,
    advantages_N: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """Clipped policy loss per token (arXiv 1707.06347), optionally dual-clipped (arXiv 1912.09729).

    Args:
        log_ratios_N: New minus old log-probability, of the token or of its reply (`sequence_log_ratios`), with gradient.
        advantages_N: Phi of each token's turn.
        clip_low: Lower ratio bound is 1 - clip_low.
        clip_high: Upper ratio bound is 1 + clip_high.
        dual_clip: Bound c > 1 on the loss of negative advantages in units of -advantage; None: off.

    Returns:
        N losses. Values and gradients are finite for any finite input: log-ratios are held within +-20.
    """
    ratio_N = _bounded(log_ratios_N).exp()
    clipped_N = ratio_N.clamp(1 - clip_low, 1 + clip_high)
    loss_N = torch.maximum(-advantages_N * ratio_N, -advantages_N * clipped_N)
    if dual_clip is None:
        return loss_N
    return torch.where(advantages_N < 0, torch.minimum(loss_N, -advantages_N * dual_clip), loss_N)


def sequence_log_ratios(log_ratios_N: torch.Tensor, *, lengths: Sequence[int]) -> torch.Tensor:
    """Every token's log-ratio replaced by the mean over its reply (GSPO, arXiv 2507.18071, eq. 7).

    Args:
        log_ratios_N: New minus old log-probability of the tokens of several replies, one after the other.
        lengths: Tokens of each reply; they add up to N.
    """
    means = [part.mean().expand(len(part)) for part in torch.split(log_ratios_N, list(lengths))]
    return torch.cat(means)


def kl_per_token(logprobs_N: torch.Tensor, *, reference_N: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """KL(policy || reference) per token from the tokens sampled, by an estimator of Schulman's note on approximating KL.

    With d = reference - policy log-probability: k1 = -d (unbiased, of either sign; as a term of the loss its gradient is that
    of the log-probability alone), k2 = d^2 / 2, k3 = exp(d) - d - 1 (at least 0, "low variance"). d is held within +-20.
    """
    d_N = _bounded(reference_N - logprobs_N)
    if estimator is KlEstimator.K1:
        return -d_N
    return d_N.square() / 2 if estimator is KlEstimator.K2 else d_N.exp() - d_N - 1


def kl_to_go(kl_N: torch.Tensor, *, lengths: Sequence[int]) -> torch.Tensor:
    """Sum of the KL of a token and of those after it in its reply: what a penalty in the reward takes off the advantage."""
    return torch.cat([part.flip(0).cumsum(0).flip(0) for part in torch.split(kl_N, list(lengths))])


def sample_weights(samples: Sequence[TrainingSample], *, objective: Objective) -> list[float]:
    """What a token of each sample counts in the loss; over a whole minibatch, the loss is the weighted sum.

    Args:
        samples: All samples of the minibatch, those without gradient included.
        objective: ``loss_average``: tokens (every token alike), turns (every reply alike), episodes (every episode alike, every
            token of it alike), constant (every token 1 / ``loss_length``, every reply alike: arXiv 2503.20783).
    """
    if objective.loss_average is LossAverage.TOKENS:
        return [1.0 / sum(len(sample.token_ids) for sample in samples)] * len(samples)
    if objective.loss_average is LossAverage.TURNS:
        return [1.0 / (len(samples) * len(sample.token_ids)) for sample in samples]
    if objective.loss_average is LossAverage.CONSTANT:
        return [1.0 / (len(samples) * objective.loss_length)] * len(samples)
    tokens: Counter[tuple[int, int]] = Counter()
    for sample in samples:
        tokens[sample.group, sample.sibling] += len(sample.token_ids)
    return [1.0 / (len(tokens) * tokens[sample.group, sample.sibling]) for sample in samples]


def actor_loss(
    logprobs_N: torch.Tensor,
    *,
    old_N: torch.Tensor,
    advantages_N: torch.Tensor,
    weights_N: torch.Tensor,
    reference_N: torch.Tensor | None,
    lengths: Sequence[int],
    objective: Objective,
) -> ActorLoss:
    """The objective over some reply tokens, as a weighted sum, with what is worth watching.

    Args:
        logprobs_N: Log-probabilities under the present policy, with gradient.
        old_N: Under the policy of the rollout.
        advantages_N: Phi of each token's turn.
        weights_N: What each token counts, from `sample_weights`, times a correction of the sampler where there is one.
        reference_N: Under the reference policy; None leaves the KL term out.
        lengths: Tokens of each reply.
        objective: Ratio, clipping, estimator, place and weight of KL.
    """
    log_ratios_N = logprobs_N - old_N
    if objective.sequence_ratio:
        log_ratios_N = sequence_log_ratios(log_ratios_N, lengths=lengths)
    if reference_N is not None and objective.kl_in is KlPlace.REWARD:
        penalty_N = kl_per_token(old_N, reference_N=reference_N, estimator=objective.kl)
        advantages_N = advantages_N - objective.kl_coef * kl_to_go(penalty_N, lengths=lengths)
    loss_N = policy_loss(
        log_ratios_N,
        advantages_N=advantages_N,
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        dual_clip=objective.dual_clip,
    )
    sums = {"actor/pg_loss": loss_N.sum().item(), **_ratio_sums(log_ratios_N.detach(), advantages_N, objective)}
    if reference_N is not None:
        kl_N = kl_per_token(logprobs_N, reference_N=reference_N, estimator=objective.kl)
        sums["actor/kl_loss"] = kl_N.sum().item()
        if objective.kl_in is KlPlace.LOSS:
            loss_N = loss_N + objective.kl_coef * kl_N
    return ActorLoss(loss=(weights_N * loss_N).sum(), sums=sums)


def _ratio_sums(log_ratios_N: torch.Tensor, advantages_N: torch.Tensor, objective: Objective) -> dict[str, float]:
    ratio_N = _bounded(log_ratios_N).exp()
    outside_N = torch.where(advantages_N > 0, ratio_N > 1 + objective.clip_high, ratio_N < 1 - objective.clip_low)
    return {
        "actor/pg_clipfrac": float((outside_N & (advantages_N != 0)).sum().item()),
        "actor/ppo_kl": -log_ratios_N.sum().item(),
        "actor/ratio_capped": float((log_ratios_N.abs() > _LARGEST_LOG_RATIO).sum().item()),
    }


def _bounded(log_ratio_N: torch.Tensor) -> torch.Tensor:
    # before exp, not after: an overflow in a branch that is not taken still makes 0 x inf = NaN in the gradient
    return log_ratio_N.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
