"""Samples to minibatches to padded tensors.

Rows of similar length go together, padded on the right; a causal model never looks at what comes after, so no mask is
needed. Samples with the same prompt (siblings on their first turn) may share one row: the prompt once, then each different
reply, which sees the prompt and itself only. Both are exact. Measured on one CPU thread, rows of several samples behind a
block-diagonal mask were 40 % slower: attention then grows with the square of the row.

Shapes: B rows, L positions, S positions whose logits are needed, N reply tokens of all samples of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import torch

from dpepo.types import TrainingSample

_LONGEST_SHARED_ROW = 2048  # the mask of a shared row takes memory with the square of its length


@dataclass(frozen=True, kw_only=True)
class TrainBatch:
    """One forward pass, on its device."""

    samples: list[TrainingSample]  # in the order of their tokens below
    input_ids_BL: torch.Tensor
    position_ids_BL: torch.Tensor | None  # None: 0..L-1
    mask_B1LL: torch.Tensor | None  # added to attention scores; None: plain causal
    keep_S: torch.Tensor  # positions whose logits are needed, ascending, the same for all rows
    row_N: torch.Tensor  # row of each reply token
    kept_N: torch.Tensor  # index into keep_S of the position that predicts it
    target_N: torch.Tensor  # the token itself


@dataclass
class _Row:
    """A prompt followed by different replies; the last token of a reply predicts nothing and is left out."""

    prompt: tuple[int, ...]
    starts: dict[tuple[int, ...], int] = field(default_factory=dict)  # reply ids to its first position
    length: int = 0
    samples: list[TrainingSample] = field(default_factory=list)

    def length_with(self, sample: TrainingSample) -> int:
        return self.length if sample.token_ids in self.starts else self.length + len(sample.token_ids) - 1

    def add(self, sample: TrainingSample) -> None:
        length = self.length_with(sample)
        self.starts.setdefault(sample.token_ids, self.length)
        self.length = length
        self.samples.append(sample)


def split_minibatches(samples: Sequence[TrainingSample], *, num_minibatches: int) -> list[list[TrainingSample]]:
    """Samples dealt to optimiser steps: whole episodes, in order, nearly the same number of episodes each.

    Siblings stay neighbours, so that a minibatch holds whole groups where the numbers allow. Fewer episodes than
    `num_minibatches` give fewer minibatches; none is empty.
    """
    ordered = sorted(samples, key=lambda sample: (sample.group, sample.sibling, sample.turn))
    episodes = [list(turns) for _, turns in groupby(ordered, key=lambda sample: (sample.group, sample.sibling))]
    count = min(num_minibatches, len(episodes))
    bounds = [len(episodes) * place // count for place in range(count + 1)] if count else []
    return [[sample for episode in episodes[start:end] for sample in episode] for start, end in pairwise(bounds)]


def build_batches(
    samples: Sequence[TrainingSample],
    *,
    max_tokens: int,
    share_prompts: bool,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> list[TrainBatch]:
    """Forward passes that together hold every sample once.

    Args:
        samples: Samples with at least one prompt id and one reply id.
        max_tokens: Positions per batch, padding included; a longer row gets a batch of its own.
        share_prompts: Whether equal prompts are computed once, for models that take a mask of this kind.
        device: Where the tensors go.
        dtype: Of the mask; the model's.

    Raises:
        ValueError: A sample without prompt or reply.
    """
    for sample in samples:
        if not sample.prompt_token_ids or not sample.token_ids:
            raise ValueError(f"group {sample.group}, sibling {sample.sibling}, turn {sample.turn}: empty prompt or reply")
    rows = _shared_rows(samples, limit=min(max_tokens, _LONGEST_SHARED_ROW)) if share_prompts else _plain_rows(samples)
    batches = []
    for shared in (False, True):
        kind = sorted((row for row in rows if (len(row.starts) > 1) is shared), key=lambda row: row.length)
        batches += [_tensors(part, device=torch.device(device), dtype=dtype) for part in _fill(kind, max_tokens=max_tokens)]
    return batches


def _plain_rows(samples: Iterable[TrainingSample]) -> list[_Row]:
    rows = []
    for sample in samples:
        rows.append(_Row(sample.prompt_token_ids, length=len(sample.prompt_token_ids)))
        rows[-1].add(sample)
    return rows


def _shared_rows(samples: Iterable[TrainingSample], *, limit: int) -> list[_Row]:
    rows: list[_Row] = []
    open_rows: dict[tuple[int, ...], _Row] = {}
    for sample in samples:
        row = open_rows.get(sample.prompt_token_ids)
        if row is None or row.length_with(sample) > max(limit, row.length):
            row = _Row(sample.prompt_token_ids, length=len(sample.prompt_token_ids))
            open_rows[sample.prompt_token_ids] = row
            rows.append(row)
        row.add(sample)
    return rows


def _fill(rows: Iterable[_Row], *, max_tokens: int) -> list[list[_Row]]:
    """Rows in ascending length, cut where the padded size would pass the budget."""
    parts: list[list[_Row]] = []
    for row in rows:
        if parts and (len(parts[-1]) + 1) * row.length <= max_tokens:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def _tensors(rows: Sequence[_Row], *, device: torch.device, dtype: torch.dtype) -> TrainBatch:
    longest = max(row.length for row in rows)
    ids: list[list[int]] = []
    row_of: list[int] = []
    position: list[int] = []
    target: list[int] = []
    for number, row in enumerate(rows):
        line = [*row.prompt, *(token for reply in row.starts for token in reply[:-1])]
        ids.append(line + [0] * (longest - row.length))  # any id does: nothing that counts looks at it
        for sample in row.samples:
            row_of += [number] * len(sample.token_ids)
            start = row.starts[sample.token_ids]
            position += [len(row.prompt) - 1, *range(start, start + len(sample.token_ids) - 1)]
            target += sample.token_ids
    keep_S, kept_N = torch.unique(torch.tensor(position), sorted=True, return_inverse=True)
    shared = any(len(row.starts) > 1 for row in rows)
    return TrainBatch(
        samples=[sample for row in rows for sample in row.samples],
        input_ids_BL=torch.tensor(ids, device=device),
        position_ids_BL=torch.stack([_positions(row, longest) for row in rows]).to(device) if shared else None,
        mask_B1LL=torch.stack([_mask(row, longest, dtype) for row in rows]).unsqueeze(1).to(device) if shared else None,
        keep_S=keep_S.to(device),
        row_N=torch.tensor(row_of, device=device),
        kept_N=kept_N.to(device),
        target_N=torch.tensor(target, device=device),
    )


def _positions(row: _Row, longest: int) -> torch.Tensor:
    """Every reply starts where the prompt ends; padding gets 0."""
    positions = torch.zeros(longest, dtype=torch.long)
    positions[: len(row.prompt)] = torch.arange(len(row.prompt))
    for reply, start in row.starts.items():
        end = start + len(reply) - 1
        positions[start:end] = torch.arange(len(row.prompt), len(row.prompt) + end - start)
    return positions


def _mask(row: _Row, longest: int, dtype: torch.dtype) -> torch.Tensor:
    """0 where a position may look, the lowest number elsewhere; causal within the prompt and within each reply."""
    seen = torch.ones(longest, longest, dtype=torch.bool).tril_()
    for reply, start in row.starts.items():
        end = start + len(reply) - 1
        seen[end:, start:end] = False
    return torch.zeros(longest, longest, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
