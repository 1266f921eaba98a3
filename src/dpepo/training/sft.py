"""The job ``dpepo sft``: supervised fine-tuning on demonstrations, turn by turn, loss on the reply only."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from dpepo.config import Config, SftConfig
from dpepo.envs import EnvPool, lent_pool, load_world, refuse_overlap, select_tasks, types_note
from dpepo.errors import ConfigError, JobError, RequestError
from dpepo.learning import Learner, learning_rate, supervised_config
from dpepo.protocol import PromptBuilder
from dpepo.rollout import hf_policy
from dpepo.runs.checkpoints import is_save_step
from dpepo.runs.demonstrated import read_demonstrated
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.training.checkpoint import begin, find_checkpoint, read_learner_state, write_training_state
from dpepo.training.demonstrations import DemonstrationSet, hold_out, load_demonstrations, plan_epoch
from dpepo.training.validation import Validation, is_best
from dpepo.types import Episode, Record, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STAGE, VALIDATION = "sft", "sft-val"


class SftResult(Record):
    """What a fine-tuning job brought."""

    samples: int
    dropped: int  # samples longer than model.max_length
    steps: int
    loss: float  # mean per reply token over the last tenth of the steps
    checkpoint: str

    def __str__(self) -> str:
        """The result for a person."""
        dropped = f" ({self.dropped} left out)" if self.dropped else ""
        return f"{self.samples} samples{dropped}, {self.steps} steps, loss {self.loss:.3f}\nModel: {self.checkpoint}/model"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimiser step of the plan."""

    number: int  # from 1
    epoch: int  # from 0
    samples: Sequence[int]  # indices


@dataclass(frozen=True, kw_only=True)
class Session:
    """What the job works with."""

    config: Config
    run: RunFolder
    learner: Learner
    tokenizer: PreTrainedTokenizerBase
    data: DemonstrationSet
    held_out: DemonstrationSet | None  # never learnt from
    plan: Sequence[Step]
    validation: Validation | None  # None: nothing is played
    metadata: Mapping[str, Any]  # goes into every checkpoint
    demonstrated: Collection[str]  # ids of the tasks that the model has been shown, here or before


def run_sft(config: Config, *, run: RunFolder, progress: Progress, pool: EnvPool | None = None) -> SftResult:
    """Fine-tune ``model.path`` on ``sft.demonstrations``, or go on where the run folder's last checkpoint ends.

    Args:
        config: The resolved configuration.
        run: The run's folder.
        progress: Who shows how far it is.
        pool: Where evaluations are played; None makes one if there are any.

    Raises:
        RequestError: There are no demonstrations, none fits the context, or the model does not exist.
        JobError: Too many steps in a row, or all of a short job, were not finite.
    """
    learn, held = hold_out(
        load_demonstrations(config.sft.demonstrations, progress=progress), share=config.sft.val_share, seed=config.seed
    )
    eval_tasks = _eval_tasks(config, learn, progress=progress) if config.sft.eval_every else []
    _tell_of_foreign_actions(config, learn, progress=progress)
    checkpoint = find_checkpoint(run, progress=progress)
    model, tokenizer, _, identity = begin(config, checkpoint)
    data = DemonstrationSet(learn, tokenizer=tokenizer, max_length=config.model.max_length, rename=config.sft.rename)
    if data.num_dropped:
        progress.note(f"{data.num_dropped} samples are longer than model.max_length or lack a reply, and are left out")
    if checkpoint is not None and checkpoint.metadata.get("data", data.identity) != data.identity:
        raise ConfigError(
            f"sft.demonstrations {config.sft.demonstrations} no longer holds what this run began with. Put that back, or "
            "start a new run with another run.dir"
        )
    learner = Learner(model, config=supervised_config(config.sft, micro_tokens=config.actor.micro_tokens))
    if checkpoint is not None:
        read_learner_state(checkpoint, learner=learner)
    with ExitStack() as stack:
        session = Session(
            config=config,
            run=run,
            learner=learner,
            tokenizer=tokenizer,
            data=data,
            held_out=DemonstrationSet(held, tokenizer=tokenizer, max_length=config.model.max_length) if held else None,
            plan=plan_steps(data.lengths, config=config.sft, seed=config.seed),
            validation=_validation(config, run, model, tokenizer, eval_tasks, stack.enter_context(lent_pool(config.env, pool)))
            if eval_tasks
            else None,
            metadata={"model": dict(identity), "data": data.identity},
            demonstrated={*read_demonstrated(config.model), *(episode.task.id for episode in learn)},
        )
        _train(session, done=0 if checkpoint is None else checkpoint.step, progress=progress)
    return _result(run, data=data)


def _eval_tasks(config: Config, learn: Sequence[Episode], *, progress: Progress) -> list[Task]:
    with load_world(config.env.world, config.env.options) as world:
        tasks = select_tasks(world, config.tasks.eval, seed=config.seed, note=progress.note)
    shown = [episode.task for episode in learn]
    if not config.tasks.allow_overlap:
        refuse_overlap(shown, tasks, keys=("sft.demonstrations", "tasks.eval"), allow="tasks.allow_overlap=true")
    progress.note(types_note(shown, tasks))
    return tasks


def _tell_of_foreign_actions(config: Config, learn: Sequence[Episode], *, progress: Progress) -> None:
    """Note demonstrated actions that the tasks this model will meet do not understand. Nothing depends on it."""
    actions = [step.action for episode in learn for turn in episode.turns for step in turn.steps]
    splits = dict.fromkeys([config.tasks.train.split, config.tasks.eval.split])
    # demonstrations of another world say nothing here, and a model may be taught where its world is not installed
    if {episode.task.world for episode in learn} == {config.env.world}:
        with suppress(RequestError), load_world(config.env.world, config.env.options) as world:
            foreign = world.foreign_actions(actions, splits=splits)
            if foreign:
                progress.note(f"sft.demonstrations: {foreign}")


def _validation(
    config: Config, run: RunFolder, model: Any, tokenizer: PreTrainedTokenizerBase, tasks: Sequence[Task], pool: EnvPool
) -> Validation:
    policy = hf_policy(model, tokenizer, config=config.model, sampling=config.sampling)
    prompts = PromptBuilder(config.prompt)
    return Validation(config=config, tasks=tasks, pool=pool, prompts=prompts, policy=policy, run=run, stage=VALIDATION)


def _train(session: Session, *, done: int, progress: Progress) -> None:
    """All steps that are left, with metrics and checkpoints."""
    config, run, plan = session.config, session.run, session.plan
    progress.start("supervised fine-tuning", total=len(plan), unit="steps")
    progress.skip(done)
    for step in plan[done:]:
        samples = [session.data.sample(index, seed=f"{config.seed}/{step.epoch}/{index}") for index in step.samples]
        lr = learning_rate(step.number, num_steps=len(plan), config=config.sft)
        torch.manual_seed(_step_seed(config.seed, step.number))  # dropout, where a model has any, is the same after a resume
        began = time.perf_counter()
        metrics = {"sft/epoch": float(step.epoch), **session.learner.supervised_step(samples, lr=lr)}
        seconds = time.perf_counter() - began
        num_tokens = sum(len(sample.prompt_token_ids) + len(sample.token_ids) for sample in samples)
        metrics |= {"timing_s/update": seconds, "perf/tokens_per_s": num_tokens / seconds}
        if step.number == len(plan) or plan[step.number].epoch > step.epoch:
            metrics |= _end_of_epoch(session, step)
        run.metrics.log(STAGE, step.number, metrics)
        progress.advance(1, loss=metrics["sft/loss"])
        score = _score(metrics, config.sft) if config.train.keep_best else None
        if is_save_step(step.number, every=config.sft.save_every, last=len(plan)) or is_best(run, score, step=step.number):
            run.save_checkpoint(
                step.number,
                lambda folder: write_training_state(
                    folder, learner=session.learner, tokenizer=session.tokenizer, demonstrated=session.demonstrated
                ),
                keep_last=config.train.keep_last,
                metadata=session.metadata,
                score=score,
            )
    progress.finish()


def _end_of_epoch(session: Session, step: Step) -> dict[str, float]:
    """The loss on what is held out, and success in the environment when that is due."""
    metrics = {}
    if session.held_out is not None:
        samples = [session.held_out.sample(index, seed="") for index in range(len(session.held_out))]
        metrics["val/loss"] = session.learner.supervised_loss(samples)
    every, epochs = session.config.sft.eval_every, session.config.sft.epochs
    if session.validation is not None and is_save_step(step.epoch + 1, every=every, last=epochs):
        metrics |= session.validation.play(step.number)
    return metrics


def _score(metrics: Mapping[str, float], config: SftConfig) -> float | None:
    """What makes a checkpoint the best: success where that is measured at all, else a low loss on what is held out."""
    if config.eval_every:
        return metrics.get("val/success_rate")
    return -metrics["val/loss"] if "val/loss" in metrics else None


def plan_steps(lengths: Sequence[int], *, config: SftConfig, seed: int) -> list[Step]:
    """Every optimiser step of the job, before the first: epochs of all samples in an order drawn afresh for each.

    Args:
        lengths: Tokens of every sample.
        config: Section ``sft``; the step that reaches ``max_tokens`` is the last.
        seed: Of the order.
    """
    plan: list[Step] = []
    used = 0
    for epoch in range(config.epochs):
        for batch in plan_epoch(lengths, batch_tokens=config.batch_tokens, rng=random.Random(f"{seed}/sft/{epoch}")):
            plan.append(Step(number=len(plan) + 1, epoch=epoch, samples=batch))
            used += sum(lengths[index] for index in batch)
            if 0 < config.max_tokens <= used:
                return plan
    return plan


def _step_seed(seed: int, step: int) -> int:
    return random.Random(f"{seed}/sft/step/{step}").getrandbits(63)


def _result(run: RunFolder, *, data: DemonstrationSet) -> SftResult:
    rows = [row.values["sft/loss"] for row in run.read_metrics().rows if row.stage == STAGE]
    losses = [float(loss) for loss in rows if loss is not None]  # None: not finite, no step was made
    if not losses:
        raise JobError(f"None of the {len(rows)} steps was finite, so the model is as it was. Try: a smaller sft.lr")
    tail = losses[-max(1, len(losses) // 10) :]
    latest = run.latest_checkpoint().checkpoint
    return SftResult(
        samples=len(data),
        dropped=data.num_dropped,
        steps=len(rows),
        loss=fmean(tail),
        checkpoint="" if latest is None else str(latest.path),
    )
