"""The value of a prompt, for PPO: a linear head on the model's last hidden state where the reply begins.

Shapes: B prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dpepo.learning.batching import build_batches
from dpepo.learning.forward import last_hidden
from dpepo.types import TrainingSample

Ids = tuple[int, ...]


class ValueHead(torch.nn.Linear):
    """One number per prompt; 0 before it has learnt anything. Kept with the optimiser's state, never exported."""

    def __init__(self, model: Any) -> None:
        """Make a head for a model, in float32 and on its device."""
        hidden = int(model.config.get_text_config().hidden_size)
        super().__init__(hidden, 1, device=next(model.parameters()).device, dtype=torch.float32)
        torch.nn.init.zeros_(self.weight)
        torch.nn.init.zeros_(self.bias)


def prompt_values(
    model: Any, head: ValueHead, prompts: Sequence[Ids], *, max_tokens: int, share_prompts: bool
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Values of prompts, forward pass by forward pass.

    Args:
        model: A causal language model of transformers, or one wrapped by PEFT.
        head: Its value head.
        prompts: Token ids, at least one each.
        max_tokens: Positions per forward pass, padding included.
        share_prompts: Whether shared beginnings are computed once; see `dpepo.learning.forward.can_share_prompts`.

    Yields:
        Places in ``prompts`` and the values of those, with gradient where gradients are on.
    """
    # a reply of one token, whichever, is predicted where the prompt ends
    samples = [TrainingSample(prompt_token_ids=prompt, token_ids=(0,), logprobs=(0.0,), advantage=0.0) for prompt in prompts]
    place = {id(sample): number for number, sample in enumerate(samples)}
    batches = build_batches(
        samples,
        max_tokens=max_tokens,
        share_prompts=share_prompts,
        device=head.weight.device,
        dtype=model.get_input_embeddings().weight.dtype,
    )
    for batch in batches:
        yield [place[id(sample)] for sample in batch.samples], head(last_hidden(model, batch).float()).squeeze(-1)


def value_loss(values_B: torch.Tensor, *, old_B: torch.Tensor, targets_B: torch.Tensor, clip: float) -> torch.Tensor:
    """Half the squared error per prompt, the larger of free and clipped (PPO's public implementation).

    Args:
        values_B: V now, with gradient.
        old_B: V at the time of the rollout.
        targets_B: Advantage plus old value.
        clip: How far V may move from its old value before it stops paying.
    """
    held_B = old_B + (values_B - old_B).clamp(-clip, clip)
    return 0.5 * torch.maximum((values_B - targets_B).square(), (held_B - targets_B).square())
