"""From configuration sections to what the players take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpepo.config import Config, ModelConfig, OverLimit, SamplingConfig
from dpepo.policies import load_hf
from dpepo.protocol import encode_prompt
from dpepo.rollout.episode import PlaySettings
from dpepo.types import Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from dpepo.policies import HfPolicy


def play_settings(
    config: Config, *, num_envs: int | None = None, temperature: float | None = None, over_limit: OverLimit | None = None
) -> PlaySettings:
    """How a configuration wants episodes played.

    Args:
        config: All of it.
        num_envs: Another K than ``env.num_envs``.
        temperature: Another temperature than ``sampling.temperature``.
        over_limit: Another rule than ``rollout.over_limit``.
    """
    return PlaySettings(
        num_envs=config.env.num_envs if num_envs is None else num_envs,
        max_turns=config.rollout.max_turns,
        sampling=Sampling(
            temperature=config.sampling.temperature if temperature is None else temperature,
            top_p=config.sampling.top_p,
            max_new_tokens=config.sampling.max_new_tokens,
        ),
        over_limit=config.rollout.over_limit if over_limit is None else over_limit,
        form=config.prompt.form,
    )


def hf_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    config: ModelConfig,
    sampling: SamplingConfig,
    version: str = "",
) -> HfPolicy:
    """A policy around a loaded model, with the project's way of turning prompts into tokens.

    Args:
        model: The model, usually the one being trained.
        tokenizer: Its tokenizer.
        config: Section ``model``: the context length.
        sampling: Section ``sampling``: the batch size.
        version: Name of the weights.
    """
    from dpepo.policies import HfPolicy

    return HfPolicy(
        model,
        tokenizer,
        encode=encode_prompt,
        max_length=config.max_length,
        batch_size=sampling.batch_size,
        version=version or config.path,
    )


def sampling_note(policy: HfPolicy, sampling: Sampling) -> str:
    """The sampling settings in effect as one line, with those of the model folder that do not apply."""
    settings = policy.settings(sampling)
    ignored = settings.pop("ignored")
    shown = ", ".join(f"{name} {'off' if value is None else value}" for name, value in settings.items())
    own = ", ".join(f"{name} {value}" for name, value in ignored.items()) if isinstance(ignored, dict) else ""
    return f"sampling: {shown}" + (f" (the model folder's own settings do not apply: {own})" if own else "")


def load_policy(config: ModelConfig, *, sampling: SamplingConfig) -> HfPolicy:
    """Load ``model.path`` and make a policy of it.

    Raises:
        ConfigError: The path is no model, or the device does not exist.
        MissingPackage: torch or transformers is not installed.
    """
    model, tokenizer = load_hf(config)
    return hf_policy(model, tokenizer, config=config, sampling=sampling)
