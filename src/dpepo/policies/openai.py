"""A language model behind an OpenAI-compatible server: text in, text out. For evaluation and teachers, not for training.

A server that is slow, busy or broken costs one reply, never the job: after its tries a request becomes a completion with finish
``ERROR``. A wrong key, model or address is a request that cannot work and is said at once. The key comes from the environment
and is written nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpepo.config import ServerConfig
from dpepo.errors import ConfigError, MissingPackage
from dpepo.policies.base import Policy
from dpepo.policies.usage import Ledger
from dpepo.types import Completion, FinishReason, Request, Sampling

if TYPE_CHECKING:
    from openai import OpenAI

_NO_KEY = "none"  # servers of one's own often ask for no key, but the client refuses an empty one
_NO_ROOM = ("context_length_exceeded", "maximum context length", "context window", "prompt is too long")
_OLD_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


@dataclass(frozen=True)
class _Answer:
    """What a server said, whole."""

    text: str
    finish: FinishReason
    prompt_tokens: int
    reply_tokens: int


class OpenAIPolicy(Policy):
    """Asks ``POST {base_url}/chat/completions``."""

    def __init__(self, config: ServerConfig, *, ledger: Path | None = None) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            config: Address, model, limits.
            ledger: File that counts the tokens used, across resumed sessions; None counts this session only.

        Raises:
            ConfigError: Address or model is missing.
            MissingPackage: The package openai is not installed.
        """
        self._client, self._key = _client(config)
        self._config = config
        self._ledger = Ledger(config, path=ledger)
        self._token_limit = _OLD_LIMIT  # which servers of one's own know; replaced when refused
        self.version = config.model

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """Answer every request, ``server.concurrency`` at a time.

        Raises:
            ConfigError: The server refuses key, model or address.
            JobError: The budget of tokens or money is spent.
        """
        if not requests:
            return []
        with ThreadPoolExecutor(max_workers=min(self._config.concurrency, len(requests))) as threads:
            pending = [threads.submit(self._complete, request, sampling) for request in requests]
            try:
                return [one.result() for one in pending]
            except BaseException:
                for one in pending:  # what has not begun is not begun any more; what has is waited for
                    one.cancel()
                raise

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _complete(self, request: Request, sampling: Sampling) -> Completion:
        self._ledger.check()
        try:
            answer = self._ask(request, sampling)
        except Exception as error:  # whatever a server or the network does is a value from here on
            return self._failed(error)
        self._ledger.add(prompt_tokens=answer.prompt_tokens, reply_tokens=answer.reply_tokens)
        return Completion(
            text=answer.text,
            finish=answer.finish,
            num_prompt_tokens=answer.prompt_tokens,
            num_reply_tokens=answer.reply_tokens,
        )

    def _ask(self, request: Request, sampling: Sampling) -> _Answer:
        """One reply; answers that are no answers are asked for again, as the client does for errors by number."""
        from openai import APIResponseValidationError

        for left in reversed(range(self._config.tries)):
            try:
                return _read(self._post(request, sampling))
            except (APIResponseValidationError, ValueError) as error:
                if not left:
                    raise ValueError(f"the server's answers cannot be read: {error}") from error
        raise AssertionError("server.tries is at least 1")

    def _post(self, request: Request, sampling: Sampling) -> Any:
        from openai import BadRequestError

        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": [message.model_dump() for message in request.prompt.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % 2**31,
            "extra_body": self._config.extra,
        }
        create: Callable[..., Any] = self._client.chat.completions.create
        limit = self._token_limit
        try:
            return create(**body, **{limit: sampling.max_new_tokens})
        except BadRequestError as error:
            if limit == _NEW_LIMIT or _NEW_LIMIT not in str(error):
                raise
            self._token_limit = _NEW_LIMIT
            return create(**body, **{_NEW_LIMIT: sampling.max_new_tokens})

    def _failed(self, error: Exception) -> Completion:
        """A completion that says why there is none; a request that can never work stops the job instead."""
        from openai import APIStatusError, AuthenticationError, NotFoundError, PermissionDeniedError

        said = self._redacted(" ".join(f"{type(error).__name__}: {error}".split())[:500])
        if isinstance(error, (AuthenticationError, PermissionDeniedError)):
            raise ConfigError(
                f"The server {self._config.base_url} refuses the key in ${self._config.key_env}. It said: {said}"
            ) from None
        if isinstance(error, NotFoundError):
            raise ConfigError(
                f"The server {self._config.base_url} has no model {self._config.model!r}, or the address is wrong "
                f"(server.base_url usually ends in /v1). It said: {said}"
            ) from None
        if isinstance(error, APIStatusError) and any(words in str(error).lower() for words in _NO_ROOM):
            return Completion(text="", finish=FinishReason.CONTEXT_FULL, error=said)
        return Completion(text="", finish=FinishReason.ERROR, error=said)

    def _redacted(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key not in ("", _NO_KEY) else text


def _client(config: ServerConfig) -> tuple[OpenAI, str]:
    """A client for the server, and the key it uses."""
    for name in ("base_url", "model"):
        if not getattr(config, name):
            raise ConfigError(f"server.{name} is empty. Try: server.base_url=http://127.0.0.1:8000/v1 server.model=NAME")
    try:
        from openai import OpenAI
    except ModuleNotFoundError:
        raise MissingPackage("openai", extra="openai", needed_for="a model behind a server") from None
    key = os.environ.get(config.key_env, "") or _NO_KEY
    client = OpenAI(base_url=config.base_url, api_key=key, timeout=config.timeout_s, max_retries=config.tries - 1)
    return client, key


def _read(response: Any) -> _Answer:
    """Take an answer apart.

    Raises:
        ValueError: It is not the answer of a chat server.
    """
    choices = getattr(response, "choices", None)
    if not choices:
        raise ValueError(f"no choices in {str(response)[:200]!r}")
    text = getattr(getattr(choices[0], "message", None), "content", None)
    reason = getattr(choices[0], "finish_reason", None)
    if not isinstance(text, str):
        if reason != "length":  # a model that thinks until its tokens are used up says nothing
            raise ValueError(f"no text in {str(response)[:200]!r}")
        text = ""
    usage = getattr(response, "usage", None)
    return _Answer(
        text=text,
        finish=_FINISH.get(str(reason), FinishReason.STOP),
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        reply_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
    )
