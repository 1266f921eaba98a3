"""A well-formed reply from its parts: what teachers and demonstrations write, and the inverse of `parse_reply`."""

from __future__ import annotations

from collections.abc import Mapping

from dpepo.config import Form


def format_reply(thought: str, actions: Mapping[int, str], *, form: Form = Form.PARALLEL) -> str:
    """The reply that parses to this thought and these actions, environments in id order.

    >>> format_reply("look twice", {2: "look", 1: "inventory"})
    '<think>look twice</think><parallel><env_1>inventory</env_1><env_2>look</env_2></parallel>'
    """
    if form is Form.SEQUENTIAL:
        body = "".join(f"<action>{action}</action>" for action in actions.values())
    else:
        body = "".join(f"<env_{i}>{actions[i]}</env_{i}>" for i in sorted(actions))
        body = f"<parallel>{body}</parallel>"
    return f"<think>{thought}</think>{body}"
