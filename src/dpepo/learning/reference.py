"""The policy that KL is measured against: the one RL started from, lent for the length of a `with` block."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

Reference = Callable[[], AbstractContextManager[torch.nn.Module]]
"""Lends the reference policy for the length of a `with` block: a frozen copy, or the same model with its adapter changed."""


def freeze(model: torch.nn.Module) -> Reference:
    """A reference that stays as the model is now: take it from the policy RL starts from, before a resume loads its weights.

    A model that is trained whole is copied. One that is trained in part (an adapter) keeps a copy of that part alone, which
    takes the place of the trained one while the reference is lent: the base weights are there once.
    """
    whole = all(parameter.requires_grad for parameter in model.parameters())
    return lent(copy.deepcopy(model)) if whole else _frozen_part(model)


def lent(model: torch.nn.Module) -> Reference:
    """A reference that is a model of its own; it is not trained from now on."""
    model.eval().requires_grad_(False)

    @contextmanager
    def lend() -> Iterator[torch.nn.Module]:
        yield model

    return lend


def _frozen_part(model: torch.nn.Module) -> Reference:
    start = [
        (parameter, parameter.detach().clone()) for parameter in model.parameters() if parameter.requires_grad
    ]  # the adapter of an SFT model, or a new one, which changes nothing

    @contextmanager
    def lend() -> Iterator[torch.nn.Module]:
        trained = [parameter.data for parameter, _ in start]
        try:
            # the tensors change places, none is written to: a graph that waits for its backward pass finds its own again
            for parameter, tensor in start:
                parameter.data = tensor
            yield model
        finally:
            for (parameter, _), tensor in zip(start, trained, strict=True):
                parameter.data = tensor

    return lend
