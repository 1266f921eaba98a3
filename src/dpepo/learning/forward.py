"""One forward pass of a Hugging Face causal language model over a `TrainBatch`: log-probabilities of the reply tokens.

Logits are computed only at positions that predict a reply token, so that a large vocabulary costs nothing over the prompt, and
once where several replies share the position. Where even those are many, they are computed chunk by chunk, and again for their
gradient: what is kept is the hidden state.

Shapes: B rows, S positions kept, U different positions that predict something, N reply tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch.utils.checkpoint import checkpoint

from dpepo.learning.attention import IMPLEMENTATION
from dpepo.learning.batching import TrainBatch, build_batches
from dpepo.learning.scores import TokenScores, target_scores
from dpepo.types import TrainingSample

CHUNK_LOGITS = 2**24  # logits in memory at a time: 64 MiB in float32

_Head = Callable[[torch.Tensor], torch.Tensor]
_changed_after_head: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()  # models found to scale or cap logits


def score_tokens(
    model: torch.nn.Module, batch: TrainBatch, *, temperature: float = 1.0, chunk_logits: int = CHUNK_LOGITS
) -> TokenScores:
    """Log-probability and entropy of every reply token.

    Args:
        model: A causal language model of transformers, or one wrapped by PEFT.
        batch: From `build_batches`, on the model's device.
        temperature: Logits are divided by it first, as they were when the tokens were drawn; above 0.
        chunk_logits: Logits in memory at a time, if the head is the model's last step. Has no effect on the result.
    """
    head: Any = cast("Any", model).get_output_embeddings()
    rows = max(1, chunk_logits // cast("Any", model).config.get_text_config().vocab_size)
    if len(batch.input_ids_BL) * len(batch.keep_S) > rows and head is not None and model not in _changed_after_head:
        hidden_UH = _hidden(model, head, batch)
        if hidden_UH is not None:
            return _chunked(head, hidden_UH, batch, temperature=temperature, rows=rows)
        _changed_after_head[model] = True
    logits_UV = _forward(model, batch).flatten(0, 1)[batch.nodes_U]
    return target_scores(logits_UV, node_N=batch.node_N, target_N=batch.target_N, temperature=temperature)


def last_hidden(model: torch.nn.Module, batch: TrainBatch) -> torch.Tensor:
    """What the model's head is given where each reply token is predicted, (N, H), with gradient; no logits are computed."""
    hidden_BSH, _ = _caught(model, cast("Any", model).get_output_embeddings(), batch)
    return hidden_BSH.flatten(0, 1)[batch.nodes_U][batch.node_N]


def can_share_prompts(model: Any) -> bool:
    """Whether a model computes packs exactly: dense attention in every layer, which it leaves to `dpepo.learning.attention`.

    What the configuration does not tell is tried: a small pack has to use the tree in every layer and give what its samples
    give one by one.
    """
    config = model.config.get_text_config()
    dense = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    windowed = getattr(config, "sliding_window", None) is not None and not hasattr(config, "layer_types")
    if not dense or windowed or getattr(config, "_attn_implementation", "") != IMPLEMENTATION:
        return False
    return _computes_packs(model, vocabulary=config.vocab_size, num_layers=config.num_hidden_layers)


@torch.no_grad()
def _computes_packs(model: Any, *, vocabulary: int, num_layers: int) -> bool:
    samples = [
        TrainingSample(
            prompt_token_ids=tuple(token % vocabulary for token in prompt),
            token_ids=tuple(token % vocabulary for token in reply),
            logprobs=(0.0, 0.0),
            advantage=0.0,
        )
        for prompt, reply in (((1, 2, 3), (4, 5)), ((1, 2, 3), (6, 7)), ((1, 2, 8, 9), (2, 3)), ((5, 1), (1, 2)))
    ]
    embedding = model.get_input_embeddings().weight
    was_training = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        packed, plain = (
            build_batches(samples, max_tokens=64, share_prompts=share, device=embedding.device, dtype=embedding.dtype)
            for share in (True, False)
        )
        try:
            shared = score_tokens(model, packed[0]).logprobs_N
        except (TypeError, ValueError):  # its `forward` takes no further arguments, or does not hand them down
            return False
        alone = torch.cat([score_tokens(model, batch).logprobs_N for batch in plain])
    finally:
        for module, training in was_training:
            module.training = training
    order = {id(sample): number for number, sample in enumerate(sample for batch in plain for sample in batch.samples)}
    places = [2 * order[id(sample)] + token for sample in packed[0].samples for token in (0, 1)]
    tree = packed[0].tree
    close = torch.allclose(shared, alone[places], atol=1e-4 if embedding.dtype == torch.float32 else 0.1)
    return tree is not None and tree.num_uses == num_layers and close


def _forward(model: torch.nn.Module, batch: TrainBatch) -> torch.Tensor:
    """Logits (B, S, V).

    Raises:
        ValueError: A pack, and a model that does not look at its tree.
    """
    tree, arguments = batch.tree, {}
    uses = 0 if tree is None else tree.num_uses
    if tree is not None:
        # a mask of four dimensions is handed down as it is; without one, a mask over the whole pack would be made
        arguments = {"tree": tree, "attention_mask": torch.ones(1, 1, 1, 1, device=batch.input_ids_BL.device)}
    logits_BSV: torch.Tensor = model(
        input_ids=batch.input_ids_BL,
        position_ids=batch.position_ids_BL,
        logits_to_keep=batch.keep_S,
        use_cache=False,
        **arguments,
    ).logits
    if tree is not None and tree.num_uses == uses:
        raise ValueError(f"{type(model).__name__} cannot compute packs: ask can_share_prompts first")
    return logits_BSV


def _hidden(model: torch.nn.Module, head: Any, batch: TrainBatch) -> torch.Tensor | None:
    """What the head is given at the positions needed, (U, H); None where the model changes logits after its head."""
    hidden_BSH, logits_11V = _caught(model, head, batch)
    with torch.no_grad():
        same = torch.equal(logits_11V, head(hidden_BSH[:1, :1]).to(logits_11V.dtype))
    return hidden_BSH.flatten(0, 1)[batch.nodes_U] if same else None


def _caught(model: torch.nn.Module, head: Any, batch: TrainBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """What the head is given, (B, S, H), and the first of its logits, (1, 1, V)."""
    given: list[torch.Tensor] = []

    def catch(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        given.append(arguments[0])
        return (arguments[0][:1, :1], *arguments[1:])

    hook = head.register_forward_pre_hook(catch)
    try:
        logits_11V = _forward(model, batch)
    finally:
        hook.remove()
    return given[0], logits_11V


def _chunked(head: _Head, hidden_UH: torch.Tensor, batch: TrainBatch, *, temperature: float, rows: int) -> TokenScores:
    def part(hidden_CH: torch.Tensor, node_M: torch.Tensor, target_M: torch.Tensor) -> TokenScores:
        return target_scores(head(hidden_CH), node_N=node_M, target_N=target_M, temperature=temperature)

    places, parts = [], []
    for start in range(0, len(hidden_UH), rows):
        place_M = ((batch.node_N >= start) & (batch.node_N < start + rows)).nonzero().squeeze(-1)
        inputs = hidden_UH[start : start + rows], batch.node_N[place_M] - start, batch.target_N[place_M]
        places.append(place_M)
        parts.append(cast("TokenScores", checkpoint(part, *inputs, use_reentrant=False, preserve_rng_state=False)))
    back_N = torch.argsort(torch.cat(places))
    logprobs_N, entropy_N = (torch.cat(scores)[back_N] for scores in zip(*parts, strict=True))
    return TokenScores(logprobs_N, entropy_N)
