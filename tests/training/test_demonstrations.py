"""From recorded episodes to samples: what is encoded, and how names are replaced."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.toy_jobs import Notes, toy_config, write_model
from transformers import PreTrainedTokenizerBase

from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, TaskError
from dpepo.policies import load_hf
from dpepo.protocol import PromptBuilder, encode_prompt
from dpepo.rollout import AgentPolicy, EpisodeRequest, RandomAgent, play_many, play_settings
from dpepo.runs.episodes import write_episodes
from dpepo.training.demonstrations import DemonstrationSet, Renamer, load_demonstrations
from dpepo.types import Episode, Observation, TrainingSample


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    folder = write_model(tmp_path_factory.mktemp("model"))
    config = toy_config(folder, f"model.path={folder}")
    return load_hf(config.model)[1]


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> list[Episode]:
    """Random play in four toy rooms; every observation lists the containers and things it shows as objects."""
    config = toy_config(tmp_path_factory.mktemp("r"))
    world = ToyWorld(observation="compact")
    requests = [EpisodeRequest(task=world.task(f"toy/room/{n}"), seed=n) for n in range(4)]
    with LocalPool(world) as pool:
        played = play_many(
            requests,
            settings=play_settings(config),
            policy=AgentPolicy(RandomAgent()),
            pool=pool,
            prompts=PromptBuilder(config.prompt),
        )
    return [with_objects(episode) for episode in played]


def with_objects(episode: Episode) -> Episode:
    def listed(seen: Observation) -> Observation:
        return seen.model_copy(update={"objects": tuple(seen.text.partition(" : ")[2].split(" , "))})

    turns = []
    for turn in episode.turns:
        steps = tuple(step.model_copy(update={"observation": listed(step.observation)}) for step in turn.steps)
        turns.append(turn.model_copy(update={"steps": steps}))
    return episode.model_copy(update={"turns": tuple(turns), "initial": listed(episode.initial)})


def make_set(
    episodes: Sequence[Episode], tokenizer: PreTrainedTokenizerBase, *, rename: float = 0.0, max_length: int = 256
) -> DemonstrationSet:
    return DemonstrationSet(episodes, tokenizer=tokenizer, max_length=max_length, rename=rename)


def whole(sample: TrainingSample) -> list[int]:
    return [*sample.prompt_token_ids, *sample.token_ids]


def test_a_sample_is_the_prompt_and_the_whole_reply_with_its_end(
    episodes: list[Episode], tokenizer: PreTrainedTokenizerBase
) -> None:
    data = make_set(episodes, tokenizer)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(data) == len(turns) and data.num_dropped == 0
    for index, turn in enumerate(turns):
        sample = data.sample(index, seed="any")
        assert list(sample.prompt_token_ids) == encode_prompt(tokenizer, turn.prompt)
        assert sample.token_ids[-1] == tokenizer.eos_token_id
        said = tokenizer.decode(list(sample.token_ids[:-1]))
        assert isinstance(said, str) and said.split() == turn.completion.text.replace(">", "> ").replace("<", " <").split()
        assert data.lengths[index] == len(whole(sample))


def test_names_are_replaced_alike_in_the_whole_sample_and_goals_are_left_alone(
    episodes: list[Episode], tokenizer: PreTrainedTokenizerBase
) -> None:
    plain, renamed = make_set(episodes, tokenizer), make_set(episodes, tokenizer, rename=1.0)
    turns = [(episode, turn) for episode in episodes for turn in episode.turns]
    changed = 0
    for index, (episode, turn) in enumerate(turns):
        before, after = whole(plain.sample(index, seed="s")), whole(renamed.sample(index, seed="s"))
        assert len(before) == len(after)  # a name is one token
        mapping = dict(zip(before, after, strict=True))
        assert [mapping[token] for token in before] == after  # consistent ...
        assert len(set(mapping.values())) == len(mapping)  # ... and one to one
        prompt = str(tokenizer.decode(list(renamed.sample(index, seed="s").prompt_token_ids)))
        assert episode.goal.removesuffix(".") in prompt
        assert len(turn.prompt.messages) == 1
        changed += before != after
    assert changed > len(turns) / 2


def test_the_seed_decides_about_renaming(episodes: list[Episode], tokenizer: PreTrainedTokenizerBase) -> None:
    data = make_set(episodes, tokenizer, rename=0.5)
    drawn = [data.sample(0, seed=str(n)) for n in range(60)]
    assert drawn == [data.sample(0, seed=str(n)) for n in range(60)]
    plain = make_set(episodes, tokenizer).sample(0, seed="0")
    assert 15 <= sum(sample == plain for sample in drawn) <= 45
    assert len(set(map(str, drawn))) > 15


def test_longer_names_never_push_a_sample_out_of_the_context(
    episodes: list[Episode], tokenizer: PreTrainedTokenizerBase
) -> None:
    """One name is unknown to the tokenizer and takes five tokens where it stands; every sample still fits."""
    first = episodes[0].initial
    long = first.model_copy(update={"objects": (*first.objects, "one two three four five")})
    changed = [episodes[0].model_copy(update={"initial": long}), *episodes[1:]]
    limit = max(make_set(changed, tokenizer).lengths)
    data = make_set(changed, tokenizer, rename=1.0, max_length=limit)
    samples = [data.sample(index, seed=str(n)) for n in range(40) for index in range(len(data))]
    assert max(len(whole(sample)) for sample in samples) == limit


def test_names_in_goals_and_in_the_words_of_a_world_stay(episodes: list[Episode]) -> None:
    episode = episodes[0]
    guide = episode.guide.model_copy(update={"role": "You are an agent in a lab."})
    seen = Observation(text="", objects=("agent", "dove egg", "egg", "axe", "wooden axe", "Dove", "vet", ""))
    renamer = Renamer(
        [episode.model_copy(update={"goal": "Focus on the dove egg, velvet.", "guide": guide, "initial": seen, "turns": ()})]
    )
    renaming = renamer.draw(random.Random(0))
    assert sorted(renaming) == ["axe", "vet", "wooden axe"]
    swapped = {"axe": "wooden axe", "wooden axe": "axe"}
    assert renamer.apply("axe , wooden axe , axes , egg", swapped) == "wooden axe , axe , axes , egg"


def test_without_listed_objects_nothing_is_renamed(episodes: list[Episode], tokenizer: PreTrainedTokenizerBase) -> None:
    bare = [
        episode.model_copy(update={"initial": episode.initial.model_copy(update={"objects": ()}), "turns": episode.turns[:1]})
        for episode in episodes
    ]
    nothing = [e.model_copy(update={"turns": tuple(t.model_copy(update={"steps": ()}) for t in e.turns)}) for e in bare]
    data = make_set(nothing, tokenizer, rename=1.0)
    assert data.sample(0, seed="x") == make_set(nothing, tokenizer).sample(0, seed="y")


def test_a_tokenizer_without_an_end_token_is_refused(episodes: list[Episode], tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    endless = load_hf(toy_config(tmp_path, f"model.path={folder}").model)[1]
    endless.eos_token = None
    with pytest.raises(ConfigError, match="end token"):
        make_set(episodes, endless)


def test_demonstrations_come_from_a_run_folder_or_one_file(episodes: list[Episode], tmp_path: Path) -> None:
    for number in (1, 4):
        file = write_episodes(tmp_path / "run" / "episodes", "synth", number, episodes)
    write_episodes(tmp_path / "run" / "episodes", "eval", 0, episodes)  # never trained on
    assert len(load_demonstrations(str(tmp_path / "run"), progress=Notes())) == 2 * len(episodes)
    assert load_demonstrations(str(file), progress=Notes()) == episodes
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: len(text) - 40], encoding="utf-8")
    notes = Notes()
    assert load_demonstrations(str(file), progress=notes) == episodes[:-1]
    assert len(notes.notes) == 1 and file.name in notes.notes[0]


@pytest.mark.parametrize("source", ["", "nowhere", "."])
def test_nothing_to_learn_from_is_a_wrong_request(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match="dpepo synth"):
        load_demonstrations(source, progress=Notes())
