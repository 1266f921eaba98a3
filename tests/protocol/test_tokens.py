"""Encoding prompts through a real tokenizer of whole words."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dpepo.errors import ConfigError
from dpepo.protocol import encode_prompt
from dpepo.types import Message, Prompt

TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} end {% endfor %}{% if add_generation_prompt %}assistant{% endif %}"
)
WORDS = ("unk", "system", "user", "assistant", "end", "rules", "look")


def tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="unk"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="unk")  # type: ignore[no-untyped-call]
    made.chat_template = template
    return made


def prompt(*messages: tuple[str, str]) -> Prompt:
    return Prompt(messages=tuple(Message(role=role, content=content) for role, content in messages))


def words(ids: list[int]) -> list[str]:
    return [WORDS[token_id] for token_id in ids]


def test_a_prompt_becomes_the_ids_of_its_chat_template_up_to_the_reply() -> None:
    ids = encode_prompt(tokenizer(TEMPLATE), prompt(("system", "rules"), ("user", "look")))
    assert isinstance(ids, list)
    assert words(ids) == ["system", "rules", "end", "user", "look", "end", "assistant"]


def test_a_template_that_refuses_a_system_message_gets_it_inside_the_user_message() -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
    ids = encode_prompt(tokenizer(refusing), prompt(("system", "rules"), ("user", "look")))
    assert words(ids) == ["user", "rules", "look", "end", "assistant"]


def test_a_tokenizer_without_a_chat_template_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match=r"has no chat template.*Try:"):
        encode_prompt(tokenizer(None), prompt(("user", "look")))


@pytest.mark.parametrize("messages", [(("user", "look"),), (("system", "rules"), ("user", "look"))])
def test_a_template_that_cannot_render_is_named_as_the_fault(messages: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ConfigError, match="cannot render the prompt: never"):
        encode_prompt(tokenizer("{{ raise_exception('never') }}"), prompt(*messages))
