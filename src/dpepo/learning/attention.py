"""Attention over a pack of sequences that share their beginnings, inside any model of transformers that calls "sdpa".

Layers reach attention through transformers' registry; its entry "sdpa" is wrapped here, once. A call that carries `tree=`
(models hand such arguments down from `forward`) is answered block by block, every other call by what was registered before.
The entry is wrapped rather than a new one added because a layer that is computed again for its gradient reads the name of its
attention then, after the forward pass, and because sampling goes on with the same model and its name in between.

Shapes: T positions of the pack, H heads, G key-value heads, D head width; within a block R spans, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from dpepo.learning.trees import CPU_COSTS, GPU_COSTS, Pack, Span, ancestors_in_span, build_blocks

IMPLEMENTATION = "sdpa"


@dataclass(frozen=True, kw_only=True)
class Block:
    """Spans computed by one call."""

    num_spans: int
    num_queries: int
    num_keys: int
    mask_R1QK: torch.Tensor | None  # added to scores; None: causal


@dataclass(kw_only=True)
class AttentionTree:
    """Who looks at whom in a pack, on its device."""

    blocks: list[Block]
    queries_N: torch.Tensor  # positions of the pack, block by block, span by span; padding is position 0
    keys_M: torch.Tensor  # likewise
    place_T: torch.Tensor  # where in `queries_N` each position of the pack stands
    num_uses: int = 0  # layers that asked so far


def attention_tree(pack: Pack, *, device: torch.device, dtype: torch.dtype) -> AttentionTree:
    """Lay out the attention of a pack."""
    blocks: list[Block] = []
    queries: list[int] = []
    keys: list[int] = []
    place = [0] * len(pack.ids)
    for spans in build_blocks(pack, costs=CPU_COSTS if device.type == "cpu" else GPU_COSTS):
        num_queries, num_keys = max(span.num_queries for span in spans), max(span.num_keys for span in spans)
        for span in spans:
            own = range(span.start, span.end)
            place[span.start : span.end] = range(len(queries), len(queries) + len(own))
            queries += [*own, *[0] * (num_queries - len(own))]
            keys += [*span.before, *own, *[0] * (num_keys - span.num_keys)]
        mask = None if spans[0].causal else _mask(spans, num_queries, num_keys, dtype=dtype).to(device)
        blocks.append(Block(num_spans=len(spans), num_queries=num_queries, num_keys=num_keys, mask_R1QK=mask))
    queries_N, keys_M, place_T = (torch.tensor(indices, device=device) for indices in (queries, keys, place))
    return AttentionTree(blocks=blocks, queries_N=queries_N, keys_M=keys_M, place_T=place_T)


def _mask(spans: Sequence[Span], num_queries: int, num_keys: int, *, dtype: torch.dtype) -> torch.Tensor:
    seen = torch.zeros(len(spans), num_queries, num_keys, dtype=torch.bool)
    for row, span in zip(seen, spans, strict=True):
        inside = len(span.before)
        for segment in span.segments:
            own = slice(segment.start - span.start, segment.end - span.start)
            outside, within = ancestors_in_span(segment, span)
            row[own, :outside] = True
            row[own, [inside + position for position in within]] = True
            size = own.stop - own.start
            row[own, inside + own.start : inside + own.stop] = torch.ones(size, size, dtype=torch.bool).tril_()
    # the lowest number, not minus infinity: a row of padding sees nothing, and the mean of nothing is NaN
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min).unsqueeze(1)


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, tree: AttentionTree, **settings: Any
) -> torch.Tensor:
    """Output (1, T, H, D) for queries (1, H, T, D), keys and values (1, G, T, D)."""
    # rows are copied as from an embedding, whose backward pass adds them up several times faster than that of an index
    query_N, key_M, value_M = (
        embedding(indices, states[0].transpose(0, 1).flatten(1))
        for indices, states in ((tree.queries_N, query), (tree.keys_M, key), (tree.keys_M, value))
    )
    width = query.shape[3]
    found = [
        _block(
            query_RQ.view(block.num_spans, block.num_queries, -1, width).transpose(1, 2),
            key_RK.view(block.num_spans, block.num_keys, -1, width).transpose(1, 2),
            value_RK.view(block.num_spans, block.num_keys, key.shape[1], -1).transpose(1, 2),
            block=block,
            **settings,
        )
        for block, query_RQ, key_RK, value_RK in zip(
            tree.blocks,
            torch.split(query_N, [block.num_spans * block.num_queries for block in tree.blocks]),
            torch.split(key_M, [block.num_spans * block.num_keys for block in tree.blocks]),
            torch.split(value_M, [block.num_spans * block.num_keys for block in tree.blocks]),
            strict=True,
        )
    ]
    return embedding(tree.place_T, torch.cat(found)).view(1, query.shape[2], query.shape[1], -1)


def _block(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    block: Block,
    scaling: float | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """Output (R x Q, H x D) for queries (R, H, Q, D), keys and values (R, G, K, D)."""
    mask = block.mask_R1QK
    grouped = key.shape[1] != query.shape[1]
    if grouped and mask is not None and query.device.type != "cpu":  # fused kernels there take a mask or groups, not both
        key, value = (states.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for states in (key, value))
        grouped = False
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=mask is None, scale=scaling, enable_gqa=grouped
    )
    return output.transpose(1, 2).flatten(2).flatten(0, 1)


def _wrapped(plain: Callable[..., Any]) -> Callable[..., Any]:
    def attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        *,
        tree: AttentionTree | None = None,
        **arguments: Any,
    ) -> tuple[torch.Tensor, Any]:
        if tree is None:
            return plain(module, query, key, value, attention_mask, **arguments)  # type: ignore[no-any-return]
        tree.num_uses += 1
        settings = {name: arguments[name] for name in ("scaling", "dropout") if name in arguments}
        return _attend(query, key, value, tree=tree, **settings), None

    return attention


AttentionInterface.register(IMPLEMENTATION, _wrapped(ALL_ATTENTION_FUNCTIONS[IMPLEMENTATION]))
