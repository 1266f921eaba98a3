"""The job ``dpepo sft``: supervised fine-tuning on demonstrations, turn by turn, loss on the reply only."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from dpepo.config import Config, SftConfig
from dpepo.errors import JobError
from dpepo.learning import Learner, learning_rate, supervised_config
from dpepo.runs.checkpoints import is_save_step
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.training.checkpoint import begin, find_checkpoint, read_learner_state, write_training_state
from dpepo.training.demonstrations import DemonstrationSet, load_demonstrations, plan_epoch
from dpepo.types import Record

STAGE = "sft"


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


def run_sft(config: Config, *, run: RunFolder, progress: Progress) -> SftResult:
    """Fine-tune ``model.path`` on ``sft.demonstrations``, or go on where the run folder's last checkpoint ends.

    Raises:
        RequestError: There are no demonstrations, none fits the context, or the model does not exist.
        JobError: Too many steps in a row, or all of a short job, were not finite.
    """
    episodes = load_demonstrations(config.sft.demonstrations, progress=progress)
    checkpoint = find_checkpoint(run, progress=progress)
    model, tokenizer, _, identity = begin(config, checkpoint)
    data = DemonstrationSet(episodes, tokenizer=tokenizer, max_length=config.model.max_length, rename=config.sft.rename)
    if data.num_dropped:
        progress.note(f"{data.num_dropped} samples are longer than model.max_length or lack a reply, and are left out")
    learner = Learner(model, config=supervised_config(config.sft, micro_tokens=config.actor.micro_tokens))
    done = 0
    if checkpoint is not None:
        read_learner_state(checkpoint, learner=learner)
        done = checkpoint.step
    plan = plan_steps(data.lengths, config=config.sft, seed=config.seed)
    progress.start("supervised fine-tuning", total=len(plan), unit="steps")
    progress.skip(done)
    for step in plan[done:]:
        samples = [data.sample(index, seed=f"{config.seed}/{step.epoch}/{index}") for index in step.samples]
        lr = learning_rate(step.number, num_steps=len(plan), config=config.sft)
        torch.manual_seed(_step_seed(config.seed, step.number))  # dropout, where a model has any, is the same after a resume
        metrics = learner.supervised_step(samples, lr=lr)
        run.metrics.log(STAGE, step.number, {"sft/epoch": step.epoch, **metrics})
        progress.advance(1, loss=metrics["sft/loss"])
        if is_save_step(step.number, every=config.sft.save_every, last=len(plan)):
            run.save_checkpoint(
                step.number,
                lambda folder: write_training_state(folder, learner=learner, tokenizer=tokenizer),
                keep_last=config.train.keep_last,
                metadata={"model": dict(identity)},
            )
    progress.finish()
    return _result(run, data=data)


def plan_steps(lengths: Sequence[int], *, config: SftConfig, seed: int) -> list[Step]:
    """Every optimiser step of the job, before the first: epochs of all samples in an order drawn afresh for each."""
    plan: list[Step] = []
    for epoch in range(config.epochs):
        for batch in plan_epoch(lengths, batch_tokens=config.batch_tokens, rng=random.Random(f"{seed}/sft/{epoch}")):
            plan.append(Step(number=len(plan) + 1, epoch=epoch, samples=batch))
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
