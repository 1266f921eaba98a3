"""The one normalisation of actions, and how two actions are compared. Pure; used by protocol, rewards and worlds alike.

An action is *sent* as `normalize_action` leaves it (letter case kept) and *compared* by its `action_key` (letter case ignored):
execution, history and counting all follow these two functions and nothing else.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["action_key", "is_admissible", "normalize_action", "replace_surrogates"]

_BLANKED_CATEGORIES = frozenset({"Cc", "Cf"})  # control and invisible format characters


def replace_surrogates(text: str) -> str:
    r"""The text as valid Unicode: pairs of surrogates are joined, a lone one becomes U+FFFD.

    A lone surrogate cannot be written to a file or sent to another process, and some decoders produce them.

    >>> replace_surrogates("go \ud800") == "go \ufffd"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def normalize_action(text: str) -> str:
    r"""The action as it is sent to a world.

    Control and invisible characters count as white space, runs of white space become one space, ends are stripped. Letter
    case and everything else stay as written. Never raises; the result is empty when nothing visible is left.

    >>> normalize_action("  Go to\n\tdesk 1\x00 ")
    'Go to desk 1'
    """
    text = replace_surrogates(text)
    if not text.isprintable():
        text = "".join(" " if unicodedata.category(char) in _BLANKED_CATEGORIES else char for char in text)
    return " ".join(text.split())


def action_key(text: str) -> str:
    """The form in which actions are compared: normalised, letter case ignored.

    >>> action_key("Go  to Desk 1") == action_key("go to desk 1")
    True
    """
    return normalize_action(text).casefold()


def is_admissible(action: str, admissible_actions: Iterable[str]) -> bool:
    """Whether an action equals one of the complete actions offered (equality of keys, never a search for a part).

    A text in place of a list counts as one action per line, so that the empty action is never found inside it.

    >>> is_admissible("Look", ("look", "inventory")), is_admissible("", ("look",)), is_admissible("", "look")
    (True, False, False)
    """
    offered = admissible_actions.splitlines() if isinstance(admissible_actions, str) else admissible_actions
    key = action_key(action)
    return key != "" and any(key == action_key(other) for other in offered)
