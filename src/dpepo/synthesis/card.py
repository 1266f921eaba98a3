"""The data card of a set of demonstrations: ``README.md`` in its run folder, for whoever is handed the folder later."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from dpepo.config import Config
from dpepo.runs.files import write_atomic
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis.filters import parallel_share
from dpepo.types import Episode, Task

_LICENCES = {
    "alfworld": "ALFWorld games and text: MIT (github.com/alfworld/alfworld).",
    "scienceworld": "ScienceWorld simulator and text: Apache-2.0 (github.com/allenai/ScienceWorld).",
    "textworld": "TextWorld: MIT (github.com/microsoft/TextWorld).",
}


def write_card(run: RunFolder, *, config: Config, tasks: Sequence[Task], dropped: Mapping[str, int]) -> None:
    """Write ``README.md`` into the run folder of a finished synthesis.

    Args:
        run: The folder, with all episodes in it.
        config: Its settings.
        tasks: The tasks that were played.
        dropped: Reason to number of episodes that were left out.
    """
    episodes = [line.episode for line in run.read_episodes(stage="synth", problems=[])]
    write_atomic(run.path / "README.md", data_card(episodes, config=config, tasks=tasks, dropped=dropped, world=_world(run)))


def data_card(
    episodes: Sequence[Episode], *, config: Config, tasks: Sequence[Task], dropped: Mapping[str, int], world: Mapping[str, str]
) -> str:
    """The card as Markdown. Pure.

    Args:
        episodes: The demonstrations kept, at least one.
        config: Settings of the job.
        tasks: The tasks that were played.
        dropped: Reason to number of episodes left out.
        world: What the world says about itself: versions and rules.
    """
    by_type = Counter(episode.task.name for episode in episodes)
    by_k = Counter(episode.num_envs for episode in episodes)
    splits = Counter(task.split or "unknown" for task in tasks)
    turns = [len(episode.turns) for episode in episodes]
    lines = [
        f"# Demonstrations: {config.env.world}",
        "",
        f"{len(episodes)} episodes with {sum(turns)} turns of {len({episode.task.id for episode in episodes})} tasks, "
        f"played by the teacher `{config.synth.teacher}`"
        + (f" (`{config.server.model}`)" if config.synth.teacher == "openai" else "")
        + ". Every action was really done and every answer is the world's.",
        "",
        f"- Tasks played: {len(tasks)}, from the lists " + ", ".join(f"{name} ({n})" for name, n in sorted(splits.items())),
        "- Environments per episode: " + ", ".join(f"K = {k}: {n} episodes" for k, n in sorted(by_k.items())),
        f"- Turns per episode: mean {fmean(turns):.1f}, median {median(turns):g}, most {max(turns)}",
        f"- Turns that act in several environments: {parallel_share(episodes):.0%}",
        f"- Succeeded: {sum(episode.success for episode in episodes)} of {len(episodes)}",
        "- Left out: " + (", ".join(f"{n} {reason}" for reason, n in sorted(dropped.items())) or "nothing"),
        "",
        "| task type | episodes |",
        "|---|---|",
        *(f"| {name} | {n} |" for name, n in sorted(by_type.items())),
        "",
        "## Files",
        "",
        "`episodes/synth-*.jsonl`: one episode a line, a file per K; `episodes/dropped-*.jsonl`: those left out; "
        "`config.yaml`: all settings; `run.json`: versions.",
        "",
        "## How to make it again",
        "",
        f"    dpepo synth {shlex.quote(str(config.run.dir))}/config.yaml run.dir=ANOTHER_FOLDER",
        "",
        f"Seed {config.seed}. World: "
        + (", ".join(f"{key} {value}" for key, value in sorted(world.items())) or "unknown")
        + ".",
        "",
        "## Licence",
        "",
        _LICENCES.get(config.env.world, f"That of the world {config.env.world}.")
        + (" Replies were written by a model; its provider's terms apply too." if config.synth.teacher == "openai" else ""),
        "",
    ]
    return "\n".join(lines)


def _world(run: RunFolder) -> dict[str, str]:
    for session in reversed(run.sessions):
        found = session.get("world")
        if isinstance(found, dict):
            return {str(key): str(value) for key, value in found.items()}
    return {}
