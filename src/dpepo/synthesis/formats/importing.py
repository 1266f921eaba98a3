"""The command ``dpepo data import``: rows of dpepo, or conversations of others, become demonstrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dpepo.config import Config, Form
from dpepo.envs import EnvPool, World, lent_pool, load_world
from dpepo.errors import JobError, TaskError
from dpepo.policies import ScriptedPolicy
from dpepo.protocol import PromptBuilder
from dpepo.rollout import EpisodeRequest, play_many, play_settings
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis.card import Contents, write_import_card
from dpepo.synthesis.formats.conversations import (
    CONVERSATION_COLUMNS,
    TASK_COLUMNS,
    Conversation,
    as_episode,
    read_conversation,
    unknown_task,
)
from dpepo.synthesis.formats.files import read_rows
from dpepo.synthesis.formats.restore import BadRow, RestoredTurn, is_own_row, joined, restore
from dpepo.types import Episode, Record, Task

STAGE = "synth"  # where `dpepo sft` looks for demonstrations

MakeEpisode = Callable[[Conversation, int], Episode]


class ImportedData(Record):
    """What an import brought."""

    rows: int
    episodes: int
    turns: int
    skipped: dict[str, int]  # reason to number of rows, or of episodes that were not whole

    def __str__(self) -> str:
        """The result for a person."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()))
        return f"{self.episodes} episodes with {self.turns} turns of {self.rows} rows" + (
            f"; left out: {reasons}" if reasons else ""
        )


@dataclass
class _Found:
    """What was read so far, in the order of the file."""

    rows: int = 0
    entries: list[Episode | list[RestoredTurn]] = field(default_factory=list)
    groups: dict[str, list[RestoredTurn]] = field(default_factory=dict)  # by id of the episode
    skipped: Counter[str] = field(default_factory=Counter)
    conversations: int = 0  # of others, that became episodes
    without_task: int = 0

    def add(self, one: Episode | RestoredTurn) -> None:
        if isinstance(one, Episode):
            self.entries.append(one)
        elif one.episode in self.groups:
            self.groups[one.episode].append(one)
        else:
            self.groups[one.episode] = [one]
            self.entries.append(self.groups[one.episode])

    def episodes(self) -> Iterator[Episode]:
        for entry in self.entries:
            try:
                yield entry if isinstance(entry, Episode) else joined(entry)
            except BadRow as error:
                self.skipped[str(error)] += 1


def import_data(
    config: Config,
    *,
    source: Path,
    run: RunFolder,
    progress: Progress,
    resolve: bool = False,
    replay: bool = False,
    pool: EnvPool | None = None,
) -> ImportedData:
    """Turn rows into episodes, a file per K, with a data card. Rows that cannot be used are counted by reason.

    Args:
        config: With ``resolve`` or ``replay`` its world; with ``replay`` how prompts are built.
        source: A .jsonl, .json or .parquet file: what ``dpepo data export`` writes, or conversations.
        run: An empty run folder.
        progress: Is told what a person should know.
        resolve: Whether the tasks that conversations name are looked up in the world.
        replay: Whether conversations are played again in the world, so that prompts, observations and success are those of
            dpepo; those that do not succeed are left out.
        pool: Where they are played; None makes one.

    Raises:
        TaskError: The file cannot be read, or has no column with conversations.
        JobError: No row could be used.
    """
    check_columns(source)
    found = _Found()
    with ExitStack() as stack:
        make = _as_it_is(stack.enter_context(load_world(config.env.world, config.env.options)) if resolve or replay else None)
        if replay:
            world = stack.enter_context(load_world(config.env.world, config.env.options))
            lent = stack.enter_context(lent_pool(config.env, pool))
            run.record(world=lent.metadata())
            make = _played(config, world=world, pool=lent)
        for row in read_rows(source):
            found.rows += 1
            try:
                if row.problem:
                    raise BadRow(row.problem)
                if is_own_row(row.value):
                    found.add(restore(row.value))
                    continue
                conversation = read_conversation(row.value)
                found.without_task += conversation.task is None
                found.add(make(conversation, row.number))
                found.conversations += 1
            except BadRow as error:
                found.skipped[str(error)] += 1
    return _written(found, source=source, run=run, progress=progress, replayed=replay)


def check_columns(source: Path) -> None:
    """Refuse at once a parquet file in which no row can hold a conversation.

    Raises:
        TaskError: With its columns, and those that would do.
        MissingPackage: pyarrow is not installed.
    """
    if source.suffix != ".parquet":
        return
    first = next(iter(read_rows(source)), None)
    columns = list(first.value) if first is not None else []
    if not set(columns) & set(CONVERSATION_COLUMNS):
        raise TaskError(
            f"{source} has the columns {', '.join(columns) or '(none)'}, and none that holds a conversation "
            f"({', '.join(CONVERSATION_COLUMNS)})"
        )


def _written(found: _Found, *, source: Path, run: RunFolder, progress: Progress, replayed: bool) -> ImportedData:
    episodes = list(found.episodes())
    result = ImportedData(
        rows=found.rows,
        episodes=len(episodes),
        turns=sum(len(episode.turns) for episode in episodes),
        skipped=dict(sorted(found.skipped.items())),
    )
    if not episodes:
        raise JobError(f"None of the {found.rows} rows of {source} could be used: {result.skipped or 'it is empty'}")
    if found.without_task:
        progress.note(
            f"{found.without_task} rows name no task ({', '.join(TASK_COLUMNS)}): nothing can tell whether an evaluation "
            "plays tasks that are learnt from here"
        )
    for num_envs in sorted({episode.num_envs for episode in episodes}):
        run.replace_episodes(STAGE, num_envs, [episode for episode in episodes if episode.num_envs == num_envs])
    contents = Contents()
    for episode in episodes:
        contents.add(episode)
    write_import_card(
        run, contents, source=source, skipped=result.skipped, conversations=found.conversations, replayed=replayed
    )
    return result


def _as_it_is(world: World | None) -> MakeEpisode:
    def make(found: Conversation, number: int) -> Episode:
        known = world is not None and found.task is not None
        return as_episode(found, task=_task(found, world) if known else unknown_task(found, number=number))

    return make


def _played(config: Config, *, world: World, pool: EnvPool) -> MakeEpisode:
    """Plays the replies of a conversation again."""
    seen: Counter[str] = Counter()
    prompts = {form: PromptBuilder(config.prompt.model_copy(update={"form": form})) for form in Form}

    def make(found: Conversation, number: int) -> Episode:
        if found.task is None:
            raise BadRow("no task to replay")
        task = _task(found, world)
        settings = play_settings(config, num_envs=found.num_envs)
        [episode] = play_many(
            [EpisodeRequest(task=task, seed=config.seed, sibling=seen[task.id])],
            settings=settings.model_copy(update={"max_turns": len(found.replies), "form": found.form}),
            policy=ScriptedPolicy(found.replies),
            pool=pool,
            prompts=prompts[found.form],
        )
        if episode.outcome is None:
            raise BadRow("the environment broke in the replay")
        if not episode.success:
            raise BadRow("no success in the replay")
        seen[task.id] += 1
        return episode

    return make


def _task(found: Conversation, world: World | None) -> Task:
    assert world is not None
    try:
        return world.task(world.resolve(found.task))
    except TaskError:
        raise BadRow("a task that the world does not have") from None
