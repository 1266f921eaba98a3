"""What is played, by whom, and how: worlds, tasks, prompts, models, sampling, evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from dpepo.config.base import MANY, MAX_ENVS, Section


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
    exclude: str = Field(
        "",
        description="Tasks left out: a list as for file, or those shown by demonstrations: folder of a synthesis or a model.",
    )
    limit: int = Field(0, ge=0, description="At most this many tasks per task type, drawn by seed; 0: all.")


class TasksConfig(Section):
    """Tasks by purpose."""

    train: TaskSelection = TaskSelection(split="train")
    eval: TaskSelection = TaskSelection(split="dev")
    allow_overlap: bool = Field(False, description="Let a training be evaluated on tasks that it is trained on.")

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
        description="Hugging Face folder or hub id, LoRA adapter folder, run or checkpoint of dpepo, builtin:search-base or "
        "builtin:household-base.",
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
