"""Small models and samples for the tests of learning."""

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from dpepo.types import TrainingSample


def tiny_model(*, attention: str = "sdpa", seed: int = 0, **settings: Any) -> Any:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=23,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        max_position_embeddings=128,
        initializer_range=0.4,
        **settings,
    )
    config._attn_implementation = attention
    model: Any = Qwen2ForCausalLM(config)
    return model.eval()


def sample(
    prompt: tuple[int, ...],
    reply: tuple[int, ...],
    *,
    advantage: float = 1.0,
    logprobs: tuple[float, ...] | None = None,
    place: tuple[int, int, int] = (0, 0, 0),
) -> TrainingSample:
    group, sibling, turn = place
    return TrainingSample(
        prompt_token_ids=prompt,
        token_ids=reply,
        logprobs=(-3.0,) * len(reply) if logprobs is None else logprobs,
        advantage=advantage,
        group=group,
        sibling=sibling,
        turn=turn,
    )


def plain_logprobs(model: Any, prompt: tuple[int, ...], reply: tuple[int, ...], *, temperature: float = 1.0) -> list[float]:
    """Log-probabilities of a reply, one sequence alone and nothing clever."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *reply]])).logits[0].double() / temperature
    rows = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
    return [float(row[token]) for row, token in zip(rows, reply, strict=True)]
