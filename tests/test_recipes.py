"""Recipes and overrides become a checked configuration, or a message that says what, where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.algorithms.base import load_algorithm
from dpepo.config import Config, OverLimit, PromptConfig
from dpepo.errors import ConfigError
from dpepo.recipes import config_yaml, load_config


def recipe(folder: Path, text: str | bytes) -> Path:
    path = folder / "recipe.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(folder: Path, text: str | bytes, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(recipe(folder, text), overrides)
    return str(caught.value)


# What is read


def test_nothing_given_means_all_defaults() -> None:
    assert load_config(None) == Config()


def test_overrides_win_over_the_file_and_later_ones_over_earlier(tmp_path: Path) -> None:
    config = load_config(recipe(tmp_path, "env: {num_envs: 2}\nseed: 7\n"), ["env.num_envs=3", "env.num_envs=5"])
    assert (config.env.num_envs, config.seed) == (5, 7)


@pytest.mark.parametrize("written", ["1e-6", "1E-6", '"1e-6"', "1.0e-6", "0.000001", "+1e-6"])
def test_every_way_to_write_a_millionth_is_that_number(tmp_path: Path, written: str) -> None:
    """F01: YAML 1.1 reads ``1e-6`` as text."""
    assert load_config(recipe(tmp_path, f"actor:\n  lr: {written}\n")).actor.lr == 1e-6
    assert load_config(None, [f"actor.lr={written}"]).actor.lr == 1e-6


@pytest.mark.parametrize("written", ["fast", "1e-6x", "1e", "[1e-6]", "true", "null", "{a: 1}", ".nan", ".inf", "1,5"])
def test_what_is_no_number_is_refused_where_it_is_read(tmp_path: Path, written: str) -> None:
    """F01: never a late TypeError."""
    assert "actor.lr must be" in refusal(tmp_path, f"actor:\n  lr: {written}\n")


def test_text_settings_take_an_override_as_it_is_written() -> None:
    config = load_config(None, ["run.dir=2024", "model.path=a: b", "model.device=cuda:1"])
    assert (config.run.dir, config.model.path, config.model.device) == ("2024", "a: b", "cuda:1")


def test_lists_sections_and_world_options_can_be_overridden() -> None:
    config = load_config(
        None, ["tasks.train.names=[boil, melt]", "prompt={memory: window, window: 2}", "env.options.fail_at=3"]
    )
    assert config.tasks.train.names == ("boil", "melt")
    assert config.prompt == PromptConfig(memory=config.prompt.memory, window=2)
    assert config.env.options == {"fail_at": 3}


def test_a_byte_order_mark_does_not_hide_the_first_key(tmp_path: Path) -> None:
    """F08, for recipes."""
    assert load_config(recipe(tmp_path, b"\xef\xbb\xbfseed: 3\n")).seed == 3


def test_a_section_whose_keys_are_all_commented_out_is_empty(tmp_path: Path) -> None:
    assert load_config(recipe(tmp_path, "actor:\n  # lr: 1e-6\nseed: 1\n")) == Config(seed=1)


def test_a_setting_can_refer_to_another(tmp_path: Path) -> None:
    config = load_config(recipe(tmp_path, "eval: {num_envs: '${env.num_envs}'}\nenv: {num_envs: 3}\n"))
    assert config.eval.num_envs == 3


def test_a_setting_can_refer_to_one_that_nobody_set() -> None:
    assert load_config(None, ["run.dir=runs/k${env.num_envs}-seed${seed}"]).run.dir == "runs/k4-seed0"
    assert load_config(None, ["eval.num_envs=${env.num_envs}"]).eval.num_envs == Config().env.num_envs


def test_a_value_that_still_has_to_be_set_is_not_taken_from_the_defaults(tmp_path: Path) -> None:
    path = recipe(tmp_path, "seed: 1\nenv: {num_envs: '???'}\n")
    with pytest.raises(ConfigError, match=r"env\.num_envs cannot be worked out: .*line 2"):
        load_config(path)
    assert load_config(path, ["env.num_envs=2"]).env.num_envs == 2


def test_the_setting_to_try_can_be_copied_as_it_stands() -> None:
    with pytest.raises(ConfigError, match=r"Try: step_reward\.invalid=0\.5$"):
        load_config(None, ["step_reward.scale=reference_invalid_only"])


# What is refused


@pytest.mark.parametrize(
    ("text", "overrides", "key", "near"),
    [
        ("num_paralel: 4", (), "num_paralel", "env.num_envs"),
        ("env: {num_paralel: 4}", (), "env.num_paralel", "env.num_envs"),
        ("", ("env.num_paralel=4",), "env.num_paralel", "env.num_envs"),
        ("", ("num_paralel=4",), "num_paralel", "env.num_envs"),
        ("", ("num_envs=4",), "num_envs", "env.num_envs"),
        ("tasks: {train: {nmaes: [boil]}}", (), "tasks.train.nmaes", "tasks.train.names"),
        ("actors: {lr: 1}", (), "actors", "actor"),
        ("actor: {learning_rate: 1}", (), "actor.learning_rate", "actor.lr"),
        ("", ("sampling.temprature=1",), "sampling.temprature", "sampling.temperature"),
        ("", ("train.max_turns=3",), "train.max_turns", "rollout.max_turns"),
        ("env.num_envs: 4", (), "env.num_envs", "inside the section env"),
    ],
)
def test_a_wrong_key_is_named_with_the_nearest_right_one(
    tmp_path: Path, text: str, overrides: tuple[str, ...], key: str, near: str
) -> None:
    """F02: never ignored, at any depth, in a file or on the command line."""
    message = refusal(tmp_path, text, *overrides)
    assert key in message
    assert near in message
    assert ("recipe.yaml, line 1" if text else f"given as {overrides[0]}") in message


def test_all_problems_are_listed_at_once_with_their_lines(tmp_path: Path) -> None:
    message = refusal(tmp_path, "env:\n  num_envs: 0\n  wrld: toy\nactor:\n  lr: -1\n", "train.group_size=0", "seed")
    assert message.startswith("5 settings are wrong")
    for part in (
        "recipe.yaml, line 2",
        "recipe.yaml, line 3",
        "recipe.yaml, line 5",
        "train.group_size must be at least 1",
        "'seed'",
    ):
        assert part in message


@pytest.mark.parametrize("key", ["env.num_envs", "train.group_size", "train.tasks_per_step", "rollout.max_turns"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "two", "true", "null", "[]", ""])
def test_counts_below_one_or_of_another_type_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be .*, got "):
        load_config(None, [f"{key}={value}"])


@pytest.mark.parametrize(
    "key",
    [
        "env.num_envs",
        "env.step_timeout_s",
        "eval.episodes_per_task",
        "eval.num_envs",
        "model.threads",
        "sft.epochs",
        "synth.episodes_per_task",
        "train.group_size",
        "train.tasks_per_step",
    ],
)
def test_counts_that_no_machine_could_hold_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be at most [0-9]+, got 1000000000000"):
        load_config(None, [f"{key}=1000000000000"])


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("rollout.over_limit=of", "fail or ignore, got of"),
        ("synth.keep=some", "success or all, got some"),
        ("tasks.train.names=boil", "Try: tasks.train.names=[boil]"),
        ("synth.num_envs=[0]", "synth.num_envs must be at least 1, got 0"),
        ("synth.num_envs=[]", "at least one"),
        ("prompt.form=sequential", "env.num_envs=1"),
        ("model.max_length=100", "sampling.max_new_tokens"),
        ("env.options=4", "env.options must be a section like {a: 1}, got 4"),
        ("env=4", "section with keys of its own"),
        ("env.num_envs.x=3", "env.num_envs must be a whole number"),
        ("env.num_envs", "section.key=value"),
        ("=3", "section.key=value"),
        ("a..b=2", "section.key=value"),
        ("actor.lr=[1", "not valid YAML"),
        ("seed=${nope}", "nope"),
        ("seed=${seed}", "seed cannot be worked out"),
        ("seed=???", "seed cannot be worked out"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_with_what_would_be_right(override: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [override])
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("seed: 1\nseed: 2\n", "line 2, column 1 is not valid YAML: found duplicate key seed"),
        ("env: {num_envs: 4\n", "line 2"),
        ("- seed\n", "not a list"),
        ("seed", "not a single word"),
        ("3", "not a single word"),
        ("~: 1", "cannot be read as YAML"),
        ("1: 2", "Unknown key 1"),
        ("true: 2", "Unknown key True"),
        ("[a]: 1", "not valid YAML"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("a: &x [*x]", "not valid YAML"),
        ("a: " + "[" * 5000, "cannot be read as YAML"),
        ("\x00: 1", "cannot be read as YAML"),
        (b"\xff\xfes\x00", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_with_its_name(tmp_path: Path, text: str | bytes, part: str) -> None:
    message = refusal(tmp_path, text)
    assert part in message
    assert "recipe.yaml" in message or "Unknown key" in message


def test_a_missing_file_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    recipe(tmp_path, "seed: 1")
    with pytest.raises(ConfigError, match=r"There is no recipe .*recipes\.yaml\. Did you mean 'recipe\.yaml'"):
        load_config(tmp_path / "recipes.yaml")


def test_a_folder_is_not_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the recipe .*: Is a directory"):
        load_config(tmp_path)


# What is written


def test_the_written_configuration_reads_back_equal(tmp_path: Path) -> None:
    config = load_config(
        None,
        [
            "actor.lr=3e-7",
            "actor.dual_clip=3",
            "rollout.over_limit=fail",
            "tasks.eval.names=[boil]",
            "env.options={a: '1e-6', b: [no, 'no']}",
        ],
    )
    assert load_config(recipe(tmp_path, config_yaml(config))) == config
    assert config.rollout.over_limit is OverLimit.FAIL


TEXT = st.text(st.characters(codec="utf-8"), min_size=1)


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(TEXT, TEXT | st.floats(allow_nan=False) | st.lists(TEXT, max_size=2), max_size=3))
def test_options_of_any_text_survive_the_written_configuration(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, object]
) -> None:
    config = Config.model_validate({"env": {"options": options}})
    assert load_config(recipe(tmp_path_factory.mktemp("round"), config_yaml(config))) == config


@pytest.mark.parametrize("text", ["${env.world}", r"\${x}", r"\\${x}", "$5", "${", "a ${b:c} ${d}"])
def test_dollar_signs_in_a_value_are_not_read_as_references_later(tmp_path: Path, text: str) -> None:
    config = Config.model_validate({"env": {"options": {"x": text}}})
    assert load_config(recipe(tmp_path, config_yaml(config))) == config


# Recipes that ship with the project

# those of `dpepo sweep` are another kind of file, and tested with it
FILES = sorted((Path(__file__).parents[1] / "recipes").rglob("*.yaml"))
RECIPES = [path for path in FILES if "\nvariants:" not in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_recipe_that_ships_resolves_and_starts_a_run_of_its_own(path: Path) -> None:
    assert load_config(path).run.resume is False


@pytest.mark.parametrize(("world", "siblings", "invalid"), [("scienceworld", 4, 0.5), ("alfworld", 8, None)])
def test_the_recipes_of_both_worlds_hold_the_numbers_of_the_paper(world: str, siblings: int, invalid: float | None) -> None:
    """V07: K, T, temperature and lengths stand in one place. Numbers: arXiv 2604.24320."""
    config = load_config(next(path for path in RECIPES if (path.parent.name, path.name) == (world, "dpepo.yaml")))
    assert (config.env.num_envs, config.rollout.max_turns) == (4, 25)
    assert (config.train.tasks_per_step, config.train.group_size) == (4, siblings)
    assert (config.sampling.temperature, config.eval.temperature) == (0.4, 0.4)
    assert (config.model.max_length, config.sampling.max_new_tokens) == (10_240 + 2_048, 2_048)
    assert (config.actor.lr, config.actor.kl_coef) == (1e-6, 0.01)
    algorithm = load_algorithm(config.algorithm)
    assert (config.actor.clip_low or algorithm.loss.clip_low, config.actor.clip_high or algorithm.loss.clip_high) == (0.2, 0.2)
    assert config.train.steps * config.train.tasks_per_step == 500
    reward = config.step_reward
    assert (reward.alpha, reward.gamma, reward.beta, reward.omega) == (0.8, 0.95, 0.95, 0.95)
    assert (reward.invalid, reward.no_action) == (invalid, 0.5)
