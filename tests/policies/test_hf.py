from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from dpepo.config import Memory, PromptConfig
from dpepo.envs import LocalPool, load_world
from dpepo.errors import ConfigError
from dpepo.policies import HfPolicy, Policy
from dpepo.policies.hf import stop_token_ids
from dpepo.protocol import PromptBuilder, encode_prompt
from dpepo.protocol.reply import format_reply
from dpepo.rollout import PlaySettings, play_groups
from dpepo.types import (
    Completion,
    EpisodeView,
    FinishReason,
    Message,
    Observation,
    Prompt,
    Request,
    Sampling,
    StopReason,
    WorldGuide,
)

TEMPLATE = (
    "{% for message in messages %}<start> {{ message.role }} {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<start> assistant {% endif %}"
)
WORDS = ["<pad>", "<unk>", "<start>", "<end>", "user", "assistant", *(f"w{index}" for index in range(42))]
VIEW = EpisodeView(goal="g", guide=WorldGuide(role="r"), initial=Observation(text="t"), num_envs=1)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """48 words; <end> is the end token."""
    core = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = WhitespaceSplit()
    made = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core, eos_token="<end>", pad_token="<pad>", unk_token="<unk>"
    )
    made.add_special_tokens({"additional_special_tokens": ["<start>"]})
    made.chat_template = TEMPLATE
    return made


def tiny_model(*, seed: int = 0, spread: float = 0.3, max_positions: int = 512) -> Qwen2ForCausalLM:
    """A random Qwen2 whose scores differ enough for replies to depend on their prompts."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_positions,
        initializer_range=spread,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    model.train(False)
    return model


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return tiny_model()


@pytest.fixture
def make_policy(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> Callable[..., HfPolicy]:
    def make(**options: Any) -> HfPolicy:
        return HfPolicy(model, tokenizer, encode=encode_prompt, **{"max_length": 400, **options})

    return make


def folder_settings(**values: Any) -> GenerationConfig:
    """What a model folder's generation_config.json would say."""
    return GenerationConfig(**values)  # type: ignore[no-untyped-call]


def words(count: int, *, start: int = 0) -> str:
    return " ".join(f"w{(start + 5 * index) % 42}" for index in range(count))


def ask(text: str, *, seed: int = 0) -> Request:
    return Request(prompt=Prompt(messages=(Message(role="user", content=text),)), view=VIEW, seed=seed)


def asks(lengths: Sequence[int]) -> list[Request]:
    return [ask(words(length, start=index), seed=100 + index) for index, length in enumerate(lengths)]


def test_the_ids_returned_are_those_sampled_with_one_logprob_each(
    make_policy: Callable[..., HfPolicy], tokenizer: PreTrainedTokenizerFast, model: Qwen2ForCausalLM
) -> None:
    """T01, T09: scored again by a plain forward pass at the sampling temperature, prompt and reply ids give the log-probs."""
    requests = asks([5, 40, 17])
    for request, completion in zip(requests, make_policy().generate(requests, sampling=Sampling(temperature=0.4)), strict=True):
        assert list(completion.prompt_token_ids) == encode_prompt(tokenizer, request.prompt)
        ids = torch.tensor([[*completion.prompt_token_ids, *completion.token_ids]])
        with torch.no_grad():
            scores = torch.log_softmax(model(input_ids=ids).logits[0] / 0.4, dim=-1)
        reply_scores = scores[len(completion.prompt_token_ids) - 1 : -1]
        again = [float(row[token]) for row, token in zip(reply_scores, completion.token_ids, strict=True)]
        assert completion.logprobs == pytest.approx(again, abs=1e-4)


def test_tokens_that_encode_otherwise_keep_their_own_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    """T01: a reply of <unk> decodes to a text that encodes to other ids; the completion still holds what was sampled."""
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight[WORDS.index("<unk>")] *= 50  # now wins or loses every time
        model.lm_head.weight[WORDS.index("<end>")] = 0
    policy = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=400)
    completions = policy.generate(asks([4, 5, 6, 7, 8, 9]), sampling=Sampling(max_new_tokens=6))
    assert any(tokenizer.unk_token_id in completion.token_ids for completion in completions)
    for completion in completions:
        assert len(completion.token_ids) == len(completion.logprobs)
        assert completion.text == tokenizer.decode(
            [token for token in completion.token_ids if token != tokenizer.eos_token_id], skip_special_tokens=False
        )


def test_a_reply_does_not_depend_on_its_neighbours(make_policy: Callable[..., HfPolicy]) -> None:
    """T05: alone, in one batch, in small batches and in another order, every request gets the same ids."""
    requests = asks([60, 3, 25, 25, 8, 110, 41, 2])
    sampling = Sampling(temperature=0.8, max_new_tokens=20)
    together = [completion.token_ids for completion in make_policy().generate(requests, sampling=sampling)]
    alone = [make_policy().generate([request], sampling=sampling)[0].token_ids for request in requests]
    small = [completion.token_ids for completion in make_policy(batch_size=3).generate(requests, sampling=sampling)]
    backwards = [completion.token_ids for completion in make_policy().generate(requests[::-1], sampling=sampling)]
    assert together == alone == small == backwards[::-1]


def test_randomness_comes_from_the_seed_and_from_nowhere_else(make_policy: Callable[..., HfPolicy]) -> None:
    """T08: same seed, same reply, whatever the global generators do; they are left as they were."""
    same = [ask(words(12), seed=5), ask(words(12), seed=5), ask(words(12), seed=6)]
    torch.manual_seed(1)
    before = (str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist())
    first, second, third = make_policy().generate(same, sampling=Sampling(max_new_tokens=30))
    assert (str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist()) == before
    assert first.token_ids == second.token_ids
    assert first.token_ids != third.token_ids


def test_generation_settings_of_the_model_folder_never_apply(tokenizer: PreTrainedTokenizerFast) -> None:
    """T08: the folder says temperature 0.1, top_k 1, repetition 1.1; 1.0 is asked for and done, in eight ways."""
    model = tiny_model(spread=0.02)  # nearly flat scores
    plain = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=400)
    requests = [ask(words(10), seed=seed) for seed in range(8)]
    before = plain.generate(requests, sampling=Sampling(temperature=1.0, max_new_tokens=12))
    model.generation_config = folder_settings(
        do_sample=True, temperature=0.1, top_k=1, repetition_penalty=1.1, max_new_tokens=2, eos_token_id=7
    )
    policy = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=400)
    after = policy.generate(requests, sampling=Sampling(temperature=1.0, max_new_tokens=12))
    assert after == before
    assert len({completion.token_ids for completion in after}) == 8
    settings = policy.settings(Sampling(temperature=1.0))
    assert (settings["temperature"], settings["top_k"], settings["repetition_penalty"]) == (1.0, None, 1.0)
    assert settings["ignored"] == {
        "do_sample": True,
        "temperature": 0.1,
        "top_k": 1,
        "repetition_penalty": 1.1,
        "max_new_tokens": 2,
    }


def test_what_is_drawn_follows_the_models_distribution(model: Qwen2ForCausalLM, make_policy: Callable[..., HfPolicy]) -> None:
    """T08: 4,000 first tokens at temperature 0.7 have the shares the softmax says."""
    requests = [ask(words(9), seed=seed) for seed in range(4000)]
    completions = make_policy(batch_size=1000).generate(requests, sampling=Sampling(temperature=0.7, max_new_tokens=1))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([completions[0].prompt_token_ids])).logits[0, -1]
    shares = torch.softmax(logits / 0.7, dim=-1)
    drawn = torch.bincount(torch.tensor([completion.token_ids[0] for completion in completions]), minlength=len(shares)) / 4000
    assert float((shares - drawn).abs().sum()) / 2 < 0.05


def test_greedy_replies_are_the_models_best_tokens(model: Qwen2ForCausalLM, make_policy: Callable[..., HfPolicy]) -> None:
    first, second = make_policy().generate([ask(words(9), seed=1), ask(words(9), seed=2)], sampling=Sampling(temperature=0))
    assert first.token_ids == second.token_ids
    with torch.no_grad():
        ids = torch.tensor([[*first.prompt_token_ids, *first.token_ids]])
        best = model(input_ids=ids).logits[0, len(first.prompt_token_ids) - 1 : -1].argmax(-1)
    assert first.token_ids == tuple(best.tolist())


def test_a_reply_shrinks_to_what_fits_and_a_full_context_ends_only_its_own_episode(
    make_policy: Callable[..., HfPolicy], tokenizer: PreTrainedTokenizerFast
) -> None:
    """B08, B07: length 128: a prompt of 100 with 50 wanted gets at most 28; one of 128 or 140 is refused whole, never cut."""
    frame = len(encode_prompt(tokenizer, ask("").prompt))
    requests = [ask(words(length - frame), seed=3) for length in (100, 128, 140, 127, 20)]
    policy = make_policy(max_length=128)
    policy.stop_ids = frozenset()
    policy._decoder._stops = torch.tensor([], dtype=torch.long)
    fits, full, over, last, short = policy.generate(requests, sampling=Sampling(max_new_tokens=50))
    assert [len(completion.prompt_token_ids) for completion in (fits, full, over, last, short)] == [100, 128, 140, 127, 20]
    assert [len(completion.token_ids) for completion in (fits, full, over, last, short)] == [28, 0, 0, 1, 50]
    assert (full.finish, over.finish) == (FinishReason.CONTEXT_FULL, FinishReason.CONTEXT_FULL)
    assert full.logprobs == ()


def test_the_models_own_context_limit_holds_too(tokenizer: PreTrainedTokenizerFast) -> None:
    """B08: max_length 400 asked, but the model was made for 64 positions."""
    policy = HfPolicy(tiny_model(max_positions=64), tokenizer, encode=encode_prompt, max_length=400)
    short, long = policy.generate([ask(words(50), seed=1), ask(words(80), seed=1)], sampling=Sampling(max_new_tokens=100))
    assert len(short.prompt_token_ids) + len(short.token_ids) <= 64
    assert long.finish is FinishReason.CONTEXT_FULL


def test_nothing_asked_nothing_answered(make_policy: Callable[..., HfPolicy]) -> None:
    assert make_policy().generate([], sampling=Sampling()) == []


def test_the_end_token_is_an_id_but_not_text(make_policy: Callable[..., HfPolicy], tokenizer: PreTrainedTokenizerFast) -> None:
    """T02, T07: a reply that is only the end token has one id, one log-prob and an empty text."""
    requests = [ask(words(6 + seed % 3), seed=seed) for seed in range(300)]
    completions = make_policy(batch_size=300).generate(requests, sampling=Sampling(temperature=1.5, max_new_tokens=4))
    stopped = [completion for completion in completions if completion.finish is FinishReason.STOP]
    assert stopped
    assert all(completion.token_ids[-1] == tokenizer.eos_token_id and "<end>" not in completion.text for completion in stopped)
    empty = [completion for completion in stopped if len(completion.token_ids) == 1]
    assert empty
    assert all(completion.text == "" and len(completion.logprobs) == 1 for completion in empty)
    assert all(completion.finish is FinishReason.LENGTH for completion in completions if completion not in stopped)


def test_scores_that_are_not_finite_become_an_error_of_that_reply(tokenizer: PreTrainedTokenizerFast) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    [completion] = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=100).generate([ask("w1")], sampling=Sampling())
    assert completion.finish is FinishReason.ERROR
    assert "not finite at token 1" in completion.error
    assert completion.token_ids == ()


def test_a_model_in_training_samples_without_dropout_and_goes_on_training(tokenizer: PreTrainedTokenizerFast) -> None:
    model = tiny_model()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    policy = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=100)
    resting = policy.generate(asks([5, 9]), sampling=Sampling(max_new_tokens=10))
    model.train()
    assert policy.generate(asks([5, 9]), sampling=Sampling(max_new_tokens=10)) == resting
    assert model.training
    assert not any(parameter.grad_fn for parameter in model.parameters())


def test_weights_changed_between_calls_are_the_weights_that_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    model = tiny_model()
    policy = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=100)
    before = policy.generate(asks([9]), sampling=Sampling(temperature=0, max_new_tokens=10))
    with torch.no_grad():
        for parameter, other in zip(model.parameters(), tiny_model(seed=1).parameters(), strict=True):
            parameter.copy_(other)
    assert policy.generate(asks([9]), sampling=Sampling(temperature=0, max_new_tokens=10)) != before


def test_end_tokens_come_from_tokenizer_template_and_folder_but_never_a_plain_word(tokenizer: PreTrainedTokenizerFast) -> None:
    """T08: a model class that brings eos 2 by default must not make an ordinary word end every reply."""
    model = tiny_model()
    end, start = WORDS.index("<end>"), WORDS.index("<start>")
    model.generation_config = folder_settings(eos_token_id=[start, WORDS.index("w5")])
    assert stop_token_ids(tokenizer, model) == {end, start}
    other = copy.deepcopy(tokenizer)
    other.eos_token = "<pad>"
    model.generation_config = folder_settings()
    assert stop_token_ids(other, model) == {end, WORDS.index("<pad>")}


def test_a_policy_that_could_never_stop_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    bare = copy.deepcopy(tokenizer)
    bare.chat_template = None
    bare.eos_token = None
    with pytest.raises(ConfigError, match="end token"):
        HfPolicy(tiny_model(), bare, encode=encode_prompt, max_length=100)


class Wordy(Policy):
    """Lets a model answer, then puts other words in its mouth: with an even first seed, eight looks a turn."""

    def __init__(self, inner: HfPolicy) -> None:
        self._inner = inner

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        completions = self._inner.generate(requests, sampling=sampling)
        return [self._reworded(request, answer) for request, answer in zip(requests, completions, strict=True)]

    def _reworded(self, request: Request, answer: Completion) -> Completion:
        turns = request.view.turns
        talks = any(turns) if turns else request.seed % 2 == 0
        if answer.finish is FinishReason.CONTEXT_FULL or not talks:
            return answer
        return answer.model_copy(update={"text": format_reply("t", dict.fromkeys(range(1, 9), "look"))})


def test_a_history_that_outgrows_the_context_ends_its_own_episode_only(tokenizer: PreTrainedTokenizerFast) -> None:
    """B08, T07: K = 8 and 25 turns; talkative episodes end "context full", silent ones beside them play to the last turn."""
    policy = HfPolicy(tiny_model(max_positions=4096), tokenizer, encode=encode_prompt, max_length=2000)
    with load_world("toy", {}) as world:
        groups = play_groups(
            world.tasks("train")[:2],
            group_size=4,
            seed=0,
            settings=PlaySettings(num_envs=8, max_turns=25, sampling=Sampling(max_new_tokens=4)),
            policy=Wordy(policy),
            pool=LocalPool(world),
            prompts=PromptBuilder(PromptConfig(memory=Memory.FULL)),
        )
    episodes = [episode for group in groups for episode in group]
    talkative = [episode for episode in episodes if episode.num_actions]
    assert 0 < len(talkative) < len(episodes)
    for episode in episodes:
        assert episode.stop is (StopReason.CONTEXT_FULL if episode in talkative else StopReason.MAX_TURNS)
        assert episode.outcome == 0.0
        assert all(len(turn.completion.token_ids) == len(turn.completion.logprobs) > 0 for turn in episode.turns)
        longest = max(len(turn.completion.prompt_token_ids) + len(turn.completion.token_ids) for turn in episode.turns)
        assert longest <= 2000


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft 0.21 on transformers 5.24
def test_a_model_with_adapters_answers_too(tokenizer: PreTrainedTokenizerFast) -> None:
    peft = pytest.importorskip("peft")
    bare = HfPolicy(tiny_model(), tokenizer, encode=encode_prompt, max_length=400)
    adapted_model = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=True))
    adapted = HfPolicy(adapted_model, tokenizer, encode=encode_prompt, max_length=400)
    sampling = Sampling(max_new_tokens=10)
    bare_ids, adapted_ids = (
        [completion.token_ids for completion in policy.generate(asks([5, 9]), sampling=sampling)] for policy in (bare, adapted)
    )
    assert adapted_ids == bare_ids  # a fresh adapter changes nothing
