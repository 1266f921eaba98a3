"""From turns to training samples: one turn is one sample, and the ids trained on are the ids sampled."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.types import TrainingSample, TurnAdvantages


def build_samples(
    advantages: Sequence[TurnAdvantages],
    *,
    keep_zero: bool = True,
    values: Sequence[Sequence[Sequence[float]]] | None = None,
) -> list[TrainingSample]:
    """Samples of a step, in the order group, sibling, turn.

    Turns without reply ids (text-only policies, a full context) and lost episodes give none.

    Args:
        advantages: One entry per group of the step; its place is the group's number.
        keep_zero: Whether turns with advantage 0 are kept. They still count in the token mean and in the KL term, so that
            False changes the result: the mean is then over the turns that teach something.
        values: V per group, sibling and turn at the time of the rollout, where a value head is trained.

    Raises:
        ValueError: A completion whose log-probabilities do not match its ids.
    """
    samples = []
    for number, group in enumerate(advantages):
        for sibling, (scored, phis) in enumerate(zip(group.group.siblings, group.turns, strict=True)):
            if group.trajectory[sibling] is None:
                continue
            for turn, (played, phi) in enumerate(zip(scored.episode.turns, phis, strict=True)):
                completion = played.completion
                if not completion.token_ids or (phi == 0 and not keep_zero):
                    continue
                if len(completion.logprobs) != len(completion.token_ids):
                    raise ValueError(
                        f"{scored.episode.task.id}, sibling {sibling}, turn {turn}: "
                        f"{len(completion.logprobs)} log-probabilities for {len(completion.token_ids)} token ids"
                    )
                samples.append(
                    TrainingSample(
                        prompt_token_ids=completion.prompt_token_ids,
                        token_ids=completion.token_ids,
                        logprobs=completion.logprobs,
                        advantage=phi,
                        group=number,
                        sibling=sibling,
                        turn=turn,
                        value=values[number][sibling][turn] if values is not None else 0.0,
                        value_target=group.returns[sibling][turn] if group.returns else None,
                    )
                )
    return samples
