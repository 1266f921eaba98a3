"""Sweep files are read, and what is wrong in them is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpepo.errors import ConfigError
from dpepo.sweep.plan import plan_sweep
from dpepo.sweep.spec import load_sweep

ROOT = Path(__file__).parents[2]
GOOD = """
variants: [{name: one}, {name: two, settings: [env.num_envs=2]}]
evaluate: [{name: dev}]
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "sweep.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "sedes: [1]", "sedes is unknown. Did you mean 'seeds'?"),
        (GOOD + "baseline: ona", "baseline: there is no variant 'ona'. Did you mean 'one'?"),
        (GOOD + "seeds: [1, 1]", "seeds: one is listed twice"),
        ("variants: [{name: a}, {name: a}]\nevaluate: [{name: dev}]", "the name a is used twice"),
        ("variants: [{name: a, cold_start: b}]\nevaluate: [{name: dev}]", "there is no cold start 'b'"),
        ("variants: [{name: ../a}]\nevaluate: [{name: dev}]", "variants.0.name"),
        ("variants: [{name: a}]", "evaluate: Field required"),
        ("env: {num_envs: 2}", "is no sweep file"),
        ("variants: [", "is not valid YAML"),
    ],
)
def test_what_is_wrong_in_a_sweep_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_sweep(written(tmp_path, text))
    assert said in str(error.value)


def test_a_wrong_setting_of_a_variant_is_refused_when_the_sweep_is_planned(tmp_path: Path) -> None:
    text = GOOD.replace("env.num_envs=2", "env.num_evns=2")
    with pytest.raises(ConfigError, match=r"Unknown key env.num_evns .*Did you mean env.num_envs"):
        plan_sweep(load_sweep(written(tmp_path, text)), out=tmp_path / "out")


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no sweep file .*nothing.yaml"):
        load_sweep(tmp_path / "nothing.yaml")


def test_the_ablation_has_the_rows_of_the_papers_table_and_is_fair(tmp_path: Path) -> None:
    """Every variant: the cold start of its seed, the same steps and episodes; one thing differs."""
    sweep = load_sweep(ROOT / "recipes" / "ablation.yaml")
    assert sweep.spec.seeds == (0, 1, 2)
    one_seed = sweep.model_copy(update={"spec": sweep.spec.model_copy(update={"seeds": (0,)})})
    plan = plan_sweep(one_seed, out=tmp_path)
    trained = {unit.id: unit.runs[0].config for unit in plan.units if unit.runs[0].job == "train"}
    assert len(trained) == 10 and len(plan.units) == 1 + 1 + 10
    base = trained["seed-0/dpepo"]
    assert (base.algorithm.name, base.env.num_envs, base.step_reward.scale) == ("dpepo", 4, "reference")
    for name, config in trained.items():
        assert config.train == base.train and config.actor == base.actor and config.rollout == base.rollout
        assert config.model.path == str(tmp_path / name.partition("/")[0] / "cold-shared" / "sft")
    algorithms = {(c.algorithm.name, c.env.num_envs, c.step_reward.action, c.step_reward.transitions) for c in trained.values()}
    assert {
        ("grpo", 1, True, True),
        ("gigpo", 1, True, True),
        ("dpepo", 4, False, False),
        ("dpepo", 8, True, True),
    } <= algorithms
    evaluated = [run.config for unit in plan.units for run in unit.runs if run.job == "eval"]
    assert {config.tasks.eval.split for config in evaluated} == {"test"}
    assert {config.tasks.train.split for config in trained.values()} == {"train"}
