from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from dpepo.config import Config, ModelConfig, OverLimit, SamplingConfig
from dpepo.policies import load_hf
from dpepo.rollout import load_policy, play_episode, play_settings
from dpepo.types import Sampling

WORDS = ["<unk>", "<start>", "<end>", "look", "open", "box"]


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A saved tiny model whose folder asks for near-greedy sampling."""
    core = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core, eos_token="<end>", unk_token="<unk>"
    )
    tokenizer.chat_template = "{% for m in messages %}<start> {{ m.content }} <end> {% endfor %}<start> "
    tokenizer.save_pretrained(tmp_path)
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    own = {"do_sample": True, "temperature": 0.1, "top_k": 1, "repetition_penalty": 1.1, "eos_token_id": 3}
    (tmp_path / "generation_config.json").write_text(json.dumps(own))
    return tmp_path


def test_a_loaded_model_plays_with_the_configured_sampling_only(model_folder: Path) -> None:
    """T08: the folder's temperature, top_k, penalty and its end token "look" have no effect; siblings differ."""
    config = ModelConfig(path=str(model_folder), device="cpu", max_length=1024)
    policy = load_policy(config, sampling=SamplingConfig(batch_size=4))
    sampling = Sampling(temperature=1.0, max_new_tokens=12)
    settings = policy.settings(sampling)
    assert (settings["temperature"], settings["top_k"], settings["stop_ids"]) == (1.0, None, [2])
    assert settings["ignored"] == {"do_sample": True, "temperature": 0.1, "top_k": 1, "repetition_penalty": 1.1}
    assert policy.version == str(model_folder)
    texts = set()
    for sibling in range(8):
        episode = play_episode("toy/room/0", policy=policy, num_envs=2, max_turns=1, sibling=sibling, sampling=sampling)
        texts.add(episode.turns[0].completion.text)
    assert len(texts) >= 5


def test_a_tokenizer_comes_back_as_it_was_saved(model_folder: Path) -> None:
    """T01: AutoTokenizer would turn this vocabulary into a Qwen2 tokenizer, under which known words encode to nothing."""
    _, tokenizer = load_hf(ModelConfig(path=str(model_folder), device="cpu"))
    assert tokenizer.encode("open box") == [4, 5]
    assert tokenizer.decode([4, 5, 3]) == "open box look"


def test_settings_come_from_the_configuration_unless_given() -> None:
    config = Config.model_validate(
        {
            "env": {"num_envs": 3},
            "rollout": {"max_turns": 7},
            "sampling": {"temperature": 0.3, "top_p": 0.9, "max_new_tokens": 5},
        }
    )
    own = play_settings(config)
    assert (own.num_envs, own.max_turns, own.over_limit) == (3, 7, OverLimit.IGNORE)
    assert own.sampling == Sampling(temperature=0.3, top_p=0.9, max_new_tokens=5)
    other = play_settings(config, num_envs=1, temperature=0.0, over_limit=OverLimit.FAIL)
    assert (other.num_envs, other.sampling.temperature, other.over_limit) == (1, 0.0, OverLimit.FAIL)
