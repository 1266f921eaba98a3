"""What a run of ``dpepo synth`` holds, by task type and style, and whether it is true.

    python benchmarks/coldstart.py runs/alfworld-coldstart              # the tables of docs/coldstart.md
    python benchmarks/coldstart.py runs/alfworld-coldstart --replay     # plays every kept episode again and compares

Episodes that were dropped count as played. The style of an episode follows from its seed, see `dpepo.synthesis.oracle.styles`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean, median

from dpepo.config import Config, Style
from dpepo.envs import Bundle, World, load_world
from dpepo.rollout import reply_seed
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import parallel_share
from dpepo.synthesis.oracle.styles import style_of
from dpepo.types import Episode

COLUMNS = ("played", "kept", "turns, mean", "median", "most", "actions a turn", "turns in several", "words a thought")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of dpepo synth")
    parser.add_argument("--replay", action="store_true", help="play every kept episode again")
    arguments = parser.parse_args()
    run = RunFolder.open(arguments.run)
    kept = [line.episode for line in run.read_episodes(stage="synth", problems=[])]
    dropped = [line.episode for line in run.read_episodes(stage="dropped", problems=[])]
    wanted = run.config.synth.style
    for title, key in (("task type", _task_type), ("style", lambda episode: _style(episode, wanted)), ("all", lambda _: "all")):
        sys.stdout.write("\n".join([*_table(title, key, kept, dropped), "", ""]))
    if arguments.replay:
        sys.stdout.write(f"{_count_true(run.config, kept)} of {len(kept)} kept episodes replay to what was recorded\n")


def _task_type(episode: Episode) -> str:
    return episode.task.name


def _style(episode: Episode, wanted: Style) -> str:
    seed = reply_seed(episode.seed, task_id=episode.task.id, sibling=episode.sibling, turn=-1)
    return style_of(wanted, seed=seed).value


def _table(title: str, key: Callable[[Episode], str], kept: Iterable[Episode], dropped: Iterable[Episode]) -> list[str]:
    groups: dict[str, tuple[list[Episode], list[Episode]]] = defaultdict(lambda: ([], []))
    for episode in kept:
        groups[key(episode)][0].append(episode)
    for episode in dropped:
        groups[key(episode)][1].append(episode)
    lines = [f"| {title} | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, (good, bad) in sorted(groups.items()):
        turns = [len(episode.turns) for episode in good]
        thoughts = [len(turn.reply.thought.split()) for episode in good for turn in episode.turns]
        actions = sum(episode.num_actions for episode in good)
        numbers = [str(len(good) + len(bad)), str(len(good))]
        if good:
            numbers += [f"{fmean(turns):.1f}", f"{median(turns):g}", str(max(turns)), f"{actions / sum(turns):.2f}"]
            numbers += [f"{parallel_share(good):.0%}", f"{fmean(thoughts):.0f}"]
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    return lines


def _count_true(config: Config, episodes: Iterable[Episode]) -> int:
    with load_world(config.env.world, config.env.options) as world:
        return sum(_is_true(world, episode) for episode in episodes)


def _is_true(world: World, episode: Episode) -> bool:
    """Whether fresh environments answer every action as recorded, and the goal is reached."""
    bundle = Bundle(world, episode.task.id, episode.num_envs)
    try:
        start = bundle.reset()
        if (start.goal, start.initial) != (episode.goal, episode.initial):
            return False
        for turn in episode.turns:
            seen = bundle.step({step.env_id: step.action for step in turn.steps})
            if seen != {step.env_id: step.observation for step in turn.steps}:
                return False
        return any(observation.success for observation in seen.values())
    finally:
        bundle.close()


if __name__ == "__main__":
    main()
