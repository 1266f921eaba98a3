"""The formats of a dataset: ours, and the shapes that other trainers read.

Every format says where its shape is documented and how that trainer learns from the reply only (`Format.loss`). Rows of other
trainers are turns: what the model reads at one turn, and its reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpepo.errors import ConfigError, did_you_mean
from dpepo.synthesis.formats.rows import ASSISTANT, SYSTEM, Row, conversation_row, message, prompt_messages, turn_rows
from dpepo.types import Episode, Turn

MakeRows = Callable[[Episode, int], Iterable[Row]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format."""

    name: str
    make_rows: MakeRows  # episode and its place in the dataset, to rows
    reads: str  # who reads it
    loss: str  # how the loss is put on the reply only
    source: str = ""  # where the shape is documented; empty for ours
    lossless: bool = False  # whether `dpepo data import` gives the same episodes back
    register: Mapping[str, Any] | None = None  # entry of LLaMA-Factory's dataset_info.json, without the file's name


def find_format(name: str) -> Format:
    """A format by name.

    Raises:
        ConfigError: There is none of this name.
    """
    if name not in FORMATS:
        raise ConfigError(f"--format: there is no format {name!r}. {did_you_mean(name, FORMATS)}")
    return FORMATS[name]


def _turns(episode: Episode, number: int) -> Iterable[Row]:
    return turn_rows(episode, number=number)


def _conversations(episode: Episode, number: int) -> Iterable[Row]:
    if episode.turns:
        yield conversation_row(episode, number=number)


def _each_turn(shape: Callable[[Turn], Row]) -> MakeRows:
    """Rows of a shape for all turns that hold a reply."""

    def rows(episode: Episode, number: int) -> Iterator[Row]:
        return (shape(turn) for turn in episode.turns if turn.completion.text)

    return rows


def _reply(turn: Turn) -> dict[str, str]:
    return message(ASSISTANT, turn.completion.text)


def _split(turn: Turn) -> tuple[str, str]:
    """The system text, empty where there is none, and what the user says."""
    messages = prompt_messages(turn)
    said = [one["content"] for one in messages if one["role"] != SYSTEM]
    return "\n\n".join(one["content"] for one in messages if one["role"] == SYSTEM), "\n\n".join(said)


def _prompt_completion(turn: Turn) -> Row:
    return {"prompt": prompt_messages(turn), "completion": [_reply(turn)]}


def _messages(turn: Turn) -> Row:
    return {"messages": [*prompt_messages(turn), _reply(turn)]}


def _sharegpt(turn: Turn) -> Row:
    system, said = _split(turn)
    talk = [{"from": "human", "value": said}, {"from": "gpt", "value": _reply(turn)["content"]}]
    return {"conversations": talk, "system": system}


def _alpaca(turn: Turn) -> Row:
    system, said = _split(turn)
    return {"instruction": said, "input": "", "output": _reply(turn)["content"], "system": system}


def _input_output(turn: Turn) -> Row:
    return {"input": prompt_messages(turn), "output": [_reply(turn)]}


_LLAMAFACTORY = "https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md"
_LLAMAFACTORY_LOSS = "its default: prompts are masked (`train_on_prompt: false`), and a row holds one reply"

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format(
            name="turns",
            make_rows=_turns,
            reads="dpepo, and whatever reads `messages`",
            loss="the last message is the reply; there is no other of the assistant",
            lossless=True,
        ),
        Format(
            name="conversations",
            make_rows=_conversations,
            reads="dpepo, and whatever reads `messages`",
            loss="all messages of the assistant are replies",
            lossless=True,
        ),
        Format(
            name="trl",
            make_rows=_each_turn(_prompt_completion),
            reads="TRL's `SFTTrainer`",
            loss="its default for rows with `prompt` and `completion`: the loss is on the completion",
            source="https://huggingface.co/docs/trl/dataset_formats",
        ),
        Format(
            name="llamafactory-sharegpt",
            make_rows=_each_turn(_sharegpt),
            reads="LLaMA-Factory, `formatting: sharegpt`",
            loss=_LLAMAFACTORY_LOSS,
            source=_LLAMAFACTORY,
            register={
                "formatting": "sharegpt",
                "columns": {"messages": "conversations", "system": "system"},
                "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
            },
        ),
        Format(
            name="llamafactory-alpaca",
            make_rows=_each_turn(_alpaca),
            reads="LLaMA-Factory, `formatting: alpaca`",
            loss=_LLAMAFACTORY_LOSS,
            source=_LLAMAFACTORY,
            register={
                "formatting": "alpaca",
                "columns": {"prompt": "instruction", "query": "input", "response": "output", "system": "system"},
            },
        ),
        Format(
            name="ms-swift",
            make_rows=_each_turn(_messages),
            reads="ms-swift, `swift sft --dataset FILE`",
            loss="its default (`--loss_scale default`): the loss is on messages of the assistant, and a row holds one",
            source="https://swift.readthedocs.io/en/latest/Customization/Custom-dataset.html",
        ),
        Format(
            name="openrlhf",
            make_rows=_each_turn(_input_output),
            reads="OpenRLHF, `--input_key input --output_key output --apply_chat_template`",
            loss="its default: the loss is on what `output_key` names",
            source="https://github.com/OpenRLHF/OpenRLHF/blob/main/openrlhf/datasets/sft_dataset.py",
        ),
    )
}
"""All formats by name."""
