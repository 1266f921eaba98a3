"""From logits to what is needed of them: the log-probability of the token that followed, and the entropy.

A log-softmax would keep a second array as large as the logits for its gradient, and entropy would make a third. Here the
logits are kept, once, and their gradient is computed in one array.

Shapes: U positions, N tokens that followed (several may have followed the same position), V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch


class TokenScores(NamedTuple):
    """What a model says about the reply tokens of a batch, in the order of the batch."""

    logprobs_N: torch.Tensor  # natural logs at the temperature, float32
    entropy_N: torch.Tensor  # of the distribution each token was drawn from, in nats; without gradient


def target_scores(
    logits_UV: torch.Tensor, *, node_N: torch.Tensor, target_N: torch.Tensor, temperature: float = 1.0
) -> TokenScores:
    """Log-probability and entropy of tokens.

    Args:
        logits_UV: Any floating type; computed on in float32, or float64 where they are.
        node_N: The row of each token, in U.
        target_N: The token, in V.
        temperature: Logits are divided by it; above 0.
    """
    scores = _TargetScores.apply(logits_UV, node_N, target_N, temperature)  # type: ignore[no-untyped-call]
    return TokenScores(*cast("tuple[torch.Tensor, torch.Tensor]", scores))


class _TargetScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_UV: torch.Tensor, node_N: torch.Tensor, target_N: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scaled_UV = _scaled(logits_UV, temperature)
        total_U = torch.logsumexp(scaled_UV, dim=-1)
        logprobs_N = scaled_UV[node_N, target_N] - total_U[node_N]
        # p log p summed, where an impossible token (p = 0, log p = -inf) counts 0 and not NaN
        mean_U = (scaled_UV - total_U.unsqueeze(-1)).exp_().mul_(scaled_UV).nansum(dim=-1)
        entropy_N = (total_U - mean_U)[node_N]
        ctx.save_for_backward(logits_UV, total_U, node_N, target_N)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        logits_UV, total_U, node_N, target_N = ctx.saved_tensors
        grad_N = grads[0]
        grad_U = torch.zeros_like(total_U).index_add_(0, node_N, grad_N)
        grad_UV = (_scaled(logits_UV, ctx.temperature) - total_U.unsqueeze(-1)).exp_().mul_(-grad_U.unsqueeze(-1))
        grad_UV.index_put_((node_N, target_N), grad_N, accumulate=True)
        if ctx.temperature != 1.0:
            grad_UV /= ctx.temperature
        return grad_UV.to(logits_UV.dtype), None, None, None


def _scaled(logits_UV: torch.Tensor, temperature: float) -> torch.Tensor:
    exact_UV = logits_UV if logits_UV.dtype == torch.float64 else logits_UV.float()
    return exact_UV if temperature == 1.0 else exact_UV / temperature
