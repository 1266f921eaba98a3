"""The learner: samples in, one or several optimiser steps done, metrics out.

`Learner.update` is the policy update of RL, `Learner.supervised_step` the cold start's; both share batching, forward pass and
the guarded optimiser step. How samples are cut into forward passes never changes a result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from dpepo.config import ActorConfig, LossTraits, SftConfig
from dpepo.errors import JobError
from dpepo.learning.batching import TrainBatch, build_batches, split_minibatches
from dpepo.learning.forward import can_share_prompts, score_tokens
from dpepo.learning.losses import Objective, actor_loss, sample_weights
from dpepo.learning.optimizer import MasterAdamW
from dpepo.learning.reference import Reference
from dpepo.learning.values import ValueHead, prompt_values, value_loss
from dpepo.types import TrainingSample


def supervised_config(sft: SftConfig, *, micro_tokens: int) -> ActorConfig:
    """The optimiser settings of supervised learning in the form a `Learner` takes."""
    return ActorConfig(
        lr=sft.lr, weight_decay=sft.weight_decay, max_grad_norm=sft.max_grad_norm, kl_coef=0.0, micro_tokens=micro_tokens
    )


@dataclass(frozen=True)
class Critic:
    """A value head and how it is trained."""

    head: ValueHead
    coef: float = 0.5  # weight of its loss beside the policy's
    clip: float = 0.2  # how far a value may move within a step
    lr: float = 1e-4  # of the head


@dataclass(frozen=True)
class Rollout:
    """Log-probabilities of the policy that played, by sample, and weights that correct where the sampler's were others."""

    logprobs: dict[int, tuple[float, ...]]
    corrections: dict[int, tuple[float, ...]]
    bound: float = math.inf

    def of(self, sample: TrainingSample, weight: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Old log-probability and weight in the loss of each token of a sample."""
        factors = self.corrections.get(id(sample), (1.0,) * len(sample.token_ids))
        return self.logprobs[id(sample)], tuple(weight * factor for factor in factors)

    def metrics(self) -> dict[str, float]:
        """Mean of the corrections and share of those at their bound; nothing where there are none."""
        every = [factor for factors in self.corrections.values() for factor in factors]
        if not every:
            return {}
        at_bound = sum(factor >= self.bound for factor in every)
        return {"actor/is_weight": sum(every) / len(every), "actor/is_truncated": at_bound / len(every)}


class Learner:
    """Owns the optimiser of a model; the model itself is trained in place."""

    def __init__(
        self,
        model: Any,
        *,
        config: ActorConfig,
        temperature: float = 1.0,
        reference: Reference | None = None,
        share_prompts: bool = True,
        traits: LossTraits | None = None,
        critic: Critic | None = None,
    ) -> None:
        """Prepare AdamW over the model's trainable parameters.

        Args:
            model: A causal language model of transformers, or one wrapped by PEFT.
            config: Learning rate, clipping, KL weight, minibatches.
            temperature: Of sampling; log-probabilities are taken at it. 0 (greedy) counts as 1, as in `Completion.logprobs`.
            reference: Needed when `config.kl_coef` is above 0; see `dpepo.learning.freeze`.
            share_prompts: Compute equal prompts once per forward pass where the model allows it. Has no effect on the result.
            traits: What the algorithm minimises where `config` says nothing; None: clipped ratios of tokens, k3 in the loss.
            critic: The value head and its settings, for PPO.

        Raises:
            ValueError: A KL weight without a reference, a model with nothing to train, or a mean by a length not given.
        """
        if config.kl_coef > 0 and reference is None:
            raise ValueError("actor.kl_coef above 0 needs a reference policy: pass reference=freeze(model)")
        self.model = model
        self.config = config
        self.temperature = temperature or 1.0
        self.num_updates = 0
        self.num_skipped = 0
        self.num_skipped_in_a_row = 0
        self._reference = reference
        self._share_prompts = share_prompts and can_share_prompts(model)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise ValueError("the model has no trainable parameter")
        self._objective = Objective.of(config, traits)
        self._optimizer = MasterAdamW(self._parameters, lr=config.lr, weight_decay=config.weight_decay)
        self.critic = critic
        # apart from the policy's: a new head learns at another rate, and its gradient is no reason to clip the policy's
        self._head_optimizer = MasterAdamW(critic.head.parameters(), lr=critic.lr, weight_decay=0.0) if critic else None

    def set_lr(self, lr: float) -> None:
        """Learning rate of the steps to come."""
        self._optimizer.lr = lr

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        return self._optimizer.lr

    def update(self, samples: Sequence[TrainingSample], *, lr: float | None = None) -> dict[str, float]:
        """One optimiser step per minibatch of the configured number, each over whole episodes.

        The loss is a mean over the minibatch, of what ``config.loss_average`` says. Without a KL term, samples with advantage
        0 have no gradient: they count in that mean but are not computed, and a minibatch of nothing else makes no step.

        Args:
            samples: Of one RL step, sampled from the model as it is now or a little earlier.
            lr: Learning rate from now on; None leaves it.

        Returns:
            Means over tokens (``actor/pg_loss``, ``actor/kl_loss``, ``actor/entropy``, ``actor/pg_clipfrac``,
            ``actor/ppo_kl`` = mean of old minus new log-probability, ``actor/ratio_capped``), ``actor/grad_norm`` before
            clipping, ``actor/lr``, ``actor/tokens`` (reply tokens given), ``actor/steps`` and ``actor/skipped`` (optimiser
            steps made, and not made because something was not finite).

        Raises:
            JobError: `config.max_skipped` non-finite steps in a row.
        """
        if lr is not None:
            self.set_lr(lr)
        self._without_dropout()  # it would make the ratio of the first update differ from 1
        sums: Counter[str] = Counter()
        norms: list[float] = []
        num_tokens = 0
        rollout = self._rollout(samples)
        for minibatch in split_minibatches(samples, num_minibatches=self.config.minibatches):
            num_tokens += sum(len(sample.token_ids) for sample in minibatch)
            if not any(self._has_gradient(sample) or self._is_taught(sample) for sample in minibatch):
                continue
            terms = self._actor_backward(minibatch, rollout)
            norms.append(self._step(finite=math.isfinite(terms["loss"])))
            if math.isfinite(norms[-1]):
                sums.update(terms)
        names = ["actor/pg_loss", "actor/entropy", "actor/pg_clipfrac", "actor/ppo_kl", "actor/ratio_capped"]
        names += ["actor/kl_loss"] if self._reference is not None and self.config.kl_coef > 0 else []
        # samples that are not computed add exactly 0 to the loss, and nothing is known of their other numbers
        metrics = {name: sums[name] / max(sums["tokens" if name == "actor/pg_loss" else "computed"], 1) for name in names}
        if self.critic is not None:
            metrics["critic/loss"] = sums["critic/loss"] / max(sums["critic/prompts"], 1)
        metrics |= rollout.metrics()
        return metrics | self._step_metrics("actor", norms, num_tokens=num_tokens)

    def supervised_step(self, samples: Sequence[TrainingSample], *, lr: float | None = None) -> dict[str, float]:
        """One optimiser step on demonstrations: the mean of -log p over all reply tokens given, prompts excluded.

        Args:
            samples: One batch; their advantages and log-probabilities are not used.
            lr: Learning rate from now on; None leaves it.

        Returns:
            ``sft/loss``, ``sft/grad_norm``, ``sft/lr``, ``sft/tokens``, ``sft/steps`` and ``sft/skipped``.

        Raises:
            JobError: `config.max_skipped` non-finite steps in a row.
        """
        if lr is not None:
            self.set_lr(lr)
        self.model.train()
        num_tokens = sum(len(sample.token_ids) for sample in samples)
        loss_sum = 0.0
        self._zero_grad()
        for batch in self._batches(samples):
            loss = -score_tokens(self.model, batch).logprobs_N.sum()
            (loss / num_tokens).backward()  # type: ignore[no-untyped-call]
            loss_sum += loss.item()
        self.model.eval()
        norms = [self._step(finite=math.isfinite(loss_sum))] if samples else []
        return {"sft/loss": loss_sum / max(num_tokens, 1)} | self._step_metrics("sft", norms, num_tokens=num_tokens)

    @torch.no_grad()
    def supervised_loss(self, samples: Sequence[TrainingSample]) -> float:
        """The mean of -log p over all reply tokens, of samples that are not learnt from."""
        self.model.eval()
        num_tokens = sum(len(sample.token_ids) for sample in samples)
        return -sum(float(score_tokens(self.model, batch).logprobs_N.sum()) for batch in self._batches(samples)) / num_tokens

    def state_dict(self) -> dict[str, Any]:
        """Optimiser state and counters, without the model's weights; for `torch.save`."""
        return {
            "critic": None if self.critic is None else self.critic.head.state_dict(),
            "critic_optimizer": None if self._head_optimizer is None else self._head_optimizer.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "num_updates": self.num_updates,
            "num_skipped": self.num_skipped,
            "num_skipped_in_a_row": self.num_skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken; the model's weights are loaded by whoever saved them."""
        if self.critic is not None and self._head_optimizer is not None:
            self.critic.head.load_state_dict(state["critic"])
            self._head_optimizer.load_state_dict(state["critic_optimizer"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.num_updates = state["num_updates"]
        self.num_skipped = state["num_skipped"]
        self.num_skipped_in_a_row = state["num_skipped_in_a_row"]

    def _batches(self, samples: Sequence[TrainingSample]) -> list[TrainBatch]:
        return build_batches(
            samples,
            max_tokens=self.config.micro_tokens,
            share_prompts=self._share_prompts,
            device=self._parameters[0].device,
            dtype=self.model.get_input_embeddings().weight.dtype,  # an adapter's own weights may be more precise
        )

    def _without_dropout(self) -> None:
        """Evaluation mode, but layers that are to be computed again for gradients still are: they ask for training mode."""
        self.model.eval()
        for module in self.model.modules():
            if isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing:
                module.training = True  # of this module alone; dropout is a matter of those inside

    @torch.no_grad()
    def values(self, prompts: Sequence[tuple[int, ...]]) -> list[float]:
        """V of every prompt, in order.

        Raises:
            ValueError: There is no critic.
        """
        if self.critic is None:
            raise ValueError("this learner has no value head")
        self._without_dropout()
        found = [0.0] * len(prompts)
        for places, values_B in self._prompt_values(self.critic.head, prompts):
            for place, value in zip(places, values_B.tolist(), strict=True):
                found[place] = value
        return found

    def _prompt_values(self, head: ValueHead, prompts: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[int], torch.Tensor]]:
        tokens, share = self.config.micro_tokens, self._share_prompts
        return prompt_values(self.model, head, prompts, max_tokens=tokens, share_prompts=share)

    def _has_gradient(self, sample: TrainingSample) -> bool:
        return sample.advantage != 0 or self.config.kl_coef > 0

    def _is_taught(self, sample: TrainingSample) -> bool:
        """Whether the value head learns from it."""
        return self.critic is not None and sample.value_target is not None

    @torch.no_grad()
    def _rollout(self, samples: Sequence[TrainingSample]) -> Rollout:
        """The policy of the rollout as the ratios see it: as the sampler said, or as the trainer would have said."""
        bound = self.config.truncated_is
        if bound is None:
            return Rollout({id(sample): sample.logprobs for sample in samples}, {})
        mine: dict[int, tuple[float, ...]] = {}
        for batch in self._batches(samples):
            scores = score_tokens(self.model, batch, temperature=self.temperature)
            lengths = [len(sample.token_ids) for sample in batch.samples]
            for sample, part in zip(batch.samples, torch.split(scores.logprobs_N, lengths), strict=True):
                mine[id(sample)] = tuple(part.tolist())
        corrections = {
            id(sample): tuple(
                min(math.exp(min(now - then, 20.0)), bound) for now, then in zip(mine[id(sample)], sample.logprobs, strict=True)
            )
            for sample in samples
        }
        return Rollout(mine, corrections, bound=bound)

    def _actor_backward(self, minibatch: Sequence[TrainingSample], rollout: Rollout) -> dict[str, float]:
        """Gradients of the minibatch's loss; returns sums over its tokens, "loss", "tokens" and "computed" among them."""
        self._zero_grad()  # an interrupted update may have left gradients behind
        weights = dict(zip(map(id, minibatch), sample_weights(minibatch, objective=self._objective), strict=True))
        num_tokens = sum(len(sample.token_ids) for sample in minibatch)
        sums = Counter({"tokens": float(num_tokens), "loss": 0.0})
        sums.update(self._accumulate([sample for sample in minibatch if self._has_gradient(sample)], weights, rollout))
        sums.update(self._critic_backward(minibatch))
        return dict(sums)

    def _accumulate(self, samples: Sequence[TrainingSample], weights: dict[int, float], rollout: Rollout) -> dict[str, float]:
        """Add the gradients of some samples of a minibatch; weights are by sample and of the whole, so that parts add up."""
        sums = Counter({"computed": float(sum(len(sample.token_ids) for sample in samples))})
        for batch in self._batches(samples):
            scores = score_tokens(self.model, batch, temperature=self.temperature)
            device, dtype = batch.target_N.device, scores.logprobs_N.dtype
            per_token = [rollout.of(sample, weights[id(sample)]) for sample in batch.samples]
            old, counts = ([value for pair in per_token for value in pair[part]] for part in (0, 1))
            advantages = [sample.advantage for sample in batch.samples for _ in sample.token_ids]
            terms = actor_loss(
                scores.logprobs_N,
                old_N=torch.tensor(old, device=device, dtype=dtype),
                advantages_N=torch.tensor(advantages, device=device, dtype=dtype),
                weights_N=torch.tensor(counts, device=device, dtype=dtype),
                reference_N=self._reference_logprobs(batch),
                lengths=[len(sample.token_ids) for sample in batch.samples],
                objective=self._objective,
            )
            terms.loss.backward()  # type: ignore[no-untyped-call]
            sums.update({**terms.sums, "loss": terms.loss.item(), "actor/entropy": scores.entropy_N.sum().item()})
        return dict(sums)

    def _critic_backward(self, minibatch: Sequence[TrainingSample]) -> dict[str, float]:
        """Gradients of the value loss: a mean over the prompts of the minibatch."""
        taught = [sample for sample in minibatch if self._is_taught(sample)]
        if self.critic is None or not taught:
            return {}
        total = 0.0
        prompts = [sample.prompt_token_ids for sample in taught]
        for places, values_B in self._prompt_values(self.critic.head, prompts):
            losses_B = value_loss(
                values_B,
                old_B=torch.tensor([taught[place].value for place in places], device=values_B.device),
                targets_B=torch.tensor([taught[place].value_target for place in places], device=values_B.device),
                clip=self.critic.clip,
            )
            (self.critic.coef * losses_B.sum() / len(taught)).backward()  # type: ignore[no-untyped-call]
            total += losses_B.sum().item()
        return {"critic/loss": total, "critic/prompts": float(len(taught)), "loss": self.critic.coef * total / len(taught)}

    def _reference_logprobs(self, batch: TrainBatch) -> torch.Tensor | None:
        if self._reference is None or self.config.kl_coef == 0:
            return None
        with torch.no_grad(), self._reference() as reference:
            return score_tokens(reference, batch, temperature=self.temperature).logprobs_N

    def _step(self, *, finite: bool) -> float:
        """Clip and step, or leave all as it was when loss or gradient is not finite. Returns the norm before clipping."""
        # the loss is asked as well: a bound that holds back a NaN leaves gradients that look fine
        optimizers = [self._optimizer] if self._head_optimizer is None else [self._optimizer, self._head_optimizer]
        norms = [optimizer.clip(self.config.max_grad_norm) for optimizer in optimizers] if finite else [math.nan]
        norm = norms[0] if all(map(math.isfinite, norms)) else math.nan
        if math.isfinite(norm):
            for optimizer in optimizers:
                optimizer.step()
            self.num_updates += 1
            self.num_skipped_in_a_row = 0
        else:
            self.num_skipped += 1
            self.num_skipped_in_a_row += 1
        self._zero_grad()
        if self.num_skipped_in_a_row >= self.config.max_skipped:
            raise JobError(
                f"{self.num_skipped_in_a_row} optimiser steps in a row were not finite; the weights are those of the last good "
                f"step. Try: a smaller learning rate than {self.lr:g}"
            )
        return norm

    def _zero_grad(self) -> None:
        self._optimizer.zero_grad()
        if self._head_optimizer is not None:
            self._head_optimizer.zero_grad()

    def _step_metrics(self, prefix: str, norms: Sequence[float], *, num_tokens: int) -> dict[str, float]:
        finite = [norm for norm in norms if math.isfinite(norm)]
        return {
            f"{prefix}/grad_norm": sum(finite) / len(finite) if finite else 0.0,
            f"{prefix}/lr": self.lr,
            f"{prefix}/tokens": float(num_tokens),
            f"{prefix}/steps": float(len(finite)),
            f"{prefix}/skipped": float(len(norms) - len(finite)),
        }
