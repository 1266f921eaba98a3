"""A Hugging Face language model in this process, as a policy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dpepo.errors import ConfigError
from dpepo.policies.base import Policy
from dpepo.policies.decoding import BatchDecoder, RowReply, RowRequest
from dpepo.types import Completion, FinishReason, Prompt, Request, Sampling

PromptEncoder = Callable[[PreTrainedTokenizerBase, Prompt], list[int]]

_SUPPORTED_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


class HfPolicy(Policy):
    """Samples replies from a causal language model, in batches.

    What a reply depends on: its prompt, its seed, the sampling settings and the weights. The model folder's generation
    settings (temperature, top_k, repetition penalty) never apply; only its end tokens are read. Neighbours in the batch
    change scores in the last bits of a float and nothing else.

    Prompts that occur several times (siblings at their first turn) are read once.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        encode: PromptEncoder,
        max_length: int,
        batch_size: int = 64,
        prefill_tokens: int = 32_768,
        version: str = "",
    ) -> None:
        """Take a loaded model; it may go on being trained between calls of `generate`.

        Args:
            model: A causal language model on its device; a PEFT model works too.
            tokenizer: Its tokenizer.
            encode: Turns a prompt into token ids, usually `dpepo.protocol.encode_prompt`.
            max_length: Context in tokens, prompt and reply together; the model's own limit holds as well.
            batch_size: Replies drawn together.
            prefill_tokens: Prompt tokens read in one forward pass, padding included; bounds memory only.
            version: Name of the weights.

        Raises:
            ConfigError: The model has layers without a key-value cache (state-space models), or nothing ends a reply.
        """
        unsupported = _layer_types(model) - _SUPPORTED_LAYERS
        if unsupported:
            raise ConfigError(
                f"model {type(model).__name__} has layers of kind {', '.join(sorted(unsupported))}, not supported here"
            )
        self.version = version
        self.stop_ids = stop_token_ids(tokenizer, model)
        if not self.stop_ids:
            raise ConfigError("the tokenizer names no end token (eos_token), so a reply would never end")
        self._model = model
        self._tokenizer = tokenizer
        self._encode = encode
        self._max_length = min(max_length, _own_limit(model))
        self._batch_size = batch_size
        self._decoder = BatchDecoder(model, stop_ids=sorted(self.stop_ids), prefill_tokens=prefill_tokens)

    def settings(self, sampling: Sampling) -> dict[str, object]:
        """What is in effect, to be printed when a job starts.

        Returns:
            Temperature, top_p, top_k (always None: off), repetition_penalty (always 1.0: off), longest reply, context, end
            token ids, and under ``ignored`` the model folder's own settings that do not apply.
        """
        folder = getattr(self._model, "generation_config", None)
        own = folder.to_diff_dict() if folder is not None else {}
        names = ("do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "max_length")
        return {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": None,
            "repetition_penalty": 1.0,
            "max_new_tokens": sampling.max_new_tokens,
            "max_length": self._max_length,
            "stop_ids": sorted(self.stop_ids),
            "ignored": {name: own[name] for name in names if own.get(name) is not None},
        }

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """Answer every request; see `Policy.generate`.

        A prompt that leaves no room in the context gets ``CONTEXT_FULL``; otherwise the reply may be as long as fits, at
        most ``sampling.max_new_tokens``. Scores that are not finite give ``ERROR``.
        """
        prompts = self._encode_all(requests)
        completions: dict[int, Completion] = {}
        rows: dict[int, RowRequest] = {}
        for index, (request, ids) in enumerate(zip(requests, prompts, strict=True)):
            room = self._max_length - len(ids)
            if room <= 0:
                completions[index] = Completion(text="", finish=FinishReason.CONTEXT_FULL, prompt_token_ids=ids)
            else:
                rows[index] = RowRequest(prompt=ids, seed=request.seed, max_new=min(room, sampling.max_new_tokens))
        # By length, so that little is padded; equal prompts become neighbours and are read once.
        order = sorted(rows, key=lambda index: (len(rows[index].prompt), rows[index].prompt))
        with _evaluating(self._model):
            for batch in _even_batches(order, self._batch_size):
                replies = self._decoder.decode([rows[index] for index in batch], sampling=sampling)
                for index, reply in zip(batch, replies, strict=True):
                    completions[index] = self._completion(rows[index], reply)
        return [completions[index] for index in range(len(requests))]

    def _encode_all(self, requests: Sequence[Request]) -> list[tuple[int, ...]]:
        known: dict[Prompt, tuple[int, ...]] = {}
        for request in requests:
            if request.prompt not in known:
                known[request.prompt] = tuple(self._encode(self._tokenizer, request.prompt))
        return [known[request.prompt] for request in requests]

    def _completion(self, row: RowRequest, reply: RowReply) -> Completion:
        broken = next((place for place, logprob in enumerate(reply.logprobs, start=1) if not math.isfinite(logprob)), None)
        if broken is not None:
            return Completion(
                text="",
                finish=FinishReason.ERROR,
                prompt_token_ids=row.prompt,
                error=f"the model's scores are not finite at token {broken} of the reply",
            )
        spoken = reply.token_ids[:-1] if reply.stopped else reply.token_ids
        # Special tokens inside a reply stay visible: dropping them would hide what the model really said.
        text = self._tokenizer.decode(list(spoken), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return Completion(
            text=str(text),
            finish=FinishReason.STOP if reply.stopped else FinishReason.LENGTH,
            prompt_token_ids=row.prompt,
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
        )


def stop_token_ids(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> frozenset[int]:
    """Ids that end a reply.

    These are the tokenizer's end token, the token its chat template puts after an assistant message, and the end tokens of
    the model folder's generation settings; the latter two so far as the tokenizer has them as special or added tokens (a
    model class brings a default, such as 2, that may be an ordinary word of a small vocabulary).
    """
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    found = {tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else set()
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    found |= {token for token in listed if token in special}
    end_of_message = _end_of_message(tokenizer)
    if end_of_message in special:
        found.add(end_of_message)
    return frozenset(int(token) for token in found)


def _end_of_message(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The first token after an assistant message in the chat template; None without a template or such a token."""
    if not tokenizer.chat_template:
        return None
    marker = "dpepo-marker"
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": marker}]
    try:
        rendered = str(tokenizer.apply_chat_template(messages, tokenize=False))
    except TemplateError:  # a template for something else; encoding the first prompt will say so
        return None
    ids = tokenizer.encode(rendered.rpartition(marker)[2], add_special_tokens=False)
    return int(ids[0]) if ids else None


def _layer_types(model: PreTrainedModel) -> set[str]:
    return set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ())


def _own_limit(model: PreTrainedModel) -> int:
    """The context the model was made for; practically unlimited where it names none."""
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(limit) if limit else 1 << 40


def _even_batches(order: Sequence[int], batch_size: int) -> Iterator[Sequence[int]]:
    """Cut into the fewest batches of at most ``batch_size``, of nearly equal size."""
    num_batches = math.ceil(len(order) / batch_size)
    bounds = [round(place * len(order) / num_batches) for place in range(num_batches + 1)] if num_batches else []
    for start, end in itertools.pairwise(bounds):
        yield order[start:end]


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Dropout off while sampling, and back to how it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
