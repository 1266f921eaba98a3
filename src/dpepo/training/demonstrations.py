"""From recorded demonstrations to batches of samples, the same for every start of a run."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpepo.errors import ConfigError, TaskError
from dpepo.protocol import encode_prompt
from dpepo.runs.episodes import read_episode_file
from dpepo.runs.progress import Progress
from dpepo.types import Episode, Message, Prompt, TrainingSample, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_demonstrations(source: str, *, progress: Progress) -> list[Episode]:
    """Demonstrations from a run folder of ``dpepo synth``, or from one file of episodes.

    Args:
        source: The folder or the file.
        progress: Is told of damaged lines, which are left out.

    Raises:
        TaskError: There is nothing to read there.
    """
    path = Path(source)
    files = sorted((path / "episodes").glob("synth-*.jsonl")) if path.is_dir() else [path]
    problems: list[str] = []
    episodes = [line.episode for file in files if file.is_file() for line in read_episode_file(file, problems=problems)]
    if not source or not episodes:
        found = problems[0] if problems else "it does not exist or is empty"
        raise TaskError(
            f"sft.demonstrations {source!r} holds no episodes ({found}). Make some: dpepo synth; of rows in other files: "
            "dpepo data import"
        )
    for problem in problems:
        progress.note(problem)
    return episodes


def hold_out(episodes: Sequence[Episode], *, share: float, seed: int) -> tuple[list[Episode], list[Episode]]:
    """Demonstrations to learn from, and those of some tasks that are never learnt from.

    Args:
        episodes: All of them.
        share: Of the tasks, rounded, at least one; 0: none.
        seed: Of the choice.

    Raises:
        ConfigError: There is one task only.
    """
    tasks = sorted({episode.task.id for episode in episodes})
    if not share:
        return list(episodes), []
    if len(tasks) < 2:
        raise ConfigError(f"sft.val_share needs demonstrations of two tasks at least, there are those of {tasks[0]}. Try: 0")
    held = set(random.Random(f"{seed}/sft/val").sample(tasks, max(1, round(share * len(tasks)))))
    learn = [episode for episode in episodes if episode.task.id not in held]
    return learn, [episode for episode in episodes if episode.task.id in held]


class DemonstrationSet:
    """Turns of demonstrations as training samples, each the prompt and the whole reply of one turn."""

    def __init__(
        self, episodes: Sequence[Episode], *, tokenizer: PreTrainedTokenizerBase, max_length: int, rename: float = 0.0
    ) -> None:
        """Encode every turn once.

        Args:
            episodes: Demonstrations.
            tokenizer: With a chat template; its end token closes every reply.
            max_length: Context in tokens; longer turns are left out and counted, never cut.
            rename: Share of samples in which object names are replaced, drawn afresh at every use, in [0, 1].

        Raises:
            TaskError: No turn is left.
            ConfigError: The tokenizer has no end token.
        """
        if tokenizer.eos_token_id is None:
            raise ConfigError("the tokenizer names no end token (eos_token), so no reply could be taught to end")
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._rename = rename
        self._renamer = Renamer(episodes)
        turns = [turn for episode in episodes for turn in episode.turns if turn.completion.text]
        encoded = [(turn, self._encode(turn, renaming={})) for turn in turns]
        self._turns = [turn for turn, sample in encoded if _length(sample) <= max_length]
        self._samples = [sample for _, sample in encoded if _length(sample) <= max_length]
        self.num_dropped = sum(len(episode.turns) for episode in episodes) - len(self._samples)  # too long, or without a reply
        self.lengths = [_length(sample) for sample in self._samples]  # tokens of prompt and reply
        if not self._samples:
            raise TaskError(
                f"None of {self.num_dropped} demonstrated turns fits model.max_length {max_length}. Try a larger one"
            )

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def identity(self) -> str:
        """Tells this set, in this order and by this tokenizer, from others."""
        digest = hashlib.sha256()
        for sample in self._samples:
            digest.update(repr((sample.prompt_token_ids, sample.token_ids)).encode())
        return digest.hexdigest()

    def sample(self, index: int, *, seed: str) -> TrainingSample:
        """One sample; `seed` decides whether and how its names are replaced. Longer names never push it out of the context."""
        rng = random.Random(seed)
        if rng.random() >= self._rename:
            return self._samples[index]
        renamed = self._encode(self._turns[index], renaming=self._renamer.draw(rng))
        return renamed if _length(renamed) <= self._max_length else self._samples[index]

    def _encode(self, turn: Turn, *, renaming: Mapping[str, str]) -> TrainingSample:
        def renamed(text: str) -> str:
            return self._renamer.apply(text, renaming) if renaming else text

        messages = tuple(Message(role=message.role, content=renamed(message.content)) for message in turn.prompt.messages)
        reply = self._tokenizer.encode(renamed(turn.completion.text), add_special_tokens=False)
        ids = (*reply, int(self._tokenizer.eos_token_id))
        return TrainingSample(
            prompt_token_ids=tuple(encode_prompt(self._tokenizer, Prompt(messages=messages))),
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            advantage=1.0,
        )


def _length(sample: TrainingSample) -> int:
    return len(sample.prompt_token_ids) + len(sample.token_ids)


def plan_epoch(lengths: Sequence[int], *, batch_tokens: int, rng: random.Random) -> list[list[int]]:
    """Deal samples into batches of at most so many tokens, each sample once, in random order.

    Args:
        lengths: Tokens of every sample.
        batch_tokens: Tokens per batch; a longer sample gets a batch of its own.
        rng: Randomness of this epoch.

    Returns:
        Indices of samples, batch by batch.
    """
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    room = 0
    for index in order:
        if not batches or lengths[index] > room:
            batches.append([])
            room = batch_tokens
        batches[-1].append(index)
        room -= lengths[index]
    return batches


class Renamer:
    """Replaces object names by others, consistently inside a sample, so that a model learns to copy names."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        """Collect the names that observations list as objects; names that a goal or the world's guide mentions stay."""
        observations = [step.observation for e in episodes for turn in e.turns for step in turn.steps]
        observations += [episode.initial for episode in episodes]
        fixed = "\n".join(sorted({text for episode in episodes for text in _fixed_texts(episode)})).casefold()
        listed = {name for observation in observations for name in observation.objects}
        self._names = sorted(name for name in listed if name.strip() and not _any_of([name.casefold()]).search(fixed))
        self._pattern = _any_of(self._names) if self._names else None

    def draw(self, rng: random.Random) -> dict[str, str]:
        """A random one-to-one replacement of all names."""
        return dict(zip(self._names, rng.sample(self._names, len(self._names)), strict=True))

    def apply(self, text: str, renaming: Mapping[str, str]) -> str:
        """The text with every name replaced."""
        return self._pattern.sub(lambda match: renaming[match[0]], text) if self._pattern else text


def _fixed_texts(episode: Episode) -> list[str]:
    """What an episode's world says about every task alike, and its goal."""
    templates = [text for entry in episode.guide.action_templates for text in (entry.template, entry.help)]
    return [episode.goal, episode.guide.role, *templates]


def _any_of(names: Sequence[str]) -> re.Pattern[str]:
    """A pattern of whole words that finds any of the names, the longest where several fit."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
