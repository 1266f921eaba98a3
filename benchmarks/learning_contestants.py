"""The contestants of `learning.py`: one optimiser step on given samples, by dpepo, by a plain padded batch and by TRL.

All get the same samples and the same number of tokens per forward pass, padding included.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

KL, CLIP = 0.02, 0.2

Step = Callable[[], float]  # one optimiser step; returns the loss
Contestant = Callable[..., Step]


def load_model(*, large: bool) -> Any:
    """The demo's base, or a 100M-class model with random weights; on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not large:
        from dpepo.config import ModelConfig
        from dpepo.policies import load_hf

        return load_hf(ModelConfig(path="builtin:search-base", device="cpu"))[0]
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = Qwen2Config(
        vocab_size=32_000,
        hidden_size=640,
        intermediate_size=1_920,
        num_hidden_layers=16,
        num_attention_heads=10,
        num_key_value_heads=2,
        max_position_embeddings=16_384,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(shape).eval()


def dpepo_step(model: Any, samples: Sequence[Any], *, kind: str, tokens: int) -> Step:
    """The learner as jobs use it, the optimiser included."""
    from dpepo.config import ActorConfig
    from dpepo.learning import Learner, freeze

    config = ActorConfig(kl_coef=KL if kind == "rl" else 0.0, lr=1e-12, micro_tokens=tokens, max_grad_norm=1e9)
    learner = Learner(model, config=config, reference=freeze(model) if kind == "rl" else None)

    def step() -> float:
        if kind == "sft":
            return learner.supervised_step(samples)["sft/loss"]
        told = learner.update(samples)
        return told["actor/pg_loss"] + KL * told["actor/kl_loss"]

    return step


def plain_step(model: Any, samples: Sequence[Any], *, kind: str, tokens: int) -> Step:
    """Everything padded to the longest of all, logits of all positions."""
    reference = copy.deepcopy(model).requires_grad_(False) if kind == "rl" else None
    prompt, reply = longest_prompt(samples), longest_reply(samples)
    rows = max(1, tokens // (prompt + reply))
    total = sum(len(s.token_ids) for s in samples)

    def losses() -> Any:
        for start in range(0, len(samples), rows):
            batch = padded(samples[start : start + rows], prompt=prompt, reply=reply)
            mask = batch["completion_mask"]
            new = logprobs(model, batch)
            if kind == "sft":
                yield -(new * mask).sum() / total
                continue
            with torch.no_grad():
                kept = logprobs(reference, batch)
            ratio = (new - batch["old_per_token_logps"]).exp()
            advantages = batch["advantages"].unsqueeze(1)
            policy = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
            kl = (kept - new).exp() - (kept - new) - 1
            yield ((policy + KL * kl) * mask).sum() / total

    return _step(model, losses)


def trl_step(model: Any, samples: Sequence[Any], *, kind: str, tokens: int) -> Step:
    """TRL's own loss functions on batches padded to their longest, in order of length, as TRL's samplers can give."""
    trainer = _trl_trainer(model, kind)
    reference = copy.deepcopy(model).requires_grad_(False) if kind == "rl" else None
    parts = by_length(samples, tokens=tokens)
    total = sum(len(s.token_ids) for s in samples)

    def losses() -> Any:
        for part in parts:
            share = sum(len(s.token_ids) for s in part) / total
            if kind == "sft":
                yield trainer.compute_loss(model, _labelled(part)) * share
                continue
            batch = padded(part, prompt=longest_prompt(part), reply=longest_reply(part))
            with torch.no_grad():
                ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
                mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
                kept = trainer._get_per_token_logps_and_entropies(reference, ids, mask, batch["completion_ids"].shape[1])[0]
            yield trainer._compute_loss(model, {**batch, "ref_per_token_logps": kept}) * share

    return _step(model, losses)


CONTESTANTS: dict[str, Contestant] = {"dpepo": dpepo_step, "plain": plain_step, "trl": trl_step}


def _step(model: Any, losses: Callable[[], Any]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-12)

    def step() -> float:
        optimizer.zero_grad()
        total = 0.0
        for loss in losses():
            loss.backward()
            total += loss.item()
            del loss  # else its graph lives on while the next is made
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        optimizer.step()
        return total

    return step


def own_logprobs(model: Any, samples: Sequence[Any]) -> list[Any]:
    """The samples as if this model had drawn them a little earlier: its log-probabilities, each off by up to 0.1."""
    torch.manual_seed(0)
    found = []
    with torch.no_grad():
        for sample in samples:
            scores = logprobs(model, padded([sample], prompt=longest_prompt([sample]), reply=longest_reply([sample])))[0]
            drawn = (scores + 0.2 * torch.rand_like(scores) - 0.1).tolist()
            found.append(sample.model_copy(update={"logprobs": tuple(drawn)}))
    return found


def save_gradient(step: Step, file: Path) -> float:
    """Make a step and keep its gradient, caught where all contestants ask for its norm; returns the loss."""
    plain = torch.nn.utils.clip_grad_norm_

    def spy(parameters: Any, *arguments: Any, **settings: Any) -> Any:
        kept = list(parameters)
        torch.save([parameter.grad for parameter in kept], file)  # as it is: a copy would be seen in the memory used
        return plain(kept, *arguments, **settings)

    torch.nn.utils.clip_grad_norm_ = spy
    try:
        return step()
    finally:
        torch.nn.utils.clip_grad_norm_ = plain


def compare_gradients(file: Path, plain: Path) -> dict[str, float]:
    """Norm and largest entry of a gradient, and its largest difference from the plain one."""
    pairs = list(zip(torch.load(file), torch.load(plain), strict=True))
    return {
        "norm": sum(float(one.double().square().sum()) for one, _ in pairs) ** 0.5,
        "largest": max(float(one.abs().max()) for one, _ in pairs),
        "difference": max(float((one - other).abs().max()) for one, other in pairs),
    }


def longest_prompt(samples: Sequence[Any]) -> int:
    """Tokens of the longest prompt."""
    return max(len(s.prompt_token_ids) for s in samples)


def longest_reply(samples: Sequence[Any]) -> int:
    """Tokens of the longest reply."""
    return max(len(s.token_ids) for s in samples)


def by_length(samples: Sequence[Any], *, tokens: int) -> list[list[Any]]:
    """Samples in order of length, cut where prompts and replies, each padded to their longest, would pass the budget."""
    parts: list[list[Any]] = []
    for sample in sorted(samples, key=lambda s: len(s.prompt_token_ids) + len(s.token_ids)):
        grown = [*parts[-1], sample] if parts else [sample]
        if parts and len(grown) * (longest_prompt(grown) + longest_reply(grown)) <= tokens:
            parts[-1] = grown
        else:
            parts.append([sample])
    return parts


def padded(samples: Sequence[Any], *, prompt: int, reply: int) -> dict[str, Any]:
    """A batch as TRL names it: prompts padded on the left, replies on the right."""

    def line(ids: Sequence[Any], size: int, *, left: bool) -> list[Any]:
        gap = [0] * (size - len(ids))
        return [*gap, *ids] if left else [*ids, *gap]

    return {
        "prompt_ids": torch.tensor([line(s.prompt_token_ids, prompt, left=True) for s in samples]),
        "prompt_mask": torch.tensor([line([1] * len(s.prompt_token_ids), prompt, left=True) for s in samples]),
        "completion_ids": torch.tensor([line(s.token_ids, reply, left=False) for s in samples]),
        "completion_mask": torch.tensor([line([1] * len(s.token_ids), reply, left=False) for s in samples]),
        "old_per_token_logps": torch.tensor([line(s.logprobs, reply, left=False) for s in samples], dtype=torch.float32),
        "advantages": torch.tensor([s.advantage for s in samples]),
    }


def logprobs(model: Any, batch: dict[str, Any]) -> Any:
    """Log-probabilities of the replies, from the logits of all positions."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits.float()
    reply = batch["completion_ids"].shape[1]
    logits = logits[:, -reply - 1 : -1]
    return torch.log_softmax(logits, -1).gather(-1, batch["completion_ids"].unsqueeze(-1)).squeeze(-1)


def _labelled(samples: Sequence[Any]) -> dict[str, Any]:
    longest = max(len(s.prompt_token_ids) + len(s.token_ids) for s in samples)
    ids, labels, masks = [], [], []
    for s in samples:
        line = [*s.prompt_token_ids, *s.token_ids]
        gap = longest - len(line)
        ids.append(line + [0] * gap)
        labels.append([-100] * len(s.prompt_token_ids) + list(s.token_ids) + [-100] * gap)
        masks.append([1] * len(line) + [0] * gap)
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "attention_mask": torch.tensor(masks)}


def _trl_trainer(model: Any, kind: str) -> Any:
    """A trainer of TRL around the model; its own data, sampling and logging are not used."""
    import datasets
    from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

    from dpepo.config import ModelConfig
    from dpepo.policies.models import load_tokenizer

    tokenizer = load_tokenizer(ModelConfig(path="builtin:search-base"))
    workshop = tempfile.TemporaryDirectory()
    common = {"output_dir": workshop.name, "use_cpu": True, "bf16": False, "report_to": [], "gradient_checkpointing": False}
    if kind == "sft":
        data = datasets.Dataset.from_list([{"prompt": "a", "completion": "b"}])
        trainer = SFTTrainer(model=model, args=SFTConfig(**common), train_dataset=data, processing_class=tokenizer)
    else:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            # without KL no reference is loaded: a model made here lies in no folder that it could be loaded from
            args=GRPOConfig(
                **common,
                beta=0.0,
                epsilon=CLIP,
                loss_type="bnpo",
                temperature=1.0,
                per_device_train_batch_size=8,
                num_generations=8,
            ),
            train_dataset=datasets.Dataset.from_list([{"prompt": "a"}] * 8),
            processing_class=tokenizer,
        )
        trainer.beta = KL
        trainer.current_gradient_accumulation_steps = 1
    trainer.model.train(False)
    trainer.workshop = workshop
    return trainer
