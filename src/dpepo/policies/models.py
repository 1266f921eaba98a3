"""Loading a language model and its tokenizer, with errors that say what to do.

torch, transformers and peft are imported when a model is loaded, not when this module is. Weights are read from safetensors
only, and code that a model folder brings along is never run.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpepo.config import ModelConfig
from dpepo.errors import ConfigError, MissingPackage, did_you_mean
from dpepo.policies.lora import (
    ADAPTER_CONFIG,
    adapter_base,
    add_adapter,
    check_peft,
    check_same_adapter,
    is_adapter,
    load_adapter,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_BUILTIN = "builtin:"
# Where a folder keeps its model: a Hugging Face folder, a checkpoint, the checkpoints of a job, a run.
_MODEL_INSIDE = ("", "model", "latest/model", "checkpoints/latest/model")
_GENERIC_TOKENIZERS = ("TokenizersBackend", "PreTrainedTokenizerFast")  # names of one class, new and old

#: Models that ship with dpepo: name to (package, folder).
BUILTIN_MODELS = {"search-base": ("dpepo.demo", "search_base"), "household-base": ("dpepo.demo", "household_base")}


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
        inside = [Path(path) / inside for inside in _MODEL_INSIDE]
        found = [folder for folder in inside if (folder / "config.json").is_file() or is_adapter(folder)]
        if not found:
            raise ConfigError(
                f"model.path: the folder {path} holds no config.json and no {ADAPTER_CONFIG}, so it is not a Hugging Face "
                "model or adapter folder, nor a run or checkpoint that holds one"
            )
        return str(found[0])
    if path.startswith(("/", "./", "../", "~")) and not Path(path).exists():
        raise ConfigError(f"model.path: there is no folder {path}")
    return path


def base_folder(config: ModelConfig) -> str:
    """The folder or hub id of the whole model that ``model.path`` stands for: itself, or the base of the adapter there.

    Raises:
        ConfigError: There is no such model, or an adapter's base is an adapter itself.
    """
    folder = model_folder(config.path)
    if not is_adapter(folder):
        if config.base:
            raise ConfigError(f"model.base is set, but model.path {config.path} is not an adapter. Leave it out")
        return folder
    base = model_folder(adapter_base(folder, explicit=config.base))
    if is_adapter(base):
        raise ConfigError(
            f"model.path: the base of the adapter in {folder} is itself an adapter. Try: dpepo export {base} --merge"
        )
    return base


def check_model(config: ModelConfig, *, train: bool) -> tuple[str, str]:
    """What can be said about a model before it is loaded; cheap.

    Args:
        config: Section ``model`` of the configuration.
        train: Whether it is to be trained.

    Returns:
        Folder or hub id of the model, and of the whole model below it where it is an adapter.

    Raises:
        ConfigError: There is no such model, or its adapter is not as configured.
        MissingPackage: It has or gets an adapter, and PEFT is not installed.
    """
    folder, base = model_folder(config.path), base_folder(config)
    if is_adapter(folder) and train:
        check_same_adapter(config.lora, folder)
    if is_adapter(folder) or (train and config.lora.rank):
        check_peft()
    return folder, base


def load_hf(config: ModelConfig, *, train: bool = False, seed: int = 0) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load model and tokenizer and set torch's number of CPU threads.

    The model is in evaluation mode, on its device, in the type configured. Its generation settings are kept but never used,
    see `dpepo.policies.hf`. With ``model.lora.rank`` above 0 a model to be trained has an adapter: the one of ``model.path``
    where that is an adapter, else a new one. Where nothing is trained, only an adapter of ``model.path`` counts.

    Args:
        config: Section ``model`` of the configuration.
        train: Whether it is to be trained.
        seed: Of a new adapter.

    Returns:
        The model, wrapped by PEFT where it has an adapter, and its tokenizer.

    Raises:
        ConfigError: The path is no model, the device does not exist, or the adapter is not as configured.
        MissingPackage: torch, transformers or peft is not installed.
    """
    folder, base = check_model(config, train=train)
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingPackage(package, extra="train", needed_for="Loading a model")
    _check_hub(base)
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the package's own bars would break up the display of the job
    torch.set_num_threads(config.threads)
    device = _device(config.device)
    try:
        tokenizer = _load_tokenizer(_tokenizer_folder(folder, base))
        model = _load_whole(base, dtype=config.dtype)
    except (OSError, ValueError, ImportError) as error:  # what transformers raises for missing, unknown and cut-off files
        raise ConfigError(f"model.path: could not load {config.path!r}: {_why(error)}") from error
    whole = model
    if is_adapter(folder):
        named = _kept_name(adapter_base(folder, explicit=config.base), base)
        model = load_adapter(model, folder, base=named, train=config.lora if train else None)
    elif train and config.lora.rank:
        model = add_adapter(model, config.lora, base=_kept_name(config.path, base), seed=seed)
    if train and config.gradient_checkpointing:
        # one method, new name and old; layers are then asked for in `Learner`, since they expect training mode
        enable = getattr(whole, "activation_checkpointing_enable", None) or whole.gradient_checkpointing_enable
        enable({"use_reentrant": False})
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
    if not is_adapter(folder):
        _check_hub(folder)
    try:
        return _load_tokenizer(_tokenizer_folder(folder, base_folder(config)))
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"model.path: could not load the tokenizer of {config.path!r}: {_first_line(error)}") from error


def _load_whole(name: str, *, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    if Path(name).is_dir() and not any(Path(name).glob("*.safetensors")):
        raise ValueError("it holds no *.safetensors. Weights in other files could run code, and are not read")
    return AutoModelForCausalLM.from_pretrained(
        name, dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
    )


def _kept_name(name: str, base: str) -> str:
    """How an adapter names its base model: a built-in name stays, since its folder is another one elsewhere."""
    return name if name.startswith(_BUILTIN) else base


def _has_tokenizer(folder: str) -> bool:
    return (Path(folder) / "tokenizer_config.json").is_file()


def _tokenizer_folder(folder: str, base: str) -> str:
    """An adapter folder of dpepo holds the tokenizer as well; others leave it with the base model."""
    return folder if _has_tokenizer(folder) else base


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


def _why(error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return "it brings code of its own, which is never run. Only models that transformers knows can be loaded"
    return _first_line(error)


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
    tokenizer: PreTrainedTokenizerBase = loader.from_pretrained(folder, trust_remote_code=False)
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
