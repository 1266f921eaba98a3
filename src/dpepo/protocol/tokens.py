"""From a prompt to token ids, through the tokenizer's own chat template. It is handed the tokenizer and imports none."""

from __future__ import annotations

from typing import Any, Protocol

from jinja2 import TemplateError

from dpepo.errors import ConfigError
from dpepo.types import Message, Prompt

__all__ = ["ChatTokenizer", "encode_prompt"]


class ChatTokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    chat_template: Any

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render messages and, with ``tokenize=True`` and ``return_dict=False``, return their ids."""


def encode_prompt(tokenizer: ChatTokenizer, prompt: Prompt) -> list[int]:
    """The ids a policy reads: the chat template of the tokenizer, ending where the assistant's reply begins.

    A template that refuses a system message gets the system text at the head of the user message.

    Args:
        tokenizer: Its ``chat_template`` must be set.
        prompt: At most one system message, then one user message.

    Raises:
        ConfigError: The tokenizer has no chat template, or the template cannot render the prompt.
    """
    if not tokenizer.chat_template:
        raise ConfigError(
            f"the tokenizer {_name(tokenizer)} has no chat template, so prompts cannot be encoded. "
            "Try: an instruction-tuned model, or add chat_template.jinja to the model folder"
        )
    try:
        return _apply(tokenizer, prompt.messages)
    except TemplateError as error:
        if prompt.messages[0].role != "system":
            raise _refused(tokenizer, error) from error
    try:
        return _apply(tokenizer, _merged(prompt.messages))
    except TemplateError as error:
        raise _refused(tokenizer, error) from error


def _apply(tokenizer: ChatTokenizer, messages: tuple[Message, ...]) -> list[int]:
    conversation = [{"role": message.role, "content": message.content} for message in messages]
    # return_dict: transformers 5 would otherwise return a mapping whose length is its number of keys
    ids = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=True, return_dict=False)
    return [int(token_id) for token_id in ids]


def _merged(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """System text and user text as one user message."""
    system, user = messages
    return (Message(role="user", content=f"{system.content}\n\n{user.content}"),)


def _refused(tokenizer: ChatTokenizer, error: TemplateError) -> ConfigError:
    return ConfigError(f"the chat template of the tokenizer {_name(tokenizer)} cannot render the prompt: {error}")


def _name(tokenizer: ChatTokenizer) -> str:
    return repr(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
