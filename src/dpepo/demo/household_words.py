"""The words of the tiny model of the ALFWorld demo: a token per tag, per kind of thing or place, per number, per phrase.

Things keep two tokens, kind and number, so that the kind in a goal and the kind in a list of things are the same token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpepo.demo.words import PUNCTUATION, TAGS, tokenizer_of, with_special
from dpepo.envs.alfworld.rooms import all_rooms, statistics

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SEARCH = "It is not found yet. I look in a new place in each copy."
FOUND = "It is found. I take it and bring it to its place, and go on looking elsewhere."

THOUGHTS = (SEARCH, FOUND)
PHRASES = ("go to", "nothing happens")
WORDS = (
    "at", "room", "closed", "nothing", "holding", "left", "turn", "did", "goal",
    "open", "close", "take", "from", "move", "to", "look", "put", "a", "some", "in", "on", "user", "assistant", "system",
)  # fmt: skip
NUMBERS = 40  # no room has more places of a kind


def things() -> tuple[str, ...]:
    """Kinds of things that can be carried, as the texts spell them, sorted."""
    return tuple(sorted(kind.lower() for kind in statistics().movable))


def household_vocabulary() -> list[str]:
    """All tokens, special ones first, each once, in a fixed order."""
    rooms = all_rooms().values()
    places = sorted({receptacle.kind.lower() for room in rooms for receptacle in room.receptacles})
    fixtures = sorted({fixture.kind.lower() for room in rooms for fixture in room.fixtures})
    numbers = [str(number) for number in range(NUMBERS + 1)]
    return with_special([*TAGS, *numbers, *PUNCTUATION, *WORDS, *PHRASES, *THOUGHTS, *places, *fixtures, *things()])


def household_tokenizer() -> PreTrainedTokenizerFast:
    """A Hugging Face tokenizer of `household_vocabulary`."""
    return tokenizer_of(household_vocabulary())
