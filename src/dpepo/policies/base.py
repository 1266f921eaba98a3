"""Who answers a prompt: the one interface between an episode and whatever acts in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dpepo.types import Completion, Request, Sampling


class Policy(ABC):
    """Answers prompts. A language model in this process, a server, a script, or an agent without any model.

    Attributes:
        version: Names the weights that answer, e.g. ``step-0012``; empty where that means nothing. Whoever changes the
            weights sets it.
    """

    version: str = ""

    @abstractmethod
    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """Answer every request, in the order asked.

        A request that cannot be answered gets a completion with finish ``CONTEXT_FULL`` or ``ERROR``; it never spoils the
        others. A reply depends on its request (prompt and seed) and on ``sampling``, not on its neighbours or on global
        random state.

        Args:
            requests: Prompts with a seed each; may be empty.
            sampling: How all of them are drawn.

        Returns:
            One completion per request.
        """

    def close(self) -> None:
        """Free what the policy holds; it is not used afterwards."""
        return None
