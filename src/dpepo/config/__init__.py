"""What can be set: one frozen model per section, complete defaults, a sentence per field.

A recipe is a YAML file with any of these keys; the command line adds dotted overrides (``env.num_envs=4``). Reading and
checking files is `dpepo.recipes`; this module only says what exists. Importing it starts nothing heavy.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from dpepo.config.base import MANY, MAX_ENVS, Section
from dpepo.config.learning import (
    ActorConfig,
    AlgorithmConfig,
    GroupStats,
    KlEstimator,
    KlPlace,
    LossAverage,
    LossTraits,
    Scale,
    Schedule,
    SftConfig,
    StepRewardConfig,
    Style,
    SynthConfig,
    TrainConfig,
    Transition,
    WidthCount,
)
from dpepo.config.playing import (
    EnvConfig,
    EvalConfig,
    Form,
    LoraConfig,
    Memory,
    ModelConfig,
    OverLimit,
    PromptConfig,
    RolloutConfig,
    SamplingConfig,
    ServerConfig,
    TasksConfig,
    TaskSelection,
)

__all__ = [
    "MANY",
    "MAX_ENVS",
    "ActorConfig",
    "AlgorithmConfig",
    "Config",
    "EnvConfig",
    "EvalConfig",
    "Form",
    "GroupStats",
    "KlEstimator",
    "KlPlace",
    "LoggerName",
    "LoraConfig",
    "LossAverage",
    "LossTraits",
    "Memory",
    "ModelConfig",
    "OverLimit",
    "PromptConfig",
    "RolloutConfig",
    "RunConfig",
    "SamplingConfig",
    "Scale",
    "Schedule",
    "Section",
    "ServerConfig",
    "SftConfig",
    "StepRewardConfig",
    "Style",
    "SynthConfig",
    "TaskSelection",
    "TasksConfig",
    "TrainConfig",
    "Transition",
    "WidthCount",
]


class LoggerName(StrEnum):
    """Where metrics can go."""

    CONSOLE = "console"
    JSONL = "jsonl"
    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    WANDB = "wandb"


class RunConfig(Section):
    """The run folder."""

    dir: str = Field("runs/default", description="Folder that receives config, metrics, episodes and checkpoints.")
    resume: bool = Field(False, description="Go on with the run in dir instead of refusing a folder that holds one.")
    loggers: tuple[LoggerName, ...] = Field(
        (LoggerName.JSONL,),
        description="Where metrics go: console, tensorboard, mlflow, wandb; jsonl (metrics.jsonl) is always written.",
    )


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
