"""The value of a prompt, for PPO: a linear head on the model's last hidden state where the reply begins.

Shapes: B prompts, D of them different, L positions, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

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
    model: Any, head: ValueHead, prompts: Sequence[Ids], *, max_tokens: int
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Values of prompts, in forward passes of prompts of similar length; equal prompts are computed once.

    Args:
        model: A causal language model of transformers, or one wrapped by PEFT.
        head: Its value head.
        prompts: Token ids, at least one each.
        max_tokens: Positions per forward pass, padding included.

    Yields:
        Places in ``prompts`` and the values of those, with gradient where gradients are on.
    """
    places: dict[Ids, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(prompt, []).append(place)
    parts: list[list[Ids]] = []
    for prompt in sorted(places, key=len):
        if parts and (len(parts[-1]) + 1) * len(prompt) <= max_tokens:
            parts[-1].append(prompt)
        else:
            parts.append([prompt])
    for part in parts:
        values_D = _values(model, head, part)
        rows = [row for row, prompt in enumerate(part) for _ in places[prompt]]
        yield [place for prompt in part for place in places[prompt]], values_D[torch.tensor(rows, device=values_D.device)]


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


def _values(model: Any, head: ValueHead, prompts: Sequence[Ids]) -> torch.Tensor:
    longest = max(map(len, prompts))
    device = head.weight.device
    ids_BL = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device)
    last_B = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)
    # padded on the right: a causal model never looks there from where the value is read
    hidden_BLH = model(input_ids=ids_BL, output_hidden_states=True, logits_to_keep=1, use_cache=False).hidden_states[-1]
    values: torch.Tensor = head(hidden_BLH[torch.arange(len(prompts), device=device), last_B].float()).squeeze(-1)
    return values
