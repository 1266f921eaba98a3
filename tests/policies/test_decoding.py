from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from dpepo.policies.decoding import BatchDecoder, RowReply, RowRequest, position_ids
from dpepo.types import Sampling

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def models() -> dict[str, PreTrainedModel]:
    torch.manual_seed(0)
    made: dict[str, PreTrainedModel] = {
        "qwen2": Qwen2ForCausalLM(Qwen2Config(**SMALL)),
        "qwen2, eager": Qwen2ForCausalLM(Qwen2Config(**{**SMALL, "attn_implementation": "eager"})),
        "qwen2, sliding": Qwen2ForCausalLM(
            Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=8, max_window_layers=1)
        ),
        "llama": LlamaForCausalLM(LlamaConfig(**SMALL)),
        "mistral, sliding": MistralForCausalLM(MistralConfig(**SMALL, sliding_window=8)),
        "gemma": GemmaForCausalLM(GemmaConfig(**{**SMALL, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0})),
        "gpt2": GPT2LMHeadModel(
            GPT2Config(
                vocab_size=60, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3, bos_token_id=None, eos_token_id=None
            )
        ),
    }
    for model in made.values():
        model.train(False)
    return made


def rows() -> list[RowRequest]:
    """Two siblings of each of six prompts of different lengths, sorted as the decoder wants them."""
    prompts = [tuple((7 * place + length) % 60 for place in range(length)) for length in (3, 9, 10, 14, 30, 31)]
    return [
        RowRequest(prompt=prompt, seed=10 * index + sibling, max_new=3 + 9 * (index % 3))
        for index, prompt in enumerate(prompts)
        for sibling in range(2)
    ]


def logprobs_afresh(model: PreTrainedModel, request: RowRequest, reply: RowReply, *, temperature: float) -> list[float]:
    """Log-probabilities of a reply by one plain forward pass: no cache, no padding, no batch."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*request.prompt, *reply.token_ids]])).logits[0].float()
    scores = torch.log_softmax(logits[len(request.prompt) - 1 : -1] / temperature, dim=-1)
    return [float(row[token]) for row, token in zip(scores, reply.token_ids, strict=True)]


def test_positions_start_at_the_first_real_token() -> None:
    """T05: mask 0 0 1 1 1 -> positions 0 0 0 1 2."""
    assert position_ids(torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("name", list(models()))
def test_a_padded_batch_gives_the_logprobs_of_each_reply_alone(name: str) -> None:
    """T05, T09: left-padded, cached, shrinking batches agree with one plain forward pass to 1e-4, for several architectures."""
    model = models()[name]
    decoder = BatchDecoder(model, stop_ids=[5, 11], prefill_tokens=40)
    replies = decoder.decode(rows(), sampling=Sampling(temperature=0.7))
    for request, reply in zip(rows(), replies, strict=True):
        assert 1 <= len(reply.token_ids) <= request.max_new
        assert reply.logprobs == pytest.approx(logprobs_afresh(model, request, reply, temperature=0.7), abs=1e-4)


def test_a_reply_ends_with_its_first_stop_token_or_at_its_limit() -> None:
    replies = BatchDecoder(models()["qwen2"], stop_ids=[5, 11, 17, 23], prefill_tokens=1000).decode(rows(), sampling=Sampling())
    assert {reply.stopped for reply in replies} == {True, False}
    for request, reply in zip(rows(), replies, strict=True):
        assert not {5, 11, 17, 23} & set(reply.token_ids[:-1])
        assert reply.stopped == (reply.token_ids[-1] in {5, 11, 17, 23})
        assert reply.stopped or len(reply.token_ids) == request.max_new


def test_chunks_of_the_prompts_change_nothing() -> None:
    model = models()["qwen2"]
    once, chunked = (
        BatchDecoder(model, stop_ids=[5], prefill_tokens=tokens).decode(rows(), sampling=Sampling()) for tokens in (10_000, 1)
    )
    assert [reply.token_ids for reply in once] == [reply.token_ids for reply in chunked]


def test_long_replies_outgrow_the_first_buffer() -> None:
    """B08: the cache grows with the reply; past 32 tokens its buffer has to be replaced."""
    model = models()["llama"]
    request = RowRequest(prompt=(1, 2, 3), seed=1, max_new=150)
    [reply] = BatchDecoder(model, stop_ids=[], prefill_tokens=100).decode([request], sampling=Sampling())
    assert len(reply.token_ids) == 150
    assert reply.logprobs == pytest.approx(logprobs_afresh(model, request, reply, temperature=1.0), abs=1e-4)


def test_equal_prompts_are_read_once() -> None:
    model = models()["qwen2"]
    read: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _, args, __: read.append(args[0].numel()))
    sibling_rows = [RowRequest(prompt=tuple(range(20)), seed=seed, max_new=1) for seed in range(8)]
    BatchDecoder(model, stop_ids=[], prefill_tokens=1000).decode(sibling_rows, sampling=Sampling())
    hook.remove()
    assert read == [20]
