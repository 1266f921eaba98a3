"""Algorithms and their settings in the training job: each has an effect, and what a job says fits what it learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.support.tiny_models import plain_logprobs, tiny_model
from tests.support.toy_jobs import ONE_TASK, ColdStart, Notes, open_run, same_weights, toy_config, weights

from dpepo.algorithms import load_algorithm
from dpepo.config import Config
from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError
from dpepo.learning import build_samples, freeze
from dpepo.rewards import score_episode
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.rundir import RunFolder
from dpepo.training.rl import PATIENCE, make_learner, run_train, turn_values
from dpepo.types import (
    Completion,
    Episode,
    EpisodeGroup,
    FinishReason,
    Observation,
    ParsedReply,
    Prompt,
    Step,
    StopReason,
    Task,
    Turn,
    WorldGuide,
)

TASK = Task(id="toy/a/0", world="toy", name="a")
PLAYED: tuple[tuple[dict[int, str], ...], ...] = (  # actions by environment, turn by turn; siblings 0 and 2 win
    ({1: "east", 2: "east"}, {1: "east", 2: "east"}, {1: "east", 2: "west"}, {1: "take"}),
    ({1: "east"}, {}, {1: "west", 2: "east"}),
    ({1: "dance", 2: "east"}, {2: "take"}),
    ({1: "west"}, {1: "take"}),
)
EXPERT = ["east", "take"]


class Update(NamedTuple):
    """One update of a tiny model by given episodes."""

    weights: torch.Tensor
    values: list[float]
    metrics: dict[str, float]


def episode(sibling: int) -> Episode:
    """Turns with tokens: what is sampled differs by sibling and turn, and is as likely as the fresh model says."""
    model = tiny_model(seed=0)
    turns = []
    for number, actions in enumerate(PLAYED[sibling]):
        prompt, reply = (1, 2, 3 + number), (4 + sibling, 5 + number, 6)[: 1 + (sibling + number) % 3]
        won = sibling in (0, 2) and number == len(PLAYED[sibling]) - 1
        steps = [
            Step(
                env_id=env_id,
                action=action,
                observation=Observation(text=f"after {action}", success=won, ended=won, valid=action != "dance"),
            )
            for env_id, action in actions.items()
        ]
        turns.append(
            Turn(
                prompt=Prompt(messages=()),
                completion=Completion(
                    text="",
                    finish=FinishReason.STOP,
                    prompt_token_ids=prompt,
                    token_ids=reply,
                    logprobs=tuple(plain_logprobs(model, prompt, reply)),
                ),
                reply=ParsedReply(thought="", actions=actions),
                steps=tuple(steps),
            )
        )
    return Episode(
        task=TASK,
        goal="find it",
        guide=WorldGuide(role="a seeker"),
        num_envs=2,
        max_turns=9,
        seed=0,
        sibling=sibling,
        initial=Observation(text="hall"),
        turns=tuple(turns),
        stop=StopReason.SUCCESS if sibling in (0, 2) else StopReason.MAX_TURNS,
    )


EPISODES = [episode(sibling) for sibling in range(len(PLAYED))]


def update(folder: Path, *settings: str) -> Update:
    """Two optimiser steps as the training job makes them, so that ratios and KL differ from their start in the second."""
    base = ("actor.lr=1e-2", "actor.minibatches=2", "actor.kl_coef=0.2", "actor.max_grad_norm=1e9", "train.group_size=4")
    config = toy_config(folder, *base, *settings)
    algorithm = load_algorithm(config.algorithm)
    expert = EXPERT if config.algorithm.process_reward else None
    scored = [score_episode(one, config.step_reward, expert=expert) for one in EPISODES]
    groups = [EpisodeGroup(task=TASK, siblings=tuple(scored))]
    learner = make_learner(config, tiny_model(seed=0), algorithm=algorithm, reference=freeze(tiny_model(seed=0)))
    values = turn_values(groups, learner=learner) if algorithm.uses_values else None
    metrics = learner.update(build_samples(algorithm.advantages_many(groups, values=values), values=values))
    flat = torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])
    found = [] if learner.critic is None else learner.values([(1, 2, 3)])
    return Update(flat, found, metrics)


def differs(one: Update, other: Update) -> bool:
    return one.values != other.values or not torch.equal(one.weights, other.weights)


@pytest.mark.parametrize(
    ("setting", "beside"),
    [
        ("actor.kl=k1", ()),
        ("actor.kl=k2", ()),
        ("actor.kl_in=reward", ()),
        ("actor.loss_average=turns", ()),
        ("actor.loss_average=episodes", ()),
        ("actor.loss_average=constant", ()),
        ("actor.loss_length=3", ("actor.loss_average=constant", "actor.max_grad_norm=1e-4", "actor.kl_coef=0")),
        ("actor.clip_low=0.001", ("actor.kl_coef=0", "actor.lr=1e-3")),
        ("actor.clip_high=0.001", ("actor.kl_coef=0", "actor.lr=1e-3")),
        ("actor.dual_clip=1.001", ("actor.kl_coef=0", "actor.clip_low=0.9")),
        ("actor.truncated_is=0.5", ()),
        ("algorithm.ddof=0", ()),
        ("algorithm.eps=1", ()),
        ("algorithm.group_stats=turns", ()),
        ("algorithm.process_reward=true", ()),
        ("algorithm.discount=0.5", ("algorithm.name=gigpo",)),
        ("algorithm.step_weight=0.5", ("algorithm.name=gigpo",)),
        ("algorithm.discount=0.5", ("algorithm.name=ppo",)),
        ("algorithm.lam=0.5", ("algorithm.name=ppo",)),
        ("algorithm.value_coef=0.1", ("algorithm.name=ppo",)),
        ("algorithm.value_clip=1e-4", ("algorithm.name=ppo",)),
        ("algorithm.value_lr=0.1", ("algorithm.name=ppo",)),
        ("step_reward.scale=equations", ()),
        ("step_reward.transition=observation", ()),
        ("step_reward.width_count=environments_before", ()),
        ("step_reward.action=false", ()),
        ("step_reward.transitions=false", ()),
        ("step_reward.alpha=0.5", ()),
        ("step_reward.beta=0.5", ()),
        ("step_reward.gamma=0.5", ()),
        ("step_reward.omega=0.5", ()),
        ("step_reward.no_action=0.1", ()),
        ("step_reward.invalid=0.5", ()),
    ],
)
def test_every_setting_of_algorithm_and_loss_changes_the_update(tmp_path: Path, setting: str, beside: tuple[str, ...]) -> None:
    assert differs(update(tmp_path / "without", *beside), update(tmp_path / "with", *beside, setting)), setting


@pytest.mark.parametrize("name", ["dr_grpo", "gigpo", "gspo", "ppo", "reinforce_pp", "rloo", "grpo"])
def test_every_algorithm_learns_something_else_from_the_same_episodes(tmp_path: Path, name: str) -> None:
    assert differs(update(tmp_path / "dpepo"), update(tmp_path / name, f"algorithm.name={name}"))


@pytest.mark.parametrize("more", [(), ("step_reward.scale=equations",), ("step_reward.invalid=0.5", "algorithm.ddof=0")])
def test_both_diversity_rewards_off_is_grpo_to_the_bit(tmp_path: Path, more: tuple[str, ...]) -> None:
    off = ("step_reward.action=false", "step_reward.transitions=false")
    assert not differs(update(tmp_path / "off", *more, *off), update(tmp_path / "grpo", *more, "algorithm.name=grpo"))


def test_a_key_that_is_set_wins_over_what_the_algorithm_brings(tmp_path: Path) -> None:
    """gspo with the ratio per reply only: mean over tokens and wide clipping, as configured."""
    own = update(tmp_path / "own", "algorithm.name=gspo", "actor.kl_coef=0")
    wide = ("actor.clip_low=0.2", "actor.clip_high=0.2", "actor.loss_average=tokens")
    assert own.metrics["actor/pg_clipfrac"] > 0
    assert differs(own, update(tmp_path / "wide", "algorithm.name=gspo", "actor.kl_coef=0", *wide))
    same = ("actor.clip_low=3e-4", "actor.clip_high=4e-4", "actor.loss_average=turns")
    assert not differs(own, update(tmp_path / "same", "algorithm.name=gspo", "actor.kl_coef=0", *same))


def test_a_constant_mean_is_by_the_longest_reply_there_may_be(tmp_path: Path) -> None:
    settings = ("algorithm.name=dr_grpo", "sampling.max_new_tokens=40")
    assert not differs(update(tmp_path / "own", *settings), update(tmp_path / "set", *settings, "actor.loss_length=40"))


def job(start: ColdStart, folder: Path, *settings: str) -> Config:
    small = ("train.steps=2", "train.tasks_per_step=1", "train.group_size=6", "actor.kl_coef=0")
    return toy_config(folder, f"model.path={start.model}", *ONE_TASK, *small, *settings)


def run_it(config: Config, *, pool: Any = None) -> tuple[str, list[str]]:
    notes = Notes()
    run = open_run(config, "train")
    try:
        return run_train(config, run=run, progress=notes, pool=pool).checkpoint, notes.notes
    finally:
        run.close()


def rows_of(config: Config) -> list[MetricsRow]:
    return [row for row in RunFolder.open(Path(config.run.dir)).read_metrics().rows if row.stage == "rl"]


@pytest.mark.parametrize("name", ["ppo", "reinforce_pp"])
def test_algorithms_that_compare_no_siblings_learn_from_groups_of_one(cold_start: ColdStart, tmp_path: Path, name: str) -> None:
    settings = (f"algorithm.name={name}", "train.group_size=1", "train.tasks_per_step=8", "train.steps=1")
    config = job(cold_start, tmp_path / name, *settings)
    checkpoint, notes = run_it(config)
    assert not any("nothing is learnt" in note for note in notes)
    [row] = rows_of(config)
    assert row.values["group/frac_zero_std"] == 1 and row.values["group/frac_zero_advantage"] == 0
    assert row.values["actor/steps"] == 1 and not same_weights(checkpoint, cold_start.model.parent)


def test_without_signal_kl_alone_moves_the_weights_and_a_person_is_told(cold_start: ColdStart, tmp_path: Path) -> None:
    """Case A22, above 0: an untrained model never succeeds. KL starts at 0, so that it is rounding that it pulls back."""
    settings = (f"model.path={cold_start.untrained}", f"train.steps={PATIENCE}", "actor.kl_coef=0.1", "train.group_size=2")
    _, notes = run_it(job(cold_start, tmp_path / "run", *settings, "sampling.max_new_tokens=4"))
    [said] = [note for note in notes if "in a row" in note]
    assert "only the KL term moved the weights" in said


@pytest.mark.parametrize("how", [(), ("model.lora.rank=4",), ("model.dtype=bfloat16",)], ids=["whole", "lora", "bfloat16"])
def test_the_value_head_lies_beside_the_model_and_not_in_it(
    cold_start: ColdStart, tmp_path: Path, how: tuple[str, ...]
) -> None:
    checkpoint, _ = run_it(job(cold_start, tmp_path / "ppo", "algorithm.name=ppo", *how))
    plain, _ = run_it(job(cold_start, tmp_path / "grpo", "train.steps=1", "algorithm.name=grpo", *how))
    assert weights(checkpoint).keys() == weights(plain).keys()
    state = torch.load(Path(checkpoint) / "learner.pt", weights_only=True)
    assert state["critic"]["weight"].abs().sum() > 0 and state["critic_optimizer"]["adamw"]["state"]


def test_rates_of_a_refilled_step_are_those_of_the_groups_drawn_first(cold_start: ColdStart, tmp_path: Path) -> None:
    """Groups that are kept for their differences would all succeed by half."""
    settings = ("train.group_size=2", "train.tasks_per_step=3", "train.steps=1")
    plain = job(cold_start, tmp_path / "plain", *settings)
    filled = job(cold_start, tmp_path / "filled", *settings, "train.refill=5")
    run_it(plain)
    run_it(filled)
    [without], [refilled] = (rows_of(config) for config in (plain, filled))
    assert float(refilled.values["train/refilled_groups"] or 0) > 0
    assert refilled.values["episode/success_rate"] == without.values["episode/success_rate"]
    assert float(refilled.values["group/frac_zero_std"] or 0) < float(without.values["group/frac_zero_std"] or 0)


class Mute(ToyWorld):
    """A world that knows no way to its goals."""

    def expert(self, task_id: str) -> list[str]:
        return None  # type: ignore[return-value]


def test_a_process_reward_without_an_expert_is_refused_before_anything_is_played(cold_start: ColdStart, tmp_path: Path) -> None:
    config = job(cold_start, tmp_path / "run", "algorithm.process_reward=true")
    says = r"algorithm\.process_reward needs a world that knows .*'toy' does not"
    with LocalPool(Mute(observation="compact")) as pool, pytest.raises(ConfigError, match=says):
        run_it(config, pool=pool)
    assert list(RunFolder.open(tmp_path / "run").read_episodes(stage="rl", problems=[])) == []
