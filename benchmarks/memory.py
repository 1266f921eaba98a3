"""Peak memory and time of one RL update: all weights or an adapter, layers kept or computed again.

Each way runs in a process of its own, on a model of Qwen2.5's shape with random weights. Usage:

    python benchmarks/memory.py [--tokens 2048] [--micro-tokens 2048] [--layers 12] [--hidden 768]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = {
    "all weights": [],
    "all weights, layers again": ["--again"],
    "adapter, rank 32": ["--rank", "32"],
    "adapter, rank 32, layers again": ["--rank", "32", "--again"],
}


def measure(arguments: argparse.Namespace) -> None:
    """One way, in this process: prints bytes and seconds."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from dpepo.config import ActorConfig, LoraConfig
    from dpepo.learning import Learner, freeze
    from dpepo.policies.lora import add_adapter
    from dpepo.types import TrainingSample

    torch.set_num_threads(1)
    torch.manual_seed(0)
    heads = arguments.hidden // 64
    config = Qwen2Config(
        vocab_size=32_000,
        hidden_size=arguments.hidden,
        intermediate_size=4 * arguments.hidden,
        num_hidden_layers=arguments.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        tie_word_embeddings=True,
    )
    model = Qwen2ForCausalLM(config)
    if arguments.rank:
        model = add_adapter(model, LoraConfig(rank=arguments.rank), base="", seed=0)
    whole = model.get_base_model() if arguments.rank else model
    if arguments.again:
        whole.activation_checkpointing_enable({"use_reentrant": False})
    learner = Learner(model, config=ActorConfig(micro_tokens=arguments.micro_tokens), reference=freeze(model))
    loaded = peak()
    samples = [
        TrainingSample(
            prompt_token_ids=tuple(range(1, 385)),
            token_ids=tuple(range(400, 528)),
            logprobs=(-10.0,) * 128,
            advantage=1.0,
            turn=turn,
        )
        for turn in range(arguments.tokens // 512)
    ]
    samples = [one.model_copy(update={"prompt_token_ids": (one.turn, *one.prompt_token_ids[1:])}) for one in samples]
    began = time.perf_counter()
    learner.update(samples)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{size / 1e6:.0f} {loaded / 2**30:.2f} {peak() / 2**30:.2f} {time.perf_counter() - began:.1f}")


def peak() -> int:
    """Largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure every way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--micro-tokens", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure(arguments)
        return
    print("| way | million weights | GiB before the step | GiB at most | seconds |\n|---|---|---|---|---|")
    for name, extra in WAYS.items():
        words = [sys.executable, __file__, "--one", *sys.argv[1:], *extra]
        with tempfile.TemporaryDirectory() as folder:
            found = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(folder)).stdout.split()
        print(f"| {name} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
