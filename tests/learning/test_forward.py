"""Packs against the plain computation: every sequence alone, all logits, `log_softmax`."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.support.tiny_models import sample, tiny_model
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from dpepo.config import LoraConfig
from dpepo.learning.batching import build_batches
from dpepo.learning.forward import can_share_prompts, score_tokens
from dpepo.policies.lora import add_adapter

_SHAPE: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
_MODELS: dict[str, Callable[[], Any]] = {
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{**_SHAPE, "tie_word_embeddings": True})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**_SHAPE)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**_SHAPE)),
}
_SAMPLES = [
    sample((1, 2, 3, 4, 5), (6, 7, 8)),
    sample((1, 2, 3, 4, 5), (6, 7, 9, 10)),
    sample((1, 2, 3, 4, 5), (6, 7, 8)),
    sample((1, 2, 3, 11, 12, 13, 14), (15,)),
    sample((1, 2, 3, 11, 12, 13, 14, 15, 16), (17, 18)),
    sample((20, 21), (22, 23, 24, 25, 26)),
    sample((1, 2), (3, 4)),  # begins like the others, and ends inside their prompt
]


def _model(family: str, adapter: bool) -> Any:
    torch.manual_seed(0)
    model = _MODELS[family]().train(False)
    if not adapter:
        return model
    model = add_adapter(model, LoraConfig(rank=4, alpha=8), base="", seed=0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # zero at first, which would hide the others' gradients
            torch.nn.init.normal_(parameter, std=0.2)
    return model.train(False)


def _loss(logprobs_N: torch.Tensor, token: int = 0) -> torch.Tensor:
    """Any function that weighs every token differently."""
    weights = torch.arange(token + 1, token + 1 + len(logprobs_N), dtype=logprobs_N.dtype).cos()
    return (weights * logprobs_N + 0.1 * logprobs_N.square()).sum()


def _gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert found
    return found


def _plain(model: Any) -> tuple[dict[int, tuple[torch.Tensor, torch.Tensor]], dict[str, torch.Tensor]]:
    scores = {}
    for number, one in enumerate(_SAMPLES):
        logits = model(torch.tensor([[*one.prompt_token_ids, *one.token_ids]])).logits[0] / 0.7
        logprobs_LV = torch.log_softmax(logits, dim=-1)[len(one.prompt_token_ids) - 1 : -1]
        logprobs = logprobs_LV.gather(-1, torch.tensor(one.token_ids).unsqueeze(-1)).squeeze(-1)
        _loss(logprobs, token=100 * number).backward()  # type: ignore[no-untyped-call]
        scores[id(one)] = logprobs.detach(), torch.special.entr(logprobs_LV.detach().exp()).sum(-1)
    return scores, _gradients(model)


def _ours(
    model: Any, *, share: bool = True, max_tokens: int = 1000, **settings: Any
) -> tuple[dict[int, tuple[torch.Tensor, torch.Tensor]], dict[str, torch.Tensor]]:
    number = {id(one): place for place, one in enumerate(_SAMPLES)}
    scores = {}
    for batch in build_batches(_SAMPLES, max_tokens=max_tokens, share_prompts=share):
        found = score_tokens(model, batch, temperature=0.7, **settings)
        lengths = [len(one.token_ids) for one in batch.samples]
        parts = [torch.split(values, lengths) for values in found]
        for one, logprobs, entropy in zip(batch.samples, *parts, strict=True):
            scores[id(one)] = logprobs.detach(), entropy
        losses = [_loss(logprobs, token=100 * number[id(one)]) for one, logprobs in zip(batch.samples, parts[0], strict=True)]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return scores, _gradients(model)


def _assert_same(ours: Any, plain: Any) -> None:
    for key, (logprobs, entropy) in plain[0].items():
        torch.testing.assert_close(ours[0][key][0], logprobs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours[0][key][1], entropy, rtol=1e-5, atol=1e-5)
    assert ours[1].keys() == plain[1].keys()
    for name, gradient in plain[1].items():
        largest = float(gradient.abs().max())
        torch.testing.assert_close(ours[1][name], gradient, rtol=1e-5, atol=1e-5 * max(largest, 1.0), msg=name)


@pytest.mark.parametrize("adapter", [False, True], ids=["all weights", "adapter"])
@pytest.mark.parametrize("family", _MODELS)
@pytest.mark.parametrize(
    "settings", [{}, {"max_tokens": 12}, {"chunk_logits": 122}, {"share": False, "chunk_logits": 122}], ids=str
)
def test_scores_and_gradients_are_those_of_every_sequence_alone(family: str, adapter: bool, settings: dict[str, Any]) -> None:
    """Log-probabilities, entropies and gradients to 1e-5 in float32."""
    model = _model(family, adapter)
    other = copy.deepcopy(model)
    assert can_share_prompts(model)
    _assert_same(_ours(model, **settings), _plain(other))


def test_layers_computed_again_give_the_same_gradients() -> None:
    model, other = _model("qwen2", False), _model("qwen2", False)
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    model.train()  # layers are computed again in training mode only; there is no dropout
    _assert_same(_ours(model), _plain(other))


def test_a_pack_is_smaller_than_its_samples() -> None:
    (batch,) = build_batches(_SAMPLES, max_tokens=1000, share_prompts=True)
    assert batch.input_ids_BL.numel() < sum(len(one.prompt_token_ids) + len(one.token_ids) - 1 for one in _SAMPLES) * 0.6


def test_models_that_do_not_leave_attention_to_us_are_computed_row_by_row() -> None:
    settings: dict[str, Any] = {**_SHAPE, "pad_token_id": 0}
    window = Qwen2ForCausalLM(Qwen2Config(**_SHAPE, use_sliding_window=True, sliding_window=4, max_window_layers=1)).train(
        False
    )
    capped = Gemma2ForCausalLM(Gemma2Config(**settings, sliding_window=4)).train(False)
    mistral = MistralForCausalLM(MistralConfig(**_SHAPE, sliding_window=4)).train(False)
    assert not any(can_share_prompts(model) for model in (window, capped, mistral, tiny_model(attention="eager")))
    assert can_share_prompts(tiny_model())


def test_learnt_positions_are_taken_from_the_depth_in_the_tree() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.2))
    model.train(False)
    assert can_share_prompts(model)
    _assert_same(_ours(model), _plain(copy.deepcopy(model)))


def test_a_pack_for_a_model_that_ignores_it_is_refused() -> None:
    (batch,) = build_batches(_SAMPLES[:1], max_tokens=100, share_prompts=True)
    with pytest.raises(ValueError, match="can_share_prompts"):
        score_tokens(tiny_model(attention="eager"), batch)


def test_logits_that_are_capped_after_the_head_are_not_computed_in_chunks() -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = {**_SHAPE, "pad_token_id": 0, "final_logit_softcapping": 0.5, "attn_logit_softcapping": None}
    model = Gemma2ForCausalLM(Gemma2Config(**settings, sliding_window=128)).train(False)
    _assert_same(_ours(model, share=False, chunk_logits=122), _plain(copy.deepcopy(model)))


def test_attention_without_a_tree_is_what_it_was() -> None:
    """Sampling goes through the same registered entry."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    torch.manual_seed(0)
    query, key, value = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
    layer = tiny_model().model.layers[0].self_attn
    settings: list[dict[str, Any]] = [{}, {"dropout": 0.0, "scaling": 0.3}]
    for arguments in settings:
        ours = ALL_ATTENTION_FUNCTIONS["sdpa"](layer, query, key, value, None, **arguments)[0]
        assert torch.equal(ours, sdpa_attention_forward(layer, query, key, value, None, **arguments)[0])
