"""AdamW that keeps weights, gradients and moments in float32, whatever type the model computes in.

bfloat16 has 8 bits of precision: a weight of 1 does not move when 1e-6 is added, and sums of gradients over many micro-batches
lose their small members. So every trainable bfloat16 weight has a float32 master here, which is what is optimised; the model
gets a rounded copy after each step. float32 weights are their own masters and cost nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

_EXACT = (torch.float32, torch.float64)


class MasterAdamW:
    """AdamW over the trainable parameters of a model."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], *, lr: float, weight_decay: float) -> None:
        """Make the masters; gradients of low-precision weights move to them from now on, as soon as they are computed.

        Args:
            parameters: What is trained.
            lr: Learning rate.
            weight_decay: Decoupled weight decay.
        """
        self._parameters = list(parameters)
        self._masters = [_master(parameter) for parameter in self._parameters]
        self._adamw = torch.optim.AdamW(self._masters, lr=lr, weight_decay=weight_decay, fused=True)
        pairs = self._rounded()
        hooks = [
            parameter.register_post_accumulate_grad_hook(_collect_in(master))  # type: ignore[no-untyped-call]
            for parameter, master in pairs
        ]
        weakref.finalize(self, _remove, hooks)  # a model may outlive its optimiser and get another

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        return float(self._adamw.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self._adamw.param_groups:
            group["lr"] = value

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._adamw.zero_grad(set_to_none=True)
        for parameter in self._parameters:
            parameter.grad = None

    def clip(self, max_norm: float) -> float:
        """Scale the gradient down to a global norm; returns the norm before."""
        return float(torch.nn.utils.clip_grad_norm_(self._masters, max_norm))

    def step(self) -> None:
        """One step, rounded into the model."""
        self._adamw.step()
        self._publish()

    def state_dict(self) -> dict[str, Any]:
        """Moments, and the masters that the model's own weights do not tell."""
        return {"adamw": self._adamw.state_dict(), "masters": [master.detach() for _, master in self._rounded()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            ValueError: The state is that of other parameters.
        """
        pairs = self._rounded()
        if [master.shape for master in state["masters"]] != [master.shape for _, master in pairs]:
            raise ValueError("the optimiser's float32 weights are those of another model or another model.dtype")
        self._adamw.load_state_dict(state["adamw"])
        with torch.no_grad():
            for (_, master), kept in zip(pairs, state["masters"], strict=True):
                master.copy_(kept)
        self._publish()

    def _rounded(self) -> list[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        pairs = zip(self._parameters, self._masters, strict=True)
        return [(parameter, master) for parameter, master in pairs if parameter is not master]

    @torch.no_grad()
    def _publish(self) -> None:
        for parameter, master in self._rounded():
            parameter.copy_(master)


def _master(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    return parameter if parameter.dtype in _EXACT else torch.nn.Parameter(parameter.detach().float())


def _collect_in(master: torch.nn.Parameter) -> Callable[[torch.Tensor], None]:
    def collect(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad += parameter.grad
        parameter.grad = None

    return collect


def _remove(hooks: Sequence[Any]) -> None:
    for hook in hooks:
        hook.remove()
