"""The words of the tiny demo model: one token per tag, per object name and per phrase that always stands together.

A model of 0.8 M parameters trained for minutes cannot learn to spell, so names are single tokens that it can copy. Everything
else is split at word level. Used by `dpepo.demo.base` to make the tokenizer, and by nothing afterwards: a finished tokenizer
is an ordinary Hugging Face folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MAX_ENVS = 8  # environments that have a tag of their own
PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<|im_start|>", "<|im_end|>"
TAGS = (
    *("<think>", "</think>", "<parallel>", "</parallel>"),
    *(f"<{slash}env_{i}>" for i in range(1, MAX_ENVS + 1) for slash in ("", "/")),
)

GO = "The things to compare are elsewhere. I go there in every copy."
PICK = "They are here. I try one thing in each copy."
RETRY = "Some copies are left. I try another thing in each."
THOUGHTS = (GO, PICK, RETRY)

GOAL_PHRASES = (
    "Your task is to find the",
    "with the longest life span",
    "with the shortest life span",
    "are in the",
    "is in the",
    "location.",
    "Focus on the",
)
ACTION_PHRASES = ("teleport to", "focus on", "unknown action")
WORDS = ("animal", "animals", "The", "turn", "did", "at", "goal", "user", "assistant", "system", "nothing", "ended")
PUNCTUATION = (":", ",", "|", ".", "'")

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def vocabulary(names: Iterable[str], *, rooms: Iterable[str]) -> list[str]:
    """All tokens, special ones first, each once, in a fixed order."""
    digits = [str(n) for n in range(10)]
    return with_special(
        [*TAGS, *digits, *PUNCTUATION, *WORDS, *ACTION_PHRASES, *GOAL_PHRASES, *THOUGHTS, *sorted(rooms), *sorted(names)]
    )


def with_special(words: Iterable[str]) -> list[str]:
    """Words as a vocabulary: special tokens first, each word once."""
    return list(dict.fromkeys([PAD, UNKNOWN, START, END, *words]))


def build_tokenizer(names: Iterable[str], *, rooms: Iterable[str]) -> PreTrainedTokenizerFast:
    """The tokenizer of `vocabulary`; see `tokenizer_of`."""
    return tokenizer_of(vocabulary(names, rooms=rooms))


def tokenizer_of(vocabulary: Sequence[str]) -> PreTrainedTokenizerFast:
    """A Hugging Face tokenizer with one token per entry; the longest entry wins, unknown words become <unk>.

    Decoding joins tokens with single spaces, which the reply parser accepts.

    Args:
        vocabulary: As of `with_special`.
    """
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=UNKNOWN))
    longest_first = sorted(vocabulary[4:], key=lambda word: (-len(word), word))
    known = "|".join(_pattern(word) for word in longest_first)
    tokenizer.pre_tokenizer = Split(Regex(rf"{known}|\w+|[^\w\s]"), behavior="removed", invert=True)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _pattern(word: str) -> str:
    left = r"(?<!\w)" if re.match(r"\w", word) else ""
    right = r"(?!\w)" if re.search(r"\w$", word) else ""
    return left + re.escape(word) + right
