"""The job ``dpepo train``: reinforcement learning. `train_step` is one step, in the order in which the method is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from dpepo.algorithms import Algorithm, group_metrics, load_algorithm
from dpepo.config import Config
from dpepo.envs import EnvPool, lent_pool, load_world, refuse_overlap, select_tasks, types_note
from dpepo.learning import Critic, Learner, ValueHead, build_samples, learning_rate
from dpepo.policies import HfPolicy
from dpepo.protocol import PromptBuilder
from dpepo.rollout import hf_policy, play_settings, sampling_note
from dpepo.runs.advantages import episode_advantages, write_advantages
from dpepo.runs.checkpoints import is_save_step
from dpepo.runs.demonstrated import read_demonstrated, refuse_demonstrated
from dpepo.runs.episode_numbers import env_numbers
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.training.checkpoint import begin, find_checkpoint, read_learner_state, write_training_state
from dpepo.training.collecting import STAGE, Collector
from dpepo.training.metrics import episode_metrics, step_timing
from dpepo.training.validation import Validation, is_best
from dpepo.types import Episode, EpisodeGroup, Record, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from dpepo.learning.reference import Reference

PATIENCE = 5  # steps without anything to learn after which a person is told


class TrainResult(Record):
    """What a training job brought."""

    steps: int  # done in all, those of earlier sessions included
    minutes: float  # of training, earlier sessions included
    success_rate: float  # over the episodes of the last ten steps
    checkpoint: str  # path of the last one

    def __str__(self) -> str:
        """The result for a person."""
        done = f"{self.steps} steps in {self.minutes:.1f} minutes, success {self.success_rate:.3f} in the last ten"
        return f"{done}\nModel: {self.checkpoint}/model"


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a training step works with."""

    config: Config
    collector: Collector
    policy: HfPolicy
    tokenizer: PreTrainedTokenizerBase
    learner: Learner
    algorithm: Algorithm
    run: RunFolder
    validation: Validation
    identity: Mapping[str, str]  # of the model the run started from
    demonstrated: tuple[str, ...]  # ids of the tasks that this model was shown in its cold start


def run_train(config: Config, *, run: RunFolder, progress: Progress, pool: EnvPool | None = None) -> TrainResult:
    """Improve ``model.path`` on ``tasks.train``, or go on where the run folder's last checkpoint ends.

    Raises:
        RequestError: A task, world or model does not exist.
        JobError: Too many steps in a row were not finite, or all episodes of a step were lost.
    """
    tasks, eval_tasks = _select(config, progress=progress)
    checkpoint = find_checkpoint(run, progress=progress)
    model, tokenizer, reference, identity = begin(config, checkpoint, with_reference=config.actor.kl_coef > 0)
    algorithm = load_algorithm(config.algorithm)
    learner = make_learner(config, model, algorithm=algorithm, reference=reference)
    done, minutes = 0, 0.0
    if checkpoint is not None:
        read_learner_state(checkpoint, learner=learner)
        done, minutes = checkpoint.step, float(checkpoint.metadata["minutes"])
    run.rewind(STAGE, done)  # also without a checkpoint: a run that was killed before the first one starts over
    with lent_pool(config.env, pool) as pool:
        run.record(world=pool.metadata())
        prompts = PromptBuilder(config.prompt)
        policy = hf_policy(model, tokenizer, config=config.model, sampling=config.sampling, version=f"step-{done:04d}")
        session = Session(
            config=config,
            policy=policy,
            tokenizer=tokenizer,
            learner=learner,
            algorithm=algorithm,
            collector=Collector(config=config, tasks=tasks, pool=pool, prompts=prompts, policy=policy, run=run),
            run=run,
            validation=Validation(config=config, tasks=eval_tasks, pool=pool, prompts=prompts, policy=policy, run=run),
            identity=identity,
            demonstrated=read_demonstrated(config.model),
        )
        _note_settings(session, progress=progress)
        return _train(session, done=done, minutes=minutes, progress=progress)


def _note_settings(session: Session, *, progress: Progress) -> None:
    """Say once how replies are drawn, and what cannot teach anything."""
    progress.note(sampling_note(session.policy, play_settings(session.config).sampling))
    if session.config.train.group_size == 1 and session.algorithm.compares_siblings:
        progress.note("train.group_size is 1: nothing to compare episodes with, so nothing is learnt. Try: 8")


def train_step(session: Session, step: int, *, on_episode: Callable[[Episode], None] | None = None) -> dict[str, float]:
    """One step: play groups, score them, turn scores into advantages and advantages into an update of the weights.

    Args:
        session: Model, environments and settings.
        step: From 1; it fixes which tasks are played and all randomness.
        on_episode: Called as episodes finish.

    Returns:
        The step's metrics, by the field's names.

    Raises:
        JobError: All episodes were lost to faults, so that there is nothing to learn from.
    """
    config, learner = session.config, session.learner
    clock = session.collector.clock
    began, sampled_s, env_s, envs = time.perf_counter(), clock.sample_s, clock.env_s, session.collector.pool.clock.copy()
    collected = session.collector.collect(step, on_episode=on_episode)
    groups = collected.groups
    values = turn_values(groups, learner=learner) if session.algorithm.uses_values else None
    credited = session.algorithm.advantages_many(groups, values=values)
    write_advantages(session.run.path, STAGE, step, episode_advantages(credited, algorithm=config.algorithm.name))
    samples = build_samples(credited, values=values)
    played_at = time.perf_counter()
    update = learner.update(samples, lr=learning_rate(step, num_steps=config.train.steps, config=config.actor))
    session.policy.version = f"step-{step:04d}"
    timing = step_timing(
        groups,
        sample_s=clock.sample_s - sampled_s,
        env_s=clock.env_s - env_s,
        rollout_s=played_at - began,
        update_s=time.perf_counter() - played_at,
    )
    timing |= env_numbers(session.collector.pool.clock.since(envs))
    return {**episode_metrics(collected.drawn), **group_metrics(credited), **collected.metrics, **update, **timing}


def turn_values(groups: Sequence[EpisodeGroup], *, learner: Learner) -> list[list[list[float]]]:
    """The value of every turn, per group and sibling; 0 for turns without token ids."""
    turns = [turn for group in groups for sibling in group.siblings for turn in sibling.episode.turns]
    prompts = [turn.completion.prompt_token_ids for turn in turns if turn.completion.prompt_token_ids]
    found = iter(learner.values(prompts))
    return [
        [
            [next(found) if turn.completion.prompt_token_ids else 0.0 for turn in sibling.episode.turns]
            for sibling in group.siblings
        ]
        for group in groups
    ]


def make_learner(config: Config, model: PreTrainedModel, *, algorithm: Algorithm, reference: Reference | None) -> Learner:
    """The learner that an algorithm needs."""
    critic, own = None, config.algorithm
    if algorithm.uses_values:
        critic = Critic(ValueHead(model), coef=own.value_coef, clip=own.value_clip, lr=own.value_lr)
    length = config.actor.loss_length or config.sampling.max_new_tokens
    return Learner(
        model,
        config=config.actor.model_copy(update={"loss_length": length}),
        temperature=config.sampling.temperature,
        reference=reference,
        traits=algorithm.loss,
        critic=critic,
    )


def _train(session: Session, *, done: int, minutes: float, progress: Progress) -> TrainResult:
    """All steps that are left, with metrics and checkpoints."""
    config, run = session.config, session.run
    progress.start(f"reinforcement learning, K = {config.env.num_envs}", total=config.train.steps, unit="steps")
    progress.skip(done)
    began = time.monotonic() - 60.0 * minutes
    without_signal = 0  # steps in a row in which no group had both successes and failures
    out_of_time = 0.0 < config.train.max_minutes <= minutes
    for step in range(done + 1, done + 1 if out_of_time else config.train.steps + 1):
        if step == 1 and config.train.eval_every:
            run.metrics.log(STAGE, 0, session.validation.play(0))
        metrics = train_step(session, step)
        minutes = (time.monotonic() - began) / 60.0
        out_of_time = 0.0 < config.train.max_minutes <= minutes
        last = step == config.train.steps or out_of_time
        if config.train.eval_every and is_save_step(step, every=config.train.eval_every, last=step if last else 0):
            metrics |= session.validation.play(step)
        run.metrics.log(STAGE, step, metrics)
        progress.advance(1, success=metrics["episode/success_rate"])
        without_signal = 0 if metrics["group/frac_zero_advantage"] < 1.0 else without_signal + 1
        if without_signal and without_signal % PATIENCE == 0:
            progress.note(_no_signal_note(without_signal, step=step, config=config))
        score = metrics.get("val/success_rate") if config.train.keep_best else None
        if is_save_step(step, every=config.train.save_every, last=step if last else 0) or is_best(run, score, step=step):
            _save(session, step, minutes=minutes, score=score)
        if last:
            break
    progress.finish()
    return _result(run, minutes=minutes)


def _no_signal_note(num_steps: int, *, step: int, config: Config) -> str:
    moved = "only the KL term moved the weights" if config.actor.kl_coef > 0 else "no optimiser step was made"
    return (
        f"step {step}: for {num_steps} steps in a row all siblings of every group ended alike, so that nothing was learnt "
        f"({moved}). Try: easier or harder tasks, a larger train.group_size, a higher sampling.temperature"
    )


def _save(session: Session, step: int, *, minutes: float, score: float | None) -> None:
    session.run.save_checkpoint(
        step,
        lambda folder: write_training_state(
            folder, learner=session.learner, tokenizer=session.tokenizer, demonstrated=session.demonstrated
        ),
        keep_last=session.config.train.keep_last,
        metadata={"minutes": minutes, "model": dict(session.identity)},
        score=score,
    )


def _result(run: RunFolder, *, minutes: float) -> TrainResult:
    latest = run.latest_checkpoint().checkpoint
    done = 0 if latest is None else latest.step  # a killed session may have logged steps that are not in any checkpoint
    rows = [row.values for row in run.read_metrics().rows if row.stage == STAGE and 0 < row.step <= done]
    rates = [float(row["episode/success_rate"] or 0.0) for row in rows[-10:]]
    return TrainResult(
        steps=done,
        minutes=minutes,
        success_rate=fmean(rates) if rates else 0.0,
        checkpoint="" if latest is None else str(latest.path),
    )


def _select(config: Config, *, progress: Progress) -> tuple[list[Task], list[Task]]:
    with load_world(config.env.world, config.env.options) as world:
        train = select_tasks(world, config.tasks.train, seed=config.seed, note=progress.note)
        refuse_demonstrated(config, train)
        if not config.train.eval_every:
            return train, []
        evaluation = select_tasks(world, config.tasks.eval, seed=config.seed, note=progress.note)
    if not config.tasks.allow_overlap:
        refuse_overlap(train, evaluation, keys=("tasks.train", "tasks.eval"), allow="tasks.allow_overlap=true")
    progress.note(types_note(train, evaluation))
    return train, evaluation
