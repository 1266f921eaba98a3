"""One forward pass of a Hugging Face causal language model over a `TrainBatch`: log-probabilities of the reply tokens.

Logits are asked for only at positions that predict a reply token (`logits_to_keep`), so that a large vocabulary costs
nothing over the prompt, whatever the model does after its last layer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from dpepo.learning.batching import TrainBatch


class TokenScores(NamedTuple):
    """What a model says about the reply tokens of a batch, in the order of the batch."""

    logprobs_N: torch.Tensor  # natural logs at the temperature, float32
    entropy_N: torch.Tensor  # of the distribution each token was drawn from, in nats; without gradient


def score_tokens(model: torch.nn.Module, batch: TrainBatch, *, temperature: float = 1.0) -> TokenScores:
    """Log-probability and entropy of every reply token.

    Args:
        model: A causal language model of transformers, or one wrapped by PEFT.
        batch: From `build_batches`, on the model's device.
        temperature: Logits are divided by it first, as they were when the tokens were drawn; above 0.
    """
    logits_BSV = model(
        input_ids=batch.input_ids_BL,
        attention_mask=batch.mask_B1LL,
        position_ids=batch.position_ids_BL,
        logits_to_keep=batch.keep_S,
        use_cache=False,
    ).logits
    logits_NV = logits_BSV[batch.row_N, batch.kept_N].float() / temperature
    logprobs_NV = torch.log_softmax(logits_NV, dim=-1)
    logprobs_N = logprobs_NV.gather(-1, batch.target_N.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy_N = torch.special.entr(logprobs_NV.exp()).sum(-1)
    return TokenScores(logprobs_N, entropy_N)


def can_share_prompts(model: Any) -> bool:
    """Whether a model takes an explicit mask exactly: dense attention in every layer, by a kernel that reads masks."""
    config = model.config
    dense = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    windowed = getattr(config, "sliding_window", None) is not None and not hasattr(config, "layer_types")
    reads_masks = getattr(config, "_attn_implementation", "") in {"sdpa", "eager"} and getattr(model, "_supports_sdpa", False)
    return dense and not windowed and bool(reads_masks)
