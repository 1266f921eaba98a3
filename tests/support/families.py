"""Tiny random models of the supported families, and adapters with weights that do something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from dpepo.demo.words import build_tokenizer

FAMILIES = ("qwen2", "qwen3", "llama")
_KINDS: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}
PHRASES = ("go to", "open", "take", "look", "red box", "green box", "blue box", "key", "coin", "lamp", "and", "then", "stop")


def write_family(folder: Path, family: str, *, tied: bool = True, seed: int = 0, **settings: Any) -> Path:
    """A model folder of a family, with a tokenizer of a few dozen words."""
    tokenizer = build_tokenizer(PHRASES, rooms=("kitchen", "hall"))
    configuration, model = _KINDS[family]
    config = configuration(
        vocab_size=len(tokenizer),
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        tie_word_embeddings=tied,
        max_position_embeddings=128,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        **{"hidden_size": 16, **settings},
    )
    torch.manual_seed(seed)
    model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def shake(model: Any, *, seed: int = 1, size: float = 0.2) -> None:
    """Give an adapter weights that change what the model says, as training would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)


def logits(model: Any, ids: tuple[int, ...] = (5, 6, 7, 8, 9)) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=torch.tensor([ids])).logits[0]
    return found
