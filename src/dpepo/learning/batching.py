"""Samples to minibatches to tensors of forward passes.

Where a model allows it, samples go into packs: no padding, and every beginning that samples share stands once, be it the system
text, the task, older history, a whole prompt, or the first words of a reply (`dpepo.learning.trees`). For other models rows of
similar length go together, padded on the right; a causal model never looks at what comes after, so no mask is needed. Both are
exact.

Shapes: B rows, L positions, S positions kept for all rows, U different positions that predict something (nodes), N reply tokens
of all samples of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch

from dpepo.learning.attention import AttentionTree, attention_tree
from dpepo.learning.trees import Pack, build_packs
from dpepo.types import TrainingSample


@dataclass(frozen=True, kw_only=True)
class TrainBatch:
    """One forward pass, on its device."""

    samples: list[TrainingSample]  # in the order of their tokens below
    input_ids_BL: torch.Tensor
    position_ids_BL: torch.Tensor | None  # None: 0..L-1
    tree: AttentionTree | None  # of a pack, which is one row; None: plain causal
    keep_S: torch.Tensor  # positions that predict something in some row, ascending
    nodes_U: torch.Tensor  # those that do in their row, ascending, as row * S + index into keep_S
    node_N: torch.Tensor  # index into nodes_U of the position that predicts each reply token
    target_N: torch.Tensor  # the token itself


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
        max_tokens: Positions per batch, padding included; a longer sample gets a batch of its own.
        share_prompts: Whether shared beginnings are computed once, for models that take an attention tree.
        device: Where the tensors go.
        dtype: Of masks; the model's.

    Raises:
        ValueError: A sample without prompt or reply.
    """
    for sample in samples:
        if not sample.prompt_token_ids or not sample.token_ids:
            raise ValueError(f"group {sample.group}, sibling {sample.sibling}, turn {sample.turn}: empty prompt or reply")
    where = torch.device(device)
    sequences = [sample.prompt_token_ids + sample.token_ids[:-1] for sample in samples]  # the last token predicts nothing
    if share_prompts:
        packs = build_packs(sequences, max_tokens=max_tokens)
        return [_packed(pack, [samples[member] for member in pack.members], device=where, dtype=dtype) for pack in packs]
    order = sorted(range(len(samples)), key=lambda place: len(sequences[place]))
    parts = _fill(order, [len(sequence) for sequence in sequences], max_tokens=max_tokens)
    return [_padded([samples[place] for place in part], [sequences[place] for place in part], device=where) for part in parts]


def _fill(order: Iterable[int], lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Rows in ascending length, cut where the padded size would pass the budget."""
    parts: list[list[int]] = []
    for place in order:
        if parts and (len(parts[-1]) + 1) * lengths[place] <= max_tokens:
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


def _packed(pack: Pack, samples: list[TrainingSample], *, device: torch.device, dtype: torch.dtype) -> TrainBatch:
    predicting = [
        position
        for sample, segment in zip(samples, pack.segments, strict=True)
        for position in segment.path[len(sample.prompt_token_ids) - 1 :]
    ]
    return _batch(
        samples,
        rows=[pack.ids],
        row_of=[0] * len(predicting),
        predicting=predicting,
        device=device,
        position_ids=torch.tensor([pack.depths], device=device),
        tree=attention_tree(pack, device=device, dtype=dtype),
    )


def _padded(samples: list[TrainingSample], sequences: Sequence[tuple[int, ...]], *, device: torch.device) -> TrainBatch:
    longest = max(map(len, sequences))
    return _batch(
        samples,
        rows=[[*sequence, *[0] * (longest - len(sequence))] for sequence in sequences],  # nothing that counts looks there
        row_of=[row for row, sample in enumerate(samples) for _ in sample.token_ids],
        predicting=[len(sample.prompt_token_ids) - 1 + place for sample in samples for place in range(len(sample.token_ids))],
        device=device,
    )


def _batch(
    samples: list[TrainingSample],
    *,
    rows: Sequence[Sequence[int]],
    row_of: Sequence[int],
    predicting: Sequence[int],
    device: torch.device,
    position_ids: torch.Tensor | None = None,
    tree: AttentionTree | None = None,
) -> TrainBatch:
    keep_S, kept_N = torch.unique(torch.tensor(predicting), sorted=True, return_inverse=True)
    nodes_U, node_N = torch.unique(torch.tensor(row_of) * len(keep_S) + kept_N, sorted=True, return_inverse=True)
    return TrainBatch(
        samples=samples,
        input_ids_BL=torch.tensor(rows, device=device),
        position_ids_BL=position_ids,
        tree=tree,
        keep_S=keep_S.to(device),
        nodes_U=nodes_U.to(device),
        node_N=node_N.to(device),
        target_N=torch.tensor([token for sample in samples for token in sample.token_ids], device=device),
    )
