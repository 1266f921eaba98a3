"""The job ``dpepo synth``: play tasks with a teacher, keep the demonstrations that pass, count what was dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpepo.config import Config
from dpepo.envs import EnvPool, lent_pool, load_world, select_tasks
from dpepo.errors import JobError
from dpepo.policies import Policy
from dpepo.protocol import PromptBuilder
from dpepo.rollout import EpisodeRequest, play_many, play_settings
from dpepo.runs.demonstrated import write_demonstrated
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis.card import write_card
from dpepo.synthesis.filters import parallel_share, sift
from dpepo.synthesis.teachers import load_teacher, token_counter
from dpepo.types import Episode, Record, Task

STAGE = "synth"  # episodes kept
DROPPED = "dropped"  # episodes that were played and are no demonstrations
PLAYED = "played"  # while a K is not complete: all of its episodes so far


class SynthResult(Record):
    """What a synthesis job brought."""

    played: int
    kept: int
    succeeded: int
    dropped: dict[str, int]  # reason to count

    def __str__(self) -> str:
        """The result for a person."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
        dropped = f"; dropped: {reasons}" if reasons else ""
        return f"kept {self.kept} of {self.played} demonstrations; {self.succeeded} of those played succeeded{dropped}"


def run_synth(config: Config, *, run: RunFolder, progress: Progress, pool: EnvPool | None = None) -> SynthResult:
    """Record demonstrations for the tasks of ``tasks.train`` into the run folder, a file per K, with a data card.

    Every episode is written when it finishes; a resumed job plays what is missing and nothing else.

    Raises:
        RequestError: A task, the teacher or its server does not exist.
        JobError: Nothing was kept, or a server's budget is spent.
    """
    with load_world(config.env.world, config.env.options) as world:
        tasks = select_tasks(world, config.tasks.train, seed=config.seed, note=progress.note)
    done = {row.step for row in run.read_metrics().rows if row.stage == STAGE}
    with lent_pool(config.env, pool) as pool:
        run.record(world=pool.metadata())
        teacher = load_teacher(config, tasks, pool=pool, run=run)
        try:
            for num_envs in sorted(set(config.synth.num_envs) - done):
                episodes = _play(num_envs, tasks, config=config, teacher=teacher, pool=pool, run=run, progress=progress)
                _keep(num_envs, episodes, config=config, run=run)
        finally:
            teacher.close()
    result = _result(run)
    if not result.kept:
        raise JobError(f"No demonstration was kept: {result.dropped}. Try another synth.teacher, or synth.keep=all")
    write_demonstrated(run.path, (line.episode.task.id for line in run.read_episodes(stage=STAGE, problems=[])))
    write_card(run, config=config, tasks=tasks, dropped=result.dropped)
    return result


def _play(
    num_envs: int,
    tasks: Sequence[Task],
    *,
    config: Config,
    teacher: Policy,
    pool: EnvPool,
    run: RunFolder,
    progress: Progress,
) -> list[Episode]:
    """All episodes of one K, in the order of the tasks, whoever finished first and in whichever session."""
    wanted = [
        EpisodeRequest(task=task, seed=config.seed, sibling=n) for task in tasks for n in range(config.synth.episodes_per_task)
    ]
    problems: list[str] = []
    lines = [line for line in run.read_episodes(stage=PLAYED, problems=problems) if line.step == num_envs]
    for problem in problems:
        progress.note(problem)
    # an episode that a fault cut short says nothing about the task: a resumed job gives it another chance
    found = {(one.task.id, one.sibling): one for line in lines if (one := line.episode).outcome is not None}
    progress.start(f"demonstrations, K = {num_envs}", total=len(wanted), unit="episodes")
    progress.skip(len(found))
    succeeded = sum(episode.success for episode in found.values())

    def write(episode: Episode) -> None:
        nonlocal succeeded
        run.write_episodes(PLAYED, num_envs, [episode])
        found[episode.task.id, episode.sibling] = episode
        succeeded += episode.success
        progress.advance(1, success=succeeded / len(found))

    play_many(
        [request for request in wanted if (request.task.id, request.sibling) not in found],
        settings=play_settings(config, num_envs=num_envs),
        policy=teacher,
        pool=pool,
        prompts=PromptBuilder(config.prompt),
        on_episode=write,
    )
    progress.finish()
    return [found[request.task.id, request.sibling] for request in wanted]


def _keep(num_envs: int, episodes: Sequence[Episode], *, config: Config, run: RunFolder) -> None:
    """Sift the episodes of one K and put each where it belongs."""
    sifted = sift(episodes, rules=config.synth, count_tokens=token_counter(config))
    kept = [episode for episode, reason in sifted if not reason]
    reasons = Counter(reason for _, reason in sifted if reason)
    run.replace_episodes(STAGE, num_envs, kept)
    run.replace_episodes(DROPPED, num_envs, [episode for episode, reason in sifted if reason])
    run.metrics.log(
        STAGE,
        num_envs,
        {
            "played": len(episodes),
            "succeeded": sum(episode.success for episode in episodes),
            "kept": len(kept),
            "parallel_share": parallel_share(kept),
            **{f"dropped/{reason}": count for reason, count in reasons.items()},
        },
    )
    run.replace_episodes(PLAYED, num_envs, [])


def _result(run: RunFolder) -> SynthResult:
    rows = [row.values for row in run.read_metrics().rows if row.stage == STAGE]
    dropped: Counter[str] = Counter()
    for row in rows:
        dropped.update(
            {name.removeprefix("dropped/"): int(value or 0) for name, value in row.items() if name.startswith("dropped/")}
        )
    total = {name: sum(int(row.get(name) or 0) for row in rows) for name in ("played", "kept", "succeeded")}
    return SynthResult(**total, dropped=dict(dropped))
