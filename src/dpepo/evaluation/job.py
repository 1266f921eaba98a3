"""The job ``dpepo eval``: every task once (or n times), nothing played twice after a kill."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.config import Config, Form, OverLimit
from dpepo.envs import EnvPool, lent_pool, load_world, select_tasks
from dpepo.errors import JobError
from dpepo.evaluation.conditions import Conditions, conditions_of, names_limit
from dpepo.evaluation.result import EvalResult, summarise
from dpepo.policies import Policy
from dpepo.protocol import PromptBuilder
from dpepo.rollout import (
    USAGE_FILE,
    EpisodeRequest,
    PlaySettings,
    cast_policy,
    load_policy,
    lost_reason,
    play_many,
    play_settings,
    sampling_note,
)
from dpepo.runs.episode_numbers import env_numbers, finished, length_numbers, play_numbers, problem_numbers, success_numbers
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode, Task

STAGE = "eval"
MODEL = "model"

EpisodeKey = tuple[str, int]  # task id and number of the episode among those of its task


def run_eval(config: Config, *, run: RunFolder, progress: Progress, pool: EnvPool | None = None) -> EvalResult:
    """Evaluate ``eval.policy`` on ``tasks.eval`` and write episodes and result into the run folder.

    Raises:
        RequestError: A task, world, model or agent does not exist.
        JobError: Every episode was lost to a fault of environments or policy.
    """
    with load_world(config.env.world, config.env.options) as world:
        tasks = select_tasks(world, config.tasks.eval, seed=config.seed, note=progress.note)
    settings = play_settings(
        config, num_envs=config.eval.num_envs or None, temperature=config.eval.temperature, over_limit=config.eval.over_limit
    )
    conditions = _conditions(config, progress=progress)
    with lent_pool(config.env, pool) as pool:
        run.record(world=pool.metadata())
        policy = _policy(config, tasks, pool=pool, run=run, progress=progress)
        before = pool.clock.copy()
        progress.start(f"evaluate, K = {settings.num_envs}", total=len(tasks) * config.eval.episodes_per_task, unit="episodes")
        try:
            episodes = evaluate(tasks, settings=settings, policy=policy, pool=pool, config=config, run=run, progress=progress)
        finally:
            policy.close()
        progress.finish()
        took = env_numbers(pool.clock.since(before))
    result = summarise(episodes, conditions=conditions)
    if result.lost and not result.n:
        raise JobError(f"Nothing was measured: all {result.lost} episodes were lost. {lost_reason(episodes)}")
    run.metrics.log(STAGE, 0, _metrics(episodes, result) | took)
    return result


def _conditions(config: Config, *, progress: Progress) -> Conditions:
    """How it will be played; said aloud where the prompt keeps K to itself and the rule above K ends episodes."""
    conditions = conditions_of(config)
    stated = names_limit(PromptBuilder(config.prompt), conditions.num_envs)
    if not stated and conditions.form is Form.PARALLEL and conditions.over_limit is OverLimit.FAIL:
        progress.note(
            f"The templates {conditions.templates} do not say how many environments there are (K = {conditions.num_envs}), "
            "and asking for more fails an episode (eval.over_limit)."
        )
    return conditions.model_copy(update={"limit_stated": stated})


def _policy(config: Config, tasks: Sequence[Task], *, pool: EnvPool, run: RunFolder, progress: Progress) -> Policy:
    """Who plays."""
    if config.eval.policy == MODEL:
        model = load_policy(config.model, sampling=config.sampling)
        progress.note(sampling_note(model, play_settings(config, temperature=config.eval.temperature).sampling))
        return model
    return cast_policy(config.eval.policy, tasks, config=config, pool=pool, key="eval.policy", ledger=run.path / USAGE_FILE)


def _metrics(episodes: Sequence[Episode], result: EvalResult) -> dict[str, float]:
    turns = [turn for episode in finished(episodes) for turn in episode.turns]
    return {
        **success_numbers("val", episodes),
        "val/success_rate_played": result.success_rate_played,
        **{f"val/pass_at_{k}": value for k, value in result.pass_at.items() if k > 1},
        **play_numbers("val", episodes),
        **length_numbers(turns),
        **problem_numbers(turns),
    }


def evaluate(
    tasks: Sequence[Task],
    *,
    settings: PlaySettings,
    policy: Policy,
    pool: EnvPool,
    config: Config,
    run: RunFolder,
    progress: Progress,
    stage: str = STAGE,
    step: int = 0,
) -> list[Episode]:
    """Play the episodes of an evaluation that the run folder does not hold yet, writing each as it finishes.

    Args:
        tasks: Each is played ``eval.episodes_per_task`` times.
        settings: K, turn limit and sampling.
        policy: Who acts.
        pool: Where.
        config: Prompt, seed, episodes per task, batch size.
        run: Receives the episodes under `stage` and `step`.
        progress: A started stage; advanced by one per episode, those read back included.
        stage: Name of the evaluation in the run folder.
        step: Training step of the policy.

    Returns:
        All episodes of the evaluation, those of an earlier session first.
    """
    wanted = {(task.id, n): task for task in tasks for n in range(config.eval.episodes_per_task)}
    found = _recorded(run, stage=stage, step=step, progress=progress)
    episodes = [found[key] for key in wanted if key in found]
    won = sum(episode.success for episode in episodes)
    if episodes:
        progress.skip(len(episodes), success=won / len(episodes))

    def keep(episode: Episode) -> None:
        nonlocal won
        run.write_episodes(stage, step, [episode])
        episodes.append(episode)
        won += episode.success
        progress.advance(1, success=won / len(episodes))

    play_many(
        [EpisodeRequest(task=task, seed=config.seed, sibling=key[1]) for key, task in wanted.items() if key not in found],
        settings=settings,
        policy=policy,
        pool=pool,
        prompts=PromptBuilder(config.prompt),
        max_active=config.sampling.batch_size,
        on_episode=keep,
    )
    return episodes


def _recorded(run: RunFolder, *, stage: str, step: int, progress: Progress) -> dict[EpisodeKey, Episode]:
    """Episodes of this evaluation that an earlier session has finished.

    Damaged lines are named and left out; lost episodes are left out too, so that a resumed evaluation tries them again.
    """
    problems: list[str] = []
    lines = [line for line in run.read_episodes(stage=stage, problems=problems) if line.step == step]
    for problem in problems:
        progress.note(problem)
    finished = (line.episode for line in lines if line.episode.outcome is not None)
    return {(episode.task.id, episode.sibling): episode for episode in finished}
