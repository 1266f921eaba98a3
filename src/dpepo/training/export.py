"""The command ``dpepo export``: a trained model as a standard folder that transformers, or PEFT, loads without us.

The folder appears only after it has been loaded back by transformers or PEFT alone and has given the same log-probabilities.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpepo.config import Config, ModelConfig
from dpepo.errors import ConfigError, DpepoError, JobError
from dpepo.policies import base_folder, load_hf, model_folder
from dpepo.policies.hf import stop_token_ids
from dpepo.policies.lora import is_adapter, load_plain, portable_base, save_adapter
from dpepo.runs.checkpoints import MANIFEST, check_checkpoint
from dpepo.runs.demonstrated import read_demonstrated, write_demonstrated
from dpepo.runs.rundir import RUN_FILE, RunFolder
from dpepo.types import Record

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

_SAME = 1e-3  # largest difference of log-probabilities that counts as the same model
_NOISE = 1e-6  # mean difference of log-probabilities that means nothing
_ROUNDING = 0.5  # share of the adapter's own effect that rounding to bfloat16 may change, by mean
_PROBES, _PROBE_TOKENS = 4, 24


class ExportResult(Record):
    """What was written."""

    folder: str
    kind: str  # "model" or "adapter"
    difference: float  # largest difference of log-probabilities between the folder, loaded back, and the trained model
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """The result for a person."""
        loader = "AutoModelForCausalLM" if self.kind == "model" else "peft.AutoPeftModelForCausalLM"
        checked = f"Loaded back by {loader}: log-probabilities differ by at most {self.difference:.1e}"
        return "\n".join([f"Wrote the {self.kind} to {self.folder}", checked, *self.notes])


class _Source(NamedTuple):
    """What is exported."""

    folder: str
    base: str
    adapter: bool
    model: ModelConfig  # loads it in float32


def export_model(
    source: str, *, out: Path | None = None, merge: bool = False, checkpoint: str = "", base: str = "", dtype: str = ""
) -> ExportResult:
    """Write a trained model, or its adapter, as a folder of its own.

    Args:
        source: A run, a checkpoint, or a model or adapter folder.
        out: The folder to write; by default beside the source, named after it.
        merge: Add the adapter to the weights of its base model, so that a whole model is written.
        checkpoint: Of a run: a step, "best" or "latest"; empty: the newest.
        base: The adapter's base model, where it is not found under the name kept in it.
        dtype: Type of the weights written: float32 or bfloat16; empty: as they are stored in the (base) model.

    Raises:
        ConfigError: There is no such model, or `out` exists.
        JobError: What was written does not say the same as the trained model.
    """
    found = _find(source, checkpoint=checkpoint, base=base)
    out = out or _beside(source, merged=merge and found.adapter)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not empty; nothing is overwritten. Try: --out ANOTHER_FOLDER")
    if dtype and found.adapter and not merge:
        raise ConfigError("--dtype is for whole models; an adapter is kept in float32. Add --merge, or leave it out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with _aside(out) as folder:
        if found.adapter and not merge:
            result = _export_adapter(found, folder, out=out)
        else:
            result = _export_whole(found, folder, out=out, dtype=dtype or _stored_dtype(found.base))
        write_demonstrated(folder, read_demonstrated(found.model))
    return result


def _find(source: str, *, checkpoint: str, base: str) -> _Source:
    path = Path(source)
    if checkpoint:
        name = f"step-{int(checkpoint):04d}" if checkpoint.isdigit() else checkpoint
        tried = [path / "checkpoints" / name, path / name]
        existing = [one for one in tried if one.is_dir()]
        if not existing:
            held = sorted(one.name for one in (path / "checkpoints").glob("*") if one.is_dir())
            raise ConfigError(f"{source} has no checkpoint {name!r}. It has: {', '.join(held) or 'none'}")
        path = existing[0]
    folder = model_folder(str(path) if checkpoint else source)
    kept_in = Path(folder).resolve().parent
    if (kept_in / MANIFEST).is_file():
        problem = check_checkpoint(kept_in)
        if problem:
            raise ConfigError(f"{problem}. Try: --checkpoint STEP with an older one")
    settings = ModelConfig(path=folder, base=base, device="cpu", dtype="float32")
    return _Source(folder, base_folder(settings), is_adapter(folder), settings)


def _beside(source: str, *, merged: bool) -> Path:
    if not Path(source).is_dir():
        raise ConfigError(f"{source} is not a folder, so there is no place beside it. Try: --out FOLDER")
    path = Path(source).resolve()
    return path.with_name(f"{path.name}-{'merged' if merged else 'export'}")


@contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A folder to write into that takes its place when all went well, and is gone otherwise."""
    folder = out.with_name(f".new-{out.name}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
        if out.exists():
            out.rmdir()
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _export_adapter(found: _Source, folder: Path, *, out: Path) -> ExportResult:
    """The adapter as PEFT writes it, with the tokenizer, checked on its base model."""
    model, tokenizer = load_hf(found.model)
    wanted = _logprobs(model, probes := _probes(model, tokenizer))
    save_adapter(model, folder)
    tokenizer.save_pretrained(folder)
    difference = _largest(_logprobs(load_plain(found.base, adapter=folder), probes), wanted)
    _require_same(difference, what="the adapter")
    named = portable_base(str(model.peft_config["default"].base_model_name_or_path), out)
    notes = list(_tokenizer_notes(folder, tokenizer))
    if Path(found.base).is_dir():
        notes.append(
            f"Its base model is named {named}, which means nothing elsewhere: whoever loads the adapter there loads the base "
            "first and names it. A whole model: --merge"
        )
    return ExportResult(folder=str(out), kind="adapter", difference=difference, notes=tuple(notes))


def _export_whole(found: _Source, folder: Path, *, out: Path, dtype: str) -> ExportResult:
    """A whole model; an adapter is added to its base model in float32 and rounded once."""
    import torch

    model, tokenizer = load_hf(found.model)
    probes = _probes(model, tokenizer)
    wanted = _logprobs(model, probes)
    effect = 0.0
    whole: Any = model
    if found.adapter:
        with model.disable_adapter():  # type: ignore[operator]  # of PEFT
            effect = _mean(_logprobs(model, probes), wanted)
        whole = model.merge_and_unload()  # type: ignore[operator]
    whole.generation_config = _generation_config(whole, tokenizer, config=_run_config(found.folder))
    torch.nn.Module.to(whole, getattr(torch, dtype))
    whole.config.dtype = getattr(torch, dtype)
    whole.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    got = _logprobs(load_plain(str(folder)), probes)
    if dtype == "float32":
        _require_same(_largest(got, wanted), what="the model")
    elif found.adapter:
        _require_effect(_mean(got, wanted), effect)
    notes = list(_tokenizer_notes(folder, tokenizer))
    if found.adapter and not effect:
        notes.append("The adapter changes nothing: the model written is its base model")
    return ExportResult(folder=str(out), kind="model", difference=_largest(got, wanted), notes=tuple(notes))


def _stored_dtype(folder: str) -> str:
    """The type of a model's weights on disk, as far as it can be written: bfloat16, else float32."""
    from transformers import AutoConfig

    return "bfloat16" if str(AutoConfig.from_pretrained(folder).dtype) == "torch.bfloat16" else "float32"


def _probes(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Token ids to compare models on: random ones, the same every time, and a chat where there is a template."""
    size = min(len(tokenizer), model.config.vocab_size)
    rng = random.Random("export")
    probes = [[rng.randrange(size) for _ in range(_PROBE_TOKENS)] for _ in range(_PROBES)]
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": "What do you see?"}]
        encoded: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        probes.append(list(encoded["input_ids"]))
    return probes


def _logprobs(model: Any, probes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    import torch

    with torch.no_grad():
        return [torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1) for ids in probes]


def _largest(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    return max(float((left - right).abs().max()) for left, right in zip(one, other, strict=True))


def _mean(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    import torch

    return float(torch.cat([(left - right).abs().flatten() for left, right in zip(one, other, strict=True)]).mean())


def _require_same(difference: float, *, what: str) -> None:
    if not difference <= _SAME:  # also when it is not a number
        raise JobError(
            f"Loaded back, {what} does not say the same as before: log-probabilities differ by {difference:.2g}. Nothing was "
            "written"
        )


def _require_effect(error: float, effect: float) -> None:
    """Weights of bfloat16 have 8 bits: what training added may be lost when it is added to them."""
    if not error <= max(_NOISE, _ROUNDING * effect):  # also when it is not a number
        raise JobError(
            f"Rounded to bfloat16, the merged model loses what was trained: rounding moves log-probabilities by {error:.2g} on "
            f"average, the adapter by {effect:.2g}. Nothing was written. Try: --dtype float32, or the adapter without --merge"
        )


def _tokenizer_notes(folder: Path, tokenizer: PreTrainedTokenizerBase) -> Iterator[str]:
    """Whether the tokenizer loads as it is; for small vocabularies of one's own transformers may choose another class."""
    from transformers import AutoTokenizer

    text = "".join(f" {word}" for word in list(tokenizer.get_vocab())[:200])
    try:
        again = AutoTokenizer.from_pretrained(folder)
        same = again.encode(text) == tokenizer.encode(text) and again.chat_template == tokenizer.chat_template
    except (OSError, ValueError, KeyError):
        same = False
    if not same:
        yield "AutoTokenizer does not load this tokenizer as it is: load it by PreTrainedTokenizerFast.from_pretrained"


def _generation_config(model: Any, tokenizer: PreTrainedTokenizerBase, *, config: Config | None) -> Any:
    """Where replies end, and how they were drawn in evaluation, in place of what the base model's folder asked for."""
    import transformers

    generation: Any = transformers.GenerationConfig
    stops = sorted(stop_token_ids(tokenizer, model))
    own = model.generation_config.to_diff_dict() if model.generation_config is not None else {}
    ids = {
        "eos_token_id": stops[0] if len(stops) == 1 else stops,
        "pad_token_id": tokenizer.pad_token_id if tokenizer.pad_token_id is not None else own.get("pad_token_id"),
        "bos_token_id": own.get("bos_token_id"),
    }
    if config is None:
        return generation(**{**own, **ids})
    if config.eval.temperature == 0:
        return generation(**ids, do_sample=False)
    drawn = {"temperature": config.eval.temperature, "top_p": config.sampling.top_p, "top_k": 0}
    return generation(**ids, do_sample=True, **drawn)


def _run_config(folder: str) -> Config | None:
    """The configuration of the run that a checkpoint lies in."""
    for parent in Path(folder).resolve().parents:
        if (parent / RUN_FILE).is_file():
            try:
                return RunFolder.open(parent).config
            except DpepoError:
                return None
    return None
