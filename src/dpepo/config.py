"""What can be set: one frozen model per section, complete defaults, a sentence per field.

A recipe is a YAML file with any of these keys; the command line adds dotted overrides (``env.num_envs=4``). Reading and
checking files is `dpepo.recipes`; this module only says what exists. Importing it starts nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MAX_ENVS = 999_999
"""Largest K, and the largest environment id that the parser accepts."""

MANY = 999_999
"""Most of anything that a job lists in memory before it begins; beyond it a number is a slip of the finger."""


class Section(BaseModel):
    """Base of all sections: immutable, unknown keys refused, defaults checked like values."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


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


class OverLimit(StrEnum):
    """What happens when a reply addresses an environment above K."""

    FAIL = "fail"
    IGNORE = "ignore"


class Memory(StrEnum):
    """How much history a prompt repeats."""

    COMPACT = "compact"
    WINDOW = "window"
    FULL = "full"


class Form(StrEnum):
    """The shape of a reply."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class EnvConfig(Section):
    """The world and its copies."""

    world: str = Field("toy", description="Registered world, e.g. scienceworld; `dpepo envs` lists them.")
    num_envs: int = Field(4, ge=1, le=MAX_ENVS, description="K, copies of the task per episode.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the world itself; docs/environments.md lists them."
    )
    workers: int = Field(1, ge=0, description="Worker processes that host environments; 0 plays in this process.")
    step_timeout_s: float = Field(
        60.0, gt=0, le=MANY, description="Seconds after which a hanging step is cut off and its environments count as broken."
    )


class TaskSelection(Section):
    """Which tasks a job plays; all conditions hold together."""

    names: tuple[str, ...] = Field((), description="Task types, e.g. lifespan-longest-lived; empty: all of the world.")
    split: str = Field("train", description="List of the world the tasks come from, e.g. train; `dpepo envs WORLD` shows all.")
    ids: tuple[str, ...] = Field((), description="Explicit task ids; when given, names, split and file are not used.")
    file: str = Field(
        "", description="A list of tasks (.txt, .json, .jsonl, .parquet; file.json#name for one of several) instead of a split."
    )
    limit: int = Field(0, ge=0, description="At most this many tasks per task type, drawn by seed; 0: all.")


class TasksConfig(Section):
    """Tasks by purpose."""

    train: TaskSelection = TaskSelection(split="train")
    eval: TaskSelection = TaskSelection(split="dev")

    @field_validator("eval", mode="before")
    @classmethod
    def _eval_is_dev(cls, value: object) -> object:
        """Naming tasks to evaluate on must not silently change the list they come from to that of training."""
        return {"split": "dev", **value} if isinstance(value, Mapping) else value


class PromptConfig(Section):
    """The words the policy reads."""

    form: Form = Field(Form.PARALLEL, description="parallel: <env_i> tags for K copies; sequential: one <action> (K = 1 only).")
    templates: str = Field("default", description="Built-in template set (default, compact) or a folder of Jinja2 files.")
    memory: Memory = Field(
        Memory.COMPACT,
        description="compact: actions and observations by environment; window: the last turns; full: all turns in full.",
    )
    window: int = Field(4, ge=1, description="Turns kept when memory is window.")


class LoraConfig(Section):
    """Training an adapter (LoRA, arXiv 2106.09685) instead of all weights."""

    rank: int = Field(0, ge=0, le=4096, description="Rank of the adapter; 0 trains all weights.")
    alpha: int = Field(32, ge=1, description="Scale: the adapter's product counts alpha / rank times.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the adapter, in supervised learning only.")
    targets: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Names of the linear layers that get an adapter.",
    )


class ModelConfig(Section):
    """The language model."""

    path: str = Field(
        "",
        description="Hugging Face folder or hub id, LoRA adapter folder, run or checkpoint of dpepo, or builtin:search-base.",
    )
    base: str = Field("", description="Base model of an adapter in model.path, where it is not found under the name in it.")
    lora: LoraConfig = LoraConfig()
    dtype: str = Field(
        "float32",
        pattern="^(float32|bfloat16)$",
        description="Weights while sampling and training; what is trained is also kept in float32.",
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute layers again for gradients instead of keeping them: less memory, about a third more time."
    )
    device: str = Field("auto", description="cpu, cuda, cuda:1, or auto.")
    max_length: int = Field(12_288, ge=16, description="Context in tokens: prompt and reply together.")
    threads: int = Field(1, ge=1, le=1024, description="CPU threads of torch.")


class SamplingConfig(Section):
    """How replies are drawn. The model folder's own generation settings never apply."""

    temperature: float = Field(0.4, ge=0, description="0 is greedy.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus mass.")
    max_new_tokens: int = Field(2048, ge=1, description="Longest reply in tokens.")
    batch_size: int = Field(64, ge=1, description="Prompts answered together.")


class ServerConfig(Section):
    """A model behind an OpenAI-compatible server: to be evaluated (eval.policy openai) or to teach (synth.teacher openai)."""

    base_url: str = Field("", description="Address up to and with /v1, e.g. http://127.0.0.1:8000/v1.")
    model: str = Field("", description="Name of the model on that server.")
    key_env: str = Field(
        "OPENAI_API_KEY",
        pattern="^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the key, never the key.",
    )
    timeout_s: float = Field(120.0, gt=0, le=MANY, description="Seconds one answer may take.")
    tries: int = Field(6, ge=1, le=100, description="Attempts per answer; waits grow, or follow the server's Retry-After.")
    concurrency: int = Field(8, ge=1, le=4096, description="Requests in flight.")
    max_tokens_total: int = Field(0, ge=0, description="Budget of prompt and reply tokens for the whole run; 0: none.")
    max_usd: float = Field(0.0, ge=0, description="Budget in USD for the whole run, by the prices below; 0: none.")
    usd_per_million_prompt_tokens: float = Field(0.0, ge=0, description="Price of prompt tokens.")
    usd_per_million_reply_tokens: float = Field(0.0, ge=0, description="Price of reply tokens.")
    extra: dict[str, Any] = Field(default_factory=dict, description="Fields added to every request, e.g. reasoning_effort.")

    @field_validator("base_url")
    @classmethod
    def _no_credentials(cls, value: str) -> str:
        """An address with a password would be written into run folders."""
        if "@" in value.partition("://")[2].partition("/")[0]:
            raise ValueError("must not hold a user or password; put the key into the variable that server.key_env names")
        return value

    @model_validator(mode="after")
    def _budget_has_prices(self) -> Self:
        if self.max_usd > 0 and not (self.usd_per_million_prompt_tokens or self.usd_per_million_reply_tokens):
            raise ValueError("server.max_usd needs server.usd_per_million_prompt_tokens or server.usd_per_million_reply_tokens")
        return self


class RolloutConfig(Section):
    """How an episode runs."""

    max_turns: int = Field(25, ge=1, description="T, model calls per episode.")
    over_limit: OverLimit = Field(
        OverLimit.IGNORE, description="Rule in training when an environment above K is addressed; evaluation has its own."
    )


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

    name: str = Field("dpepo", description="dpepo or grpo.")
    group_stats: GroupStats = Field(GroupStats.EPISODES, description="episodes, or turns as in the authors' code.")
    ddof: int = Field(1, ge=0, le=1, description="1: sample standard deviation; 0: population.")
    eps: float = Field(1e-6, gt=0, description="Added to the standard deviation.")


class Schedule(StrEnum):
    """How a learning rate goes on after its warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class ActorConfig(Section):
    """The policy update."""

    lr: float = Field(1e-6, gt=0, description="Learning rate of AdamW; its peak where there is a schedule.")
    schedule: Schedule = Field(
        Schedule.CONSTANT, description="After the warm-up: constant, or linear or cosine to zero behind train.steps."
    )
    warmup: float = Field(0.0, ge=0, lt=1, description="Share of train.steps with rising learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    kl_coef: float = Field(0.01, ge=0, description="Weight of k3 KL to the policy RL started from.")
    clip_low: float = Field(0.2, gt=0, lt=1, description="Lower ratio bound is 1 - clip_low.")
    clip_high: float = Field(0.2, gt=0, description="Upper ratio bound is 1 + clip_high.")
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
    eval_every: int = Field(0, ge=0, description="RL steps between evaluations on tasks.eval, one episode a task; 0: none.")
    save_every: int = Field(25, ge=1, description="Steps between checkpoints; the last step is always saved.")
    keep_last: int = Field(2, ge=1, description="Newest checkpoints kept.")
    keep_best: bool = Field(
        True, description="Save after an evaluation that is the best so far, and keep that checkpoint (checkpoints/best)."
    )


class SynthConfig(Section):
    """Cold-start demonstrations."""

    teacher: str = Field(
        "oracle",
        description="oracle: gold paths; random: admissible actions; openai: the model of section server; or module:Class.",
    )
    num_envs: tuple[Annotated[int, Field(ge=1, le=MAX_ENVS)], ...] = Field(
        (4,), min_length=1, description="K of the demonstrations; each task is played once per entry."
    )
    episodes_per_task: int = Field(1, ge=1, le=MANY, description="Demonstrations per task and entry of num_envs.")
    keep: str = Field("success", pattern="^(success|all)$", description="Which demonstrations are kept: success, or all.")
    drop_duplicates: bool = Field(True, description="Of demonstrations of a task with equal replies keep the first only.")
    max_invalid: int | None = Field(
        None, ge=0, description="Most actions of a demonstration that the world did not understand; null: no limit."
    )
    max_turns: int = Field(0, ge=0, description="Longest demonstration in turns; 0: no limit.")
    max_length: int = Field(
        0, ge=0, description="Most tokens of prompt and reply in a turn, by the tokenizer of model.path; 0: no limit."
    )
    min_parallel: float = Field(
        0.0, ge=0, le=1, description="Least share of turns that act in several environments, for K above 1."
    )
    examples: int = Field(5, ge=0, le=5, description="Example trajectories that a server's model reads before it plays.")


class SftConfig(Section):
    """Supervised fine-tuning on demonstrations, loss on the reply only."""

    demonstrations: str = Field("", description="Run folder of `dpepo synth`, or a JSONL file of episodes.")
    lr: float = Field(5e-6, gt=0, description="Peak learning rate of AdamW.")
    epochs: int = Field(1, ge=1, le=MANY, description="Passes over the demonstrations.")
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


class EvalConfig(Section):
    """Evaluation."""

    num_envs: int = Field(0, ge=0, le=MAX_ENVS, description="K; 0: env.num_envs.")
    temperature: float = Field(0.4, ge=0, description="Sampling temperature; 0 is greedy.")
    episodes_per_task: int = Field(1, ge=1, le=MANY, description="Episodes per task.")
    over_limit: OverLimit = Field(
        OverLimit.FAIL, description="Rule when an environment above K is addressed (the paper: fail)."
    )
    policy: str = Field(
        "model", description="model (model.path), openai (section server), oracle, random, or an agent class, module:Class."
    )


class RunConfig(Section):
    """The run folder."""

    dir: str = Field("runs/default", description="Folder that receives config, metrics, episodes and checkpoints.")
    resume: bool = Field(False, description="Go on with the run in dir instead of refusing a folder that holds one.")


class Config(Section):
    """Everything that can be set."""

    seed: int = Field(0, ge=0, description="Root of all randomness.")
    run: RunConfig = RunConfig()
    env: EnvConfig = EnvConfig()
    tasks: TasksConfig = TasksConfig()
    prompt: PromptConfig = PromptConfig()
    model: ModelConfig = ModelConfig()
    sampling: SamplingConfig = SamplingConfig()
    server: ServerConfig = ServerConfig()
    rollout: RolloutConfig = RolloutConfig()
    step_reward: StepRewardConfig = StepRewardConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    actor: ActorConfig = ActorConfig()
    train: TrainConfig = TrainConfig()
    synth: SynthConfig = SynthConfig()
    sft: SftConfig = SftConfig()
    eval: EvalConfig = EvalConfig()

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.prompt.form is Form.SEQUENTIAL and self.env.num_envs != 1:
            raise ValueError(f"prompt.form sequential needs env.num_envs 1, got {self.env.num_envs}. Try: env.num_envs=1")
        if self.sampling.max_new_tokens >= self.model.max_length:
            raise ValueError(
                f"sampling.max_new_tokens ({self.sampling.max_new_tokens}) must be below model.max_length "
                f"({self.model.max_length})"
            )
        if self.step_reward.scale is Scale.REFERENCE_INVALID_ONLY and self.step_reward.invalid is None:
            raise ValueError("step_reward.scale reference_invalid_only needs step_reward.invalid. Try: step_reward.invalid=0.5")
        return self
