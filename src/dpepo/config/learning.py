"""What is learnt from it: rewards, algorithms, updates, demonstrations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from dpepo.config.base import MANY, MAX_ENVS, Section


class Scale(StrEnum):
    """Published scales of the step reward (section "The algorithm" of docs/algorithms.md)."""

    EQUATIONS = "equations"
    REFERENCE = "reference"
    REFERENCE_INVALID_ONLY = "reference_invalid_only"


class Transition(StrEnum):
    """What counts as the state before an action."""

    OBSERVATION = "observation"
    PREVIOUS_ACTION = "previous_action"
    STATE = "state"


class WidthCount(StrEnum):
    """How transitions shared with other environments are counted."""

    ENVIRONMENTS_BEFORE = "environments_before"
    OCCURRENCES_INCL_NOW = "occurrences_incl_now"


class StepRewardConfig(Section):
    """Diverse Action Reward and Diverse State Transition Reward (eq. 3-5 of the paper)."""

    scale: Scale = Field(
        Scale.REFERENCE, description="Which published formula: equations, reference or reference_invalid_only."
    )
    transition: Transition | None = Field(
        None, description="State before an action; default: observation for equations, previous_action for reference."
    )
    width_count: WidthCount | None = Field(
        None, description="Default: environments_before for equations, occurrences_incl_now for reference."
    )
    action: bool = Field(True, description="Diverse Action Reward on.")
    transitions: bool = Field(True, description="Diverse State Transition Reward on.")
    alpha: float = Field(0.8, gt=0, le=1, description="Base of repeated actions in depth.")
    gamma: float = Field(0.95, gt=0, le=1, description="Base of repeated transitions in depth.")
    beta: float = Field(0.95, gt=0, le=1, description="Base of repeated transitions in width.")
    omega: float = Field(0.95, gt=0, le=1, description="Base of repeated actions in width.")
    invalid: float | None = Field(None, gt=0, le=1, description="Base of invalid actions; null leaves the term out.")
    no_action: float = Field(0.5, ge=0, le=2, description="Value of a turn whose reply holds no usable action.")


class GroupStats(StrEnum):
    """What mean and standard deviation of a group are taken over."""

    EPISODES = "episodes"
    TURNS = "turns"


class AlgorithmConfig(Section):
    """From scored groups to an advantage per turn."""

    name: str = Field(
        "dpepo", description="dpepo, grpo, dr_grpo, gigpo, gspo, ppo, reinforce_pp, rloo, or a class of yours, module:Class."
    )
    group_stats: GroupStats = Field(GroupStats.EPISODES, description="episodes, or turns as in the authors' code.")
    ddof: int = Field(1, ge=0, le=1, description="1: sample standard deviation; 0: population.")
    eps: float = Field(1e-6, gt=0, description="Added to the standard deviation.")
    process_reward: bool = Field(
        False, description="Pay failed episodes for the share of expert actions they met; for worlds with an expert."
    )
    discount: float = Field(0.95, gt=0, le=1, description="Discount per turn of gigpo's returns and ppo's values.")
    step_weight: float = Field(1.0, ge=0, description="Weight of gigpo's advantage by anchor state.")
    lam: float = Field(0.95, ge=0, le=1, description="Lambda of ppo's advantage estimation.")
    value_coef: float = Field(0.5, gt=0, description="Weight of ppo's value loss.")
    value_clip: float = Field(0.2, gt=0, description="How far ppo's value may move from that of the rollout within a step.")
    value_lr: float = Field(1e-4, gt=0, description="Learning rate of ppo's value head; the model below learns by actor.lr.")


class Schedule(StrEnum):
    """How a learning rate goes on after its warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class KlEstimator(StrEnum):
    """How KL is estimated from the tokens sampled (d = reference - policy log-probability)."""

    K1 = "k1"  # -d
    K2 = "k2"  # d^2 / 2
    K3 = "k3"  # exp(d) - d - 1


class KlPlace(StrEnum):
    """Where KL enters."""

    LOSS = "loss"
    REWARD = "reward"


class LossAverage(StrEnum):
    """What the policy loss is a mean of, over the whole minibatch whatever the forward passes."""

    TOKENS = "tokens"
    TURNS = "turns"
    EPISODES = "episodes"
    CONSTANT = "constant"


@dataclass(frozen=True, kw_only=True)
class LossTraits:
    """What an algorithm minimises as published; a key of section ``actor`` that is set wins over the trait of its name."""

    sequence_ratio: bool = False  # one importance ratio per reply instead of one per token; the one trait without a key
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl: KlEstimator = KlEstimator.K3
    kl_in: KlPlace = KlPlace.LOSS
    loss_average: LossAverage = LossAverage.TOKENS


class ActorConfig(Section):
    """The policy update."""

    lr: float = Field(1e-6, gt=0, description="Learning rate of AdamW; its peak where there is a schedule.")
    schedule: Schedule = Field(
        Schedule.CONSTANT, description="After the warm-up: constant, or linear or cosine to zero behind train.steps."
    )
    warmup: float = Field(0.0, ge=0, lt=1, description="Share of train.steps with rising learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    kl_coef: float = Field(0.01, ge=0, description="Weight of KL to the policy RL started from.")
    kl: KlEstimator | None = Field(
        None, description="Estimator of KL per token: k1, k2 or k3; default: the algorithm's, k3 for most."
    )
    kl_in: KlPlace | None = Field(
        None,
        description="loss: a term of the loss; reward: taken off the advantage, token by token; default: the algorithm's, "
        "loss for most.",
    )
    loss_average: LossAverage | None = Field(
        None,
        description="What the loss is a mean of: tokens, turns, episodes, or constant (by loss_length); default: the "
        "algorithm's, tokens for most.",
    )
    loss_length: int = Field(
        0, ge=0, description="Tokens that every reply counts as under loss_average constant; 0: sampling.max_new_tokens."
    )
    truncated_is: float | None = Field(
        None, gt=0, description="Bound on the weight that corrects sampler against trainer log-probabilities; null: off."
    )
    clip_low: float | None = Field(
        None, gt=0, lt=1, description="Lower ratio bound is 1 - clip_low; default: the algorithm's, 0.2 for most."
    )
    clip_high: float | None = Field(
        None, gt=0, description="Upper ratio bound is 1 + clip_high; default: the algorithm's, 0.2 for most."
    )
    dual_clip: float | None = Field(None, gt=1, description="Bound c of the loss for negative advantages; null: off.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping by global norm.")
    minibatches: int = Field(1, ge=1, description="Optimiser steps per batch of episodes; whole episodes are dealt to them.")
    micro_tokens: int = Field(16_384, ge=1, description="Tokens per forward pass; has no effect on the result.")
    max_skipped: int = Field(5, ge=1, description="Non-finite steps in a row after which the job stops.")


class TrainConfig(Section):
    """The reinforcement learning job."""

    steps: int = Field(125, ge=1, description="RL steps.")
    max_minutes: float = Field(
        0.0, ge=0, description="Stop after this many minutes of training; 0: no limit. Steps stay the unit of resume."
    )
    tasks_per_step: int = Field(4, ge=1, le=MANY, description="Tasks, hence groups, per step.")
    group_size: int = Field(8, ge=1, le=MANY, description="N, sibling episodes per task.")
    allow_overlap: bool = Field(False, description="Let a model be trained on tasks that its own demonstrations show.")
    refill: int = Field(
        0, ge=0, le=MANY, description="Rounds in which groups whose episodes all ended alike are replaced by others (DAPO)."
    )
    eval_every: int = Field(0, ge=0, description="RL steps between evaluations on tasks.eval, one episode a task; 0: none.")
    save_every: int = Field(25, ge=1, description="Steps between checkpoints; the last step is always saved.")
    keep_last: int = Field(2, ge=1, description="Newest checkpoints kept.")
    keep_best: bool = Field(
        True, description="Save after an evaluation that is the best so far, and keep that checkpoint (checkpoints/best)."
    )


class Style(StrEnum):
    """How an honest teacher explores."""

    SEARCH = "search"
    HYPOTHESIS = "hypothesis"
    FOCUSED = "focused"
    MIXED = "mixed"


class SynthConfig(Section):
    """Cold-start demonstrations."""

    teacher: str = Field(
        "oracle",
        description="oracle: the world's own searching agent, or gold paths where it has none; random: admissible actions; "
        "openai: the model of section server; or module:Class.",
    )
    style: Style = Field(
        Style.MIXED,
        description="How a searching agent explores: search (many places at once), hypothesis (says what it tests), focused "
        "(few environments, soon one), or mixed (drawn per episode by seed).",
    )
    num_envs: tuple[Annotated[int, Field(strict=True, ge=1, le=MAX_ENVS)], ...] = Field(
        (4,), min_length=1, description="K of the demonstrations; each task is played once per entry."
    )
    episodes_per_task: int = Field(1, ge=1, le=MANY, description="Demonstrations per task and entry of num_envs.")
    keep: str = Field("success", pattern="^(success|all)$", description="Which demonstrations are kept: success, or all.")
    drop_duplicates: bool = Field(True, description="Of demonstrations of a task with equal replies keep the first only.")
    max_invalid: int | None = Field(
        None, ge=0, description="Most actions of a demonstration that the world did not understand; null: no limit."
    )
    max_episode_turns: int = Field(0, ge=0, description="Longest demonstration in turns; 0: no limit.")
    max_length: int = Field(
        0, ge=0, description="Most tokens of prompt and reply in a turn, by the tokenizer of model.path; 0: no limit."
    )
    min_parallel: float = Field(
        0.0, ge=0, le=1, description="Least share of turns that act in several environments, for K above 1."
    )
    examples: int = Field(5, ge=0, le=5, description="Example trajectories that a server's model reads before it plays.")


class SftConfig(Section):
    """Supervised fine-tuning on demonstrations, loss on the reply only."""

    demonstrations: str = Field(
        "", description="Run folder of `dpepo synth` or `dpepo data import`, or a JSONL file of episodes."
    )
    lr: float = Field(5e-6, gt=0, description="Peak learning rate of AdamW.")
    epochs: int = Field(1, ge=1, le=MANY, description="Passes over the demonstrations.")
    max_tokens: int = Field(
        0, ge=0, description="End after this many tokens of prompts and replies, all epochs together; 0: no limit."
    )
    batch_tokens: int = Field(8192, ge=1, description="Tokens per optimiser step, whole samples.")
    val_share: float = Field(
        0.0, ge=0, le=0.5, description="Share of tasks held out; the loss on their demonstrations is taken after each epoch."
    )
    eval_every: int = Field(0, ge=0, description="Epochs between evaluations on tasks.eval, one episode a task; 0: none.")
    save_every: int = Field(1000, ge=1, description="Optimiser steps between checkpoints; the last step is always saved.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    schedule: Schedule = Field(
        Schedule.COSINE, description="After the warm-up: constant, or linear or cosine to zero behind the last step."
    )
    warmup: float = Field(0.05, ge=0, lt=1, description="Share of the steps with rising learning rate.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping by global norm.")
    rename: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of samples whose object names are swapped for others, so that names are copied, not memorised.",
    )
