"""The data card of a dataset: ``README.md`` beside its files, for whoever is handed the folder later."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import dpepo
from dpepo.config import Config
from dpepo.errors import RunFolderError
from dpepo.runs.files import write_atomic
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode, Task

if TYPE_CHECKING:
    from dpepo.synthesis.formats.shapes import Format

CARD = "README.md"

UNKNOWN_WORLD = "imported"
"""The world of conversations that do not say theirs."""

_LICENCES = {
    "alfworld": "ALFWorld games and text: MIT (github.com/alfworld/alfworld).",
    "scienceworld": "ScienceWorld simulator and text: Apache-2.0 (github.com/allenai/ScienceWorld).",
    "textworld": "TextWorld: MIT (github.com/microsoft/TextWorld).",
}
_BY_A_MODEL = "Replies were written by a model; its provider's terms apply too."


class Contents:
    """What a dataset holds, counted episode by episode so that none has to be kept."""

    def __init__(self, episodes: Sequence[Episode] = ()) -> None:
        self.turns: list[int] = []  # per episode
        self.tasks: set[str] = set()
        self.worlds: set[str] = set()
        self.types: Counter[str] = Counter()
        self.splits: Counter[str] = Counter()  # of tasks
        self.num_envs: Counter[int] = Counter()
        self.succeeded = 0
        self.parallel = 0  # turns that act in several environments
        for episode in episodes:
            self.add(episode)

    @property
    def episodes(self) -> int:
        """How many there are."""
        return len(self.turns)

    def add(self, episode: Episode) -> None:
        """Count one more episode."""
        task = episode.task
        if task.id not in self.tasks:
            self.splits[task.split or "unknown"] += 1
        self.tasks.add(task.id)
        self.worlds.add(task.world)
        self.types[task.name] += 1
        self.num_envs[episode.num_envs] += 1
        self.turns.append(len(episode.turns))
        self.succeeded += episode.success
        self.parallel += sum(len(turn.steps) > 1 for turn in episode.turns)

    def facts(self) -> list[str]:
        """The counts as lines of a list."""
        turns = self.turns or [0]
        return [
            "- Environments per episode: " + ", ".join(f"K = {k}: {n} episodes" for k, n in sorted(self.num_envs.items())),
            f"- Turns per episode: mean {fmean(turns):.1f}, median {median(turns):g}, most {max(turns)}",
            f"- Turns that act in several environments: {self.parallel / max(1, sum(turns)):.0%}",
            f"- Succeeded: {self.succeeded} of {self.episodes}",
        ]

    def table(self) -> list[str]:
        """Episodes by task type."""
        return ["| task type | episodes |", "|---|---|", *(f"| {name} | {n} |" for name, n in sorted(self.types.items()))]

    def tasks_line(self) -> str:
        """How many tasks, and of which lists of their worlds."""
        return f"- Tasks: {len(self.tasks)}, from the lists {_counts(self.splits)}"


def write_card(run: RunFolder, *, config: Config, tasks: Sequence[Task], dropped: Mapping[str, int]) -> None:
    """Write the card into the run folder of a finished synthesis.

    Args:
        run: The folder, with all episodes in it.
        config: Its settings.
        tasks: The tasks that were played.
        dropped: Reason to number of episodes that were left out.
    """
    contents = Contents()
    for line in run.read_episodes(stage="synth", problems=[]):
        contents.add(line.episode)
    write_atomic(run.path / CARD, synth_card(contents, config=config, tasks=tasks, dropped=dropped, world=_world(run)))


def synth_card(
    contents: Contents, *, config: Config, tasks: Sequence[Task], dropped: Mapping[str, int], world: Mapping[str, str]
) -> str:
    """The card of a synthesis as Markdown. Pure.

    Args:
        contents: The demonstrations kept.
        config: Settings of the job.
        tasks: The tasks that were played.
        dropped: Reason to number of episodes left out.
        world: What the world says about itself: versions and rules.
    """
    by_a_model = config.synth.teacher == "openai"
    splits = Counter(task.split or "unknown" for task in tasks)
    head = [
        f"{contents.episodes} episodes with {sum(contents.turns)} turns of {len(contents.tasks)} tasks, "
        f"played by the teacher `{config.synth.teacher}`"
        + (f" (`{config.server.model}`)" if by_a_model else "")
        + ". Every action was really done and every answer is the world's.",
        "",
        f"- Tasks played: {len(tasks)}, from the lists {_counts(splits)}",
        *contents.facts(),
        f"- Left out: {_reasons(dropped)}",
        "",
        *contents.table(),
    ]
    files = (
        "`episodes/synth-*.jsonl`: one episode a line, a file per K; `episodes/dropped-*.jsonl`: those left out; "
        "`config.yaml`: all settings; `run.json`: versions."
    )
    again = [
        f"    dpepo synth {shlex.quote(str(config.run.dir))}/config.yaml run.dir=ANOTHER_FOLDER",
        "",
        f"Seed {config.seed}. {_versions(world)}",
    ]
    licence = _licence([config.env.world], _BY_A_MODEL if by_a_model else "")
    return _card(f"Demonstrations: {config.env.world}", head, files=files, again=again, licence=licence)


def export_card(contents: Contents, *, shape: Format, file: Path, rows: int, source: Path, stage: str) -> str:
    """The card of an exported file as Markdown.

    Args:
        contents: The episodes in it.
        shape: Its format.
        file: The file.
        rows: Rows in it.
        source: The run or file it was made from; what a run says about its world is repeated.
        stage: Which episodes of the run; empty: the demonstrations.
    """
    head = [
        f"{rows} rows of {contents.episodes} episodes with {sum(contents.turns)} turns, in the format `{shape.name}`.",
        "",
        contents.tasks_line(),
        *contents.facts(),
        "",
        *contents.table(),
        "",
        "## Format",
        "",
        f"Read by {shape.reads}. Loss on the reply only: {shape.loss}." + (f" See {shape.source}" if shape.source else ""),
    ]
    command = ["dpepo", "data", "export", str(source), "--format", shape.name, "--out", str(file)]
    command += ["--stage", stage] if stage else []
    again = [f"    {shlex.join(command)}", "", f"How the episodes were made: {_origin(source)} {_versions(_world_of(source))}"]
    return _card(
        f"Dataset: {', '.join(sorted(contents.worlds))}",
        head,
        files=f"`{file.name}`: a row per {'episode' if shape.name == 'conversations' else 'turn'}.",
        again=again,
        licence=_licence(sorted(contents.worlds), "What the source's card says about replies holds here too."),
    )


def write_import_card(
    run: RunFolder, contents: Contents, *, source: Path, skipped: Mapping[str, int], conversations: int, replayed: bool
) -> None:
    """Write the card into the run folder of a finished import.

    Args:
        run: The folder.
        contents: The episodes in it.
        source: The file they come from.
        skipped: Reason to number of rows left out.
        conversations: How many episodes were conversations of others.
        replayed: Whether these were played again.
    """
    how = (
        "Rows of dpepo came back as the episodes they were made of."
        if not conversations
        else "Conversations were played again: prompts, answers and success are the world's."
        if replayed
        else "Conversations of others are as they were written: their own prompts, and nothing of what the environments "
        "answered, so that whether they succeeded is not known."
    )
    head = [
        f"{contents.episodes} episodes with {sum(contents.turns)} turns, imported from `{source.name}` "
        f"(SHA-256 {_digest(source)}). {how}",
        "",
        contents.tasks_line(),
        *contents.facts(),
        f"- Rows left out: {_reasons(skipped)}",
        "",
        *contents.table(),
    ]
    command = ["dpepo", "data", "import", str(source), "--out", "ANOTHER_FOLDER", *(["--replay"] if replayed else [])]
    settings = [f"{run.path}/config.yaml"] if replayed else []
    again = [f"    {shlex.join([*command, *settings])}", "", _versions(_world(run))]
    licence = _licence(sorted(contents.worlds), "Rows are under the licence of their source.")
    files = "`episodes/synth-*.jsonl`: one episode a line, a file per K; `config.yaml`: settings; `run.json`: versions."
    card = _card(f"Imported: {', '.join(sorted(contents.worlds))}", head, files=files, again=again, licence=licence)
    write_atomic(run.path / CARD, card)


def _card(title: str, head: Sequence[str], *, files: str, again: Sequence[str], licence: str) -> str:
    sections = ["", "## Files", "", files, "", "## How to make it again", "", *again, "", "## Licence", "", licence, ""]
    return "\n".join([f"# {title}", "", *head, *sections])


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in sorted(counts.items()))


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in sorted(counts.items())) or "nothing"


def _licence(worlds: Sequence[str], more: str) -> str:
    known = [_LICENCES.get(world, f"That of the world {world}.") for world in worlds if world != UNKNOWN_WORLD]
    return " ".join([*known, more]).strip()


def _versions(world: Mapping[str, str]) -> str:
    about = ", ".join(f"{key} {value}" for key, value in sorted(world.items())) or "unknown"
    return f"World: {about}. dpepo {dpepo.__version__}."


def _origin(source: Path) -> str:
    return f"`{source}/{CARD}`." if (source / CARD).is_file() else f"`{source}`."


def _world_of(source: Path) -> dict[str, str]:
    try:
        return _world(RunFolder.open(source))
    except RunFolderError:
        return {}


def _world(run: RunFolder) -> dict[str, str]:
    for session in reversed(run.sessions):
        found = session.get("world")
        if isinstance(found, dict):
            return {str(key): str(value) for key, value in found.items()}
    return {}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
