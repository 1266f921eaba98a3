"""A key-value cache with room to grow, so that a decoding step does not copy the whole past.

Legend of shapes: B rows, H key-value heads, W tokens cached, D head width.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

_MIN_HEADROOM = 32  # tokens; a reply of a small model fits in one or two of them


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers does not annotate its hook
    """One layer's cache: a buffer larger than what is cached, grown by a quarter when it is full.

    `transformers.DynamicLayer` concatenates at every step, which costs as much as the attention itself for small models.
    """

    def __init__(self, *, rows: int, width: int, like_keys: torch.Tensor, like_values: torch.Tensor) -> None:
        """Make an empty buffer of ``width`` tokens, to be filled by `put`.

        Args:
            rows: B.
            width: W, tokens that `put` is going to fill.
            like_keys: A tensor (any, H, any, D) that gives heads, head width, type and device.
            like_values: The same for values.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._width = width
        room = width + _headroom(width)
        # Zeros, not uninitialised memory: masked positions are multiplied by 0, and 0 x NaN is NaN.
        self._keys = like_keys.new_zeros(rows, like_keys.shape[1], room, like_keys.shape[3])
        self._values = like_values.new_zeros(rows, like_values.shape[1], room, like_values.shape[3])
        self.device = like_keys.device
        self.dtype = like_keys.dtype
        self.is_initialized = True
        self._show()

    def put(self, rows: slice, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the past of some rows, right-aligned: their last token sits at W - 1."""
        start = self._width - keys.shape[2]
        self._keys[rows, :, start : self._width] = keys
        self._values[rows, :, start : self._width] = values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new tokens and return all cached ones; called by the attention layers."""
        end = self._width + key_states.shape[2]
        if end > self._keys.shape[2]:
            self._keys = _grown(self._keys, end)
            self._values = _grown(self._values, end)
        self._keys[:, :, self._width : end] = key_states
        self._values[:, :, self._width : end] = value_states
        self._width = end
        self._show()
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def select(self, rows: torch.Tensor) -> None:
        """Keep only the rows with these indices."""
        self._keys = self._keys.index_select(0, rows)
        self._values = self._values.index_select(0, rows)
        self._show()

    def _show(self) -> None:
        self.keys = self._keys[:, :, : self._width]
        self.values = self._values[:, :, : self._width]


def _headroom(width: int) -> int:
    return max(_MIN_HEADROOM, width // 4)


def _grown(buffer: torch.Tensor, width: int) -> torch.Tensor:
    rows, heads, room, head_width = buffer.shape
    grown = buffer.new_zeros(rows, heads, width + _headroom(width), head_width)
    grown[:, :, :room] = buffer
    return grown
