"""Answering one batch of prompts with a causal language model of transformers: prefill once, then token by token.

Not `model.generate`: the generation settings in a model folder (temperature, top_k, repetition penalty) fill whatever a
caller leaves unset there. Here nothing but the arguments counts.

Legend of shapes: B rows (replies), U different prompts, W tokens of the longest prompt, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from dpepo.policies.kv import RoomyLayer
from dpepo.policies.sampling import draw, uniforms
from dpepo.types import Sampling

_SHRINK_AT = 0.75  # finished rows are dropped when at most this share of the rows is still going


@dataclass(frozen=True, kw_only=True)
class RowRequest:
    """One reply to draw."""

    prompt: tuple[int, ...]  # at least one token
    seed: int
    max_new: int  # at least 1


@dataclass(frozen=True, kw_only=True)
class RowReply:
    """One reply drawn."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool  # ended by a stop token, which is the last of `token_ids`


def position_ids(mask: torch.Tensor) -> torch.Tensor:
    """Positions counted from the first real token of each row: mask ``0 0 1 1 1`` gives ``0 0 0 1 2``.

    Args:
        mask: 1 for tokens, 0 for padding; shape (rows, tokens).

    Returns:
        int64 of the same shape.
    """
    return (mask.long().cumsum(dim=-1) - 1).clamp_(min=0)


class BatchDecoder:
    """Holds what stays the same between batches: the model, its stop tokens and how it wants to be called."""

    def __init__(self, model: PreTrainedModel, *, stop_ids: Sequence[int], prefill_tokens: int) -> None:
        """Look at the model once.

        Args:
            model: A causal language model; it is neither moved nor changed.
            stop_ids: Token ids that end a reply.
            prefill_tokens: Prompt tokens, padding included, in one forward pass; bounds memory, no effect on the result.
        """
        self._model = model
        embedding = model.get_input_embeddings().weight
        assert isinstance(embedding, torch.Tensor)
        self._device = embedding.device
        self._dtype = embedding.dtype
        self._stop_ids = frozenset(stop_ids)
        self._stops = torch.tensor(sorted(self._stop_ids), dtype=torch.long, device=self._device)
        self._prefill_tokens = prefill_tokens
        self._cache_argument = _cache_argument(model)
        self._own_mask = _takes_plain_mask(model)

    @torch.no_grad()
    def decode(self, rows: Sequence[RowRequest], *, sampling: Sampling) -> list[RowReply]:
        """Draw a reply for every row.

        Args:
            rows: Sorted so that equal prompts are neighbours; they are read once. At least one.
            sampling: Temperature and nucleus mass; its ``max_new_tokens`` is not used, each row has its own.

        Returns:
            One reply per row, in order.
        """
        batch = _Batch(rows, device=self._device, dtype=self._dtype)
        cache, logits_BV = self._prefill(batch)
        for step in range(batch.max_new):
            drawn = draw(logits_BV, batch.uniforms_BL[:, step], temperature=sampling.temperature, top_p=sampling.top_p)
            batch.record(step, drawn.ids_B, drawn.logprobs_B, is_stop_B=torch.isin(drawn.ids_B, self._stops))
            alive = batch.num_alive()
            if alive == 0:
                break
            ids_B = drawn.ids_B
            if alive <= _SHRINK_AT * len(ids_B):
                kept = batch.keep_alive()
                ids_B = ids_B[kept]
                for layer in cache.layers:
                    assert isinstance(layer, RoomyLayer)
                    layer.select(kept)
            logits_BV = self._forward(
                ids_B.unsqueeze(-1), mask=batch.mask(step + 1, own=self._own_mask), positions=batch.positions(step), cache=cache
            )
        return batch.replies(self._stop_ids)

    def _prefill(self, batch: _Batch) -> tuple[Cache, torch.Tensor]:
        """Read every different prompt once and copy its past to all rows that share it."""
        layers: list[RoomyLayer] = []
        logits = []
        for rows in batch.prefill_chunks(self._prefill_tokens):
            prompts = list(dict.fromkeys(batch.prompts[rows]))
            owner = torch.tensor([prompts.index(prompt) for prompt in batch.prompts[rows]], device=self._device)
            ids_UW, mask_UW = _left_padded(prompts, device=self._device)
            past = DynamicCache()
            logits_UV = self._forward(ids_UW, mask=mask_UW, positions=position_ids(mask_UW), cache=past)
            logits.append(logits_UV[owner])
            for index, read in enumerate(past.layers):
                assert isinstance(read, DynamicLayer)
                keys, values = read.keys, read.values
                assert keys is not None
                assert values is not None
                if len(layers) <= index:
                    layers.append(RoomyLayer(rows=len(batch.prompts), width=batch.width, like_keys=keys, like_values=values))
                layers[index].put(rows, keys[owner], values[owner])
        return Cache(layers=list(layers)), torch.cat(logits)

    def _forward(self, ids: torch.Tensor, *, mask: torch.Tensor, positions: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Scores after the last token of every row, shape (rows, V)."""
        arguments: dict[str, Any] = {self._cache_argument: cache}
        output = self._model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1, **arguments
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits


class _Batch:
    """The replies of one batch in progress. Row numbers in `_rows` are places in the batch as it was asked."""

    def __init__(self, requests: Sequence[RowRequest], *, device: torch.device, dtype: torch.dtype) -> None:
        self.prompts = [request.prompt for request in requests]
        self.width = max(len(prompt) for prompt in self.prompts)
        self.max_new = max(request.max_new for request in requests)
        num_rows = len(requests)
        self._lengths_B = torch.tensor([len(prompt) for prompt in self.prompts], device=device)
        self._limits_B = torch.tensor([request.max_new for request in requests], device=device)
        self.uniforms_BL = uniforms([request.seed for request in requests], self.max_new).to(device)
        self._rows = torch.arange(num_rows, device=device)
        self._alive_B = torch.ones(num_rows, dtype=torch.bool, device=device)
        self._ids = torch.zeros(num_rows, self.max_new, dtype=torch.long, device=device)
        self._logprobs = torch.zeros(num_rows, self.max_new, device=device)
        self._num_new = torch.zeros(num_rows, dtype=torch.long, device=device)
        # Additive attention mask over prompt and reply: 0 for tokens, the lowest number for padding.
        padding_BW = torch.arange(self.width, device=device) < (self.width - self._lengths_B).unsqueeze(-1)
        self._penalty = torch.zeros(num_rows, self.width + self.max_new, dtype=dtype, device=device)
        self._penalty[:, : self.width].masked_fill_(padding_BW, torch.finfo(dtype).min)

    def prefill_chunks(self, max_tokens: int) -> list[slice]:
        """Runs of rows whose different prompts, padded, hold at most ``max_tokens`` tokens; equal prompts stay together."""
        chunks = []
        start, different, longest = 0, 0, 0
        for row, prompt in enumerate(self.prompts):
            if row and prompt == self.prompts[row - 1]:
                continue
            longest = max(longest, len(prompt))
            different += 1
            if row > start and different * longest > max_tokens:
                chunks.append(slice(start, row))
                start, different, longest = row, 1, len(prompt)
        return [*chunks, slice(start, len(self.prompts))]

    def record(self, step: int, ids_B: torch.Tensor, logprobs_B: torch.Tensor, *, is_stop_B: torch.Tensor) -> None:
        """Note the token of this step; rows that had ended before go on unread until they are dropped."""
        self._ids[self._rows, step] = ids_B
        self._logprobs[self._rows, step] = logprobs_B
        self._num_new[self._rows] += self._alive_B
        self._alive_B = self._alive_B & ~is_stop_B & (self._limits_B > step + 1)

    def num_alive(self) -> int:
        """Replies that have not ended."""
        return int(self._alive_B.sum())

    def keep_alive(self) -> torch.Tensor:
        """Drop the rows that have ended; the indices of those kept."""
        kept = self._alive_B.nonzero().squeeze(-1)
        self._rows = self._rows[kept]
        self._lengths_B = self._lengths_B[kept]
        self._limits_B = self._limits_B[kept]
        self.uniforms_BL = self.uniforms_BL[kept]
        self._penalty = self._penalty[kept]
        self._alive_B = self._alive_B[kept]
        return kept

    def mask(self, num_new: int, *, own: bool) -> torch.Tensor:
        """Attention mask of a step that sees ``num_new`` reply tokens: 4-dimensional and additive, or 2-dimensional."""
        penalty = self._penalty[:, : self.width + num_new]
        return penalty[:, None, None, :] if own else (penalty == 0).long()

    def positions(self, step: int) -> torch.Tensor:
        """Position of the token drawn at ``step``, shape (rows, 1)."""
        return (self._lengths_B + step).unsqueeze(-1)

    def replies(self, stop_ids: frozenset[int]) -> list[RowReply]:
        """What was drawn, cut at each row's end."""
        rows = zip(self._ids.tolist(), self._logprobs.tolist(), self._num_new.tolist(), strict=True)
        return [
            RowReply(token_ids=tuple(ids[:count]), logprobs=tuple(logprobs[:count]), stopped=ids[count - 1] in stop_ids)
            for ids, logprobs, count in rows
        ]


def _left_padded(prompts: Sequence[tuple[int, ...]], *, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, padded on the left so that every row's last token is in the last column."""
    width = max(len(prompt) for prompt in prompts)
    # The padding id is never read: its positions are masked.
    ids = torch.tensor([(0,) * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    mask = (torch.arange(width, device=device) >= (width - lengths).unsqueeze(-1)).long()
    return ids, mask


def _cache_argument(model: PreTrainedModel) -> str:
    """What the model calls its key-value cache: transformers renamed the argument, and the old name warns."""
    unwrap: Callable[[], Any] = getattr(model, "get_base_model", lambda: model)  # a PEFT model hides its arguments
    return "cache" if "cache" in inspect.signature(unwrap().forward).parameters else "past_key_values"


def _takes_plain_mask(model: PreTrainedModel) -> bool:
    """Whether one additive mask serves all layers as it is, which saves building one at every step."""
    config = model.config.get_text_config(decoder=True)
    kinds = getattr(config, "layer_types", None)
    sliding = any(kind != "full_attention" for kind in kinds) if kinds else bool(getattr(config, "sliding_window", None))
    return config._attn_implementation in ("sdpa", "eager") and not sliding
