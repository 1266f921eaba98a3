"""Loading a language model and its tokenizer, with errors that say what to do.

torch and transformers are imported when a model is loaded, not when this module is.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dpepo.config import ModelConfig
from dpepo.errors import ConfigError, MissingPackage, did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_BUILTIN = "builtin:"
# Where a folder keeps its model: a Hugging Face folder, a checkpoint, the checkpoints of a job, a run.
_MODEL_INSIDE = ("", "model", "latest/model", "checkpoints/latest/model")
_GENERIC_TOKENIZERS = ("TokenizersBackend", "PreTrainedTokenizerFast")  # names of one class, new and old

#: Models that ship with dpepo: name to (package, folder).
BUILTIN_MODELS = {"search-base": ("dpepo.demo", "search_base")}


def model_folder(path: str) -> str:
    """Resolve `model.path`: a built-in name becomes its folder, a run or a checkpoint its newest model; else it stays as it is.

    Cheap, so that a job can check its request before it starts.

    Raises:
        ConfigError: No path, an unknown built-in name, or a path to a folder that holds no model.
    """
    if not path:
        names = ", ".join(_BUILTIN + name for name in BUILTIN_MODELS)
        raise ConfigError(f"model.path is empty. Give a Hugging Face folder, a hub id, or {names}. Try: model.path={names}")
    if path.startswith(_BUILTIN):
        name = path.removeprefix(_BUILTIN)
        if name not in BUILTIN_MODELS:
            raise ConfigError(f"model.path: no built-in model {name!r}. {did_you_mean(name, BUILTIN_MODELS)}")
        package, folder = BUILTIN_MODELS[name]
        return str(resources.files(package) / folder)
    if Path(path).is_dir():
        found = [inside for inside in _MODEL_INSIDE if (Path(path) / inside / "config.json").is_file()]
        if not found:
            raise ConfigError(
                f"model.path: the folder {path} holds no config.json, so it is not a Hugging Face model folder, nor a run or "
                "checkpoint that holds one"
            )
        return str(Path(path) / found[0])
    if path.startswith(("/", "./", "../", "~")) and not Path(path).exists():
        raise ConfigError(f"model.path: there is no folder {path}")
    return path


def load_hf(config: ModelConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load model and tokenizer and set torch's number of CPU threads.

    The model is in evaluation mode, on its device, in the type configured. Its generation settings are kept but never used,
    see `dpepo.policies.hf`.

    Args:
        config: Section ``model`` of the configuration.

    Returns:
        The model and its tokenizer.

    Raises:
        ConfigError: The path is no model, or the device does not exist.
        MissingPackage: torch or transformers is not installed.
    """
    folder = model_folder(config.path)
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingPackage(package, extra="train", needed_for="Loading a model")
    _check_hub(folder)
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the package's own bars would break up the display of the job
    torch.set_num_threads(config.threads)
    device = _device(config.device)
    try:
        tokenizer = _load_tokenizer(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, config.dtype))
    except (OSError, ValueError, ImportError) as error:  # what transformers raises for missing, unknown and cut-off files
        raise ConfigError(f"model.path: could not load {config.path!r}: {_first_line(error)}") from error
    torch.nn.Module.to(model, device)  # the module moves in place; transformers' own `to` only adds checks for quantised models
    model.train(False)
    return model, tokenizer


def load_tokenizer(config: ModelConfig) -> PreTrainedTokenizerBase:
    """Load the tokenizer of ``model.path`` alone, without its weights.

    Raises:
        ConfigError: There is none.
        MissingPackage: transformers is not installed.
    """
    if find_spec("transformers") is None:
        raise MissingPackage("transformers", extra="train", needed_for="Loading a tokenizer")
    folder = model_folder(config.path)
    _check_hub(folder)
    try:
        return _load_tokenizer(folder)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"model.path: could not load the tokenizer of {config.path!r}: {_first_line(error)}") from error


def _check_hub(name: str) -> None:
    """Ask the hub once for a model that is neither a folder nor cached: the loader asks for a minute where nothing answers."""
    if Path(name).is_dir():
        return
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=10)
    except Exception as error:  # of the hub's client or of the network library below it
        raise ConfigError(
            f"model.path: there is no folder {name!r}, and no such model could be found on the hub: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _load_tokenizer(folder: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer that was saved.

    For a folder whose model is, say, a Qwen2, `AutoTokenizer` takes the Qwen2 tokenizer class although the folder asks for the
    generic one, and so replaces the way its own vocabulary is split and joined: known words then encode to nothing.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    settings = Path(folder) / "tokenizer_config.json"
    named = json.loads(settings.read_text(encoding="utf-8")).get("tokenizer_class") if settings.is_file() else None
    own_vocabulary = named in _GENERIC_TOKENIZERS and (Path(folder) / "tokenizer.json").is_file()
    loader = PreTrainedTokenizerFast if own_vocabulary else AutoTokenizer
    tokenizer: PreTrainedTokenizerBase = loader.from_pretrained(folder)
    return tokenizer


def _device(name: str) -> str:
    """Turn "auto" into a device and check that any other exists."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise ConfigError(f"model.device: {name!r} is not a device of torch. Try: model.device=auto") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"model.device is {name!r}, but torch finds no CUDA device here. Try: model.device=cpu")
    return name
