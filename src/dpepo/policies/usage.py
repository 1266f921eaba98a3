"""What a server's replies have cost so far, and whether more may be spent. Survives a kill by way of a small file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from dpepo.config import ServerConfig
from dpepo.errors import JobError


class Ledger:
    """Counts tokens, in a file where one is given. Safe to use from several threads."""

    def __init__(self, config: ServerConfig, *, path: Path | None = None) -> None:
        """Go on with the counts in a file, or begin at zero.

        Args:
            config: Prices and budget.
            path: The file; one that is missing or unreadable counts as zero, as a budget is a guard and no accounting.
        """
        self._config = config
        self._path = path
        self._lock = threading.Lock()
        self.prompt_tokens, self.reply_tokens = _read(path)

    @property
    def usd(self) -> float:
        """Cost so far by the configured prices; 0 where none are set."""
        prompt = self.prompt_tokens * self._config.usd_per_million_prompt_tokens
        return (prompt + self.reply_tokens * self._config.usd_per_million_reply_tokens) / 1e6

    def add(self, *, prompt_tokens: int, reply_tokens: int) -> None:
        """Count one reply."""
        with self._lock:
            self.prompt_tokens += prompt_tokens
            self.reply_tokens += reply_tokens
            if self._path is not None:
                part = self._path.with_name(f"{self._path.name}.part")
                part.write_text(json.dumps({"prompt_tokens": self.prompt_tokens, "reply_tokens": self.reply_tokens}))
                part.replace(self._path)

    def check(self) -> None:
        """Stop before the next request when the budget is spent; what runs over is at most one round of replies.

        Raises:
            JobError: With what was spent and how to go on.
        """
        tokens, usd = self.prompt_tokens + self.reply_tokens, self.usd
        if 0 < self._config.max_tokens_total <= tokens:
            raise JobError(
                f"The budget of {self._config.max_tokens_total} tokens is spent ({tokens} used). What is finished is kept; "
                "go on with a higher server.max_tokens_total and --resume"
            )
        if 0 < self._config.max_usd <= usd:
            raise JobError(
                f"The budget of {self._config.max_usd:g} USD is spent ({usd:.2f} used). What is finished is kept; "
                "go on with a higher server.max_usd and --resume"
            )


def _read(path: Path | None) -> tuple[int, int]:
    try:
        counts = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        return int(counts.get("prompt_tokens", 0)), int(counts.get("reply_tokens", 0))
    except (OSError, ValueError, AttributeError, TypeError):
        return 0, 0
