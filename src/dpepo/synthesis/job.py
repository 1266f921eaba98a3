"""The job ``dpepo synth``: play tasks with a teacher, keep the demonstrations that pass, count what was dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpepo.config import Config
from dpepo.envs import EnvPool, lent_pool, load_world, select_tasks
from dpepo.errors import JobError
from dpepo.protocol import PromptBuilder
from dpepo.rollout import AgentPolicy, EpisodeRequest, cast, play_many, play_settings
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode, Record, Task

STAGE = "synth"


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
    """Record demonstrations for the tasks of ``tasks.train`` into the run folder, a file per K.

    A resumed job plays only the K whose file is not complete.

    Raises:
        TaskError: The oracle has no gold actions for a task.
        JobError: Nothing was kept.
    """
    with load_world(config.env.world, config.env.options) as world:
        tasks = select_tasks(world, config.tasks.train, seed=config.seed)
    prompts = PromptBuilder(config.prompt)
    done = {row.step for row in run.read_metrics().rows if row.stage == STAGE}
    with lent_pool(config.env, pool) as pool:
        run.record(world=pool.metadata())
        for num_envs in sorted(set(config.synth.num_envs)):  # ascending, as `rewind` moves all later files aside
            if num_envs in done:
                continue
            run.rewind(STAGE, num_envs - 1)
            _record_num_envs(num_envs, tasks, config=config, pool=pool, prompts=prompts, run=run, progress=progress)
    result = _result(run)
    if not result.kept:
        raise JobError(f"No demonstration was kept: {result.dropped}. Try another synth.teacher, or synth.keep=all")
    return result


def _record_num_envs(
    num_envs: int,
    tasks: Sequence[Task],
    *,
    config: Config,
    pool: EnvPool,
    prompts: PromptBuilder,
    run: RunFolder,
    progress: Progress,
) -> None:
    """Play and write all demonstrations of one K."""
    per_task = config.synth.episodes_per_task
    progress.start(f"demonstrations, K = {num_envs}", total=len(tasks) * per_task, unit="episodes")
    counts = {"played": 0, "succeeded": 0, "kept": 0}
    dropped: Counter[str] = Counter()

    def note(episode: Episode) -> None:
        counts["played"] += 1
        counts["succeeded"] += episode.success
        progress.advance(1, success=counts["succeeded"] / counts["played"])

    teachers = cast(config.synth.teacher, tasks, pool=pool, form=config.prompt.form, key="synth.teacher")
    for agent, chosen in teachers:
        requests = [EpisodeRequest(task=task, seed=config.seed, sibling=n) for task in chosen for n in range(per_task)]
        settings = play_settings(config, num_envs=num_envs)
        episodes = play_many(
            requests, settings=settings, policy=AgentPolicy(agent), pool=pool, prompts=prompts, on_episode=note
        )
        reasons = [drop_reason(episode, keep=config.synth.keep) for episode in episodes]
        dropped.update(reason for reason in reasons if reason)
        kept = [episode for episode, reason in zip(episodes, reasons, strict=True) if not reason]
        counts["kept"] += len(kept)
        run.write_episodes(STAGE, num_envs, kept)
    run.metrics.log(STAGE, num_envs, {**counts, **{f"dropped/{reason}": n for reason, n in dropped.items()}})
    progress.finish()


def drop_reason(episode: Episode, *, keep: str) -> str:
    """Why an episode is no demonstration; empty when it is one. ``keep`` is "success" or "all"."""
    if episode.outcome is None:
        return "lost"
    if not episode.turns:
        return "empty"
    if any(turn.reply.problems for turn in episode.turns):
        return "malformed"
    return "" if episode.success or keep == "all" else "failed"


def _result(run: RunFolder) -> SynthResult:
    rows = [row.values for row in run.read_metrics().rows if row.stage == STAGE]
    dropped: Counter[str] = Counter()
    for row in rows:
        dropped.update(
            {name.removeprefix("dropped/"): int(value or 0) for name, value in row.items() if name.startswith("dropped/")}
        )
    total = {name: sum(int(row.get(name) or 0) for row in rows) for name in ("played", "kept", "succeeded")}
    return SynthResult(**total, dropped=dict(dropped))
