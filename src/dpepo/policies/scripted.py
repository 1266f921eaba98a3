"""A policy that says what it was told to say: for tests, for recorded episodes, for trying out an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpepo.policies.base import Policy
from dpepo.types import Completion, FinishReason, Request, Sampling

Answer = str | Completion
Script = Sequence[Answer] | Callable[[Request, int], Answer]


class ScriptedPolicy(Policy):
    """Replies by turn from a list, or from a function of the request and the turn number.

    >>> policy = ScriptedPolicy(["<think>look first</think><parallel><env_1>look</env_1></parallel>"])
    """

    version = "scripted"

    def __init__(self, replies: Script) -> None:
        """Take the script.

        Args:
            replies: One reply per turn, the same in every episode (a turn past the end gets an empty reply); or a function
                called with the request and the number of finished turns. A reply is text, or a whole `Completion` where
                token ids or a finish reason matter.
        """
        self._replies = replies

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """Answer from the script; ``sampling`` has no effect."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Completion:
        turn = len(request.view.turns)
        if callable(self._replies):
            answer = self._replies(request, turn)
        else:
            answer = self._replies[turn] if turn < len(self._replies) else ""
        return answer if isinstance(answer, Completion) else Completion(text=answer, finish=FinishReason.STOP)
