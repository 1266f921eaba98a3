"""Who demonstrates: an agent, or a server's model that has read a few example episodes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol

from dpepo.config import Config, Form, Style
from dpepo.envs import EnvPool
from dpepo.policies import Policy
from dpepo.policies.openai import OpenAIPolicy
from dpepo.rollout import USAGE_FILE, Agent, AgentPolicy, cast_policy
from dpepo.rollout.casting import ORACLE, FindPlans
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis.examples import ExampleEpisode, load_examples, show_examples
from dpepo.types import Completion, Message, Prompt, Request, Sampling, Task, Turn

OPENAI = "openai"
SYSTEM = "system"

HONEST_TEACHERS = {
    "alfworld": "dpepo.synthesis.oracle.alfworld:SearchingAgent",
    "scienceworld": "dpepo.synthesis.oracle.scienceworld:ScienceWorldOracle",
}
"""World to ``module:Class`` of the agent that ``synth.teacher=oracle`` stands for there: one that says and does only what its
texts allow. Other worlds' oracle follows gold actions. The classes are made as `HonestTeacher` says."""


class HonestTeacher(Protocol):
    """How the classes of `HONEST_TEACHERS` are made."""

    def __call__(self, *, style: Style, form: Form, find: FindPlans) -> Agent:
        """Make the agent.

        Args:
            style: How it explores; `dpepo.synthesis.oracle.styles.style_of` draws one where it is mixed.
            form: The shape of its replies.
            find: From task ids to gold actions, for what cannot be found out by searching.
        """
        ...


class FewShotPolicy(Policy):
    """Puts example episodes before every prompt. The episode records the prompt without them: that is what a student reads."""

    def __init__(self, policy: Policy, examples: Sequence[ExampleEpisode]) -> None:
        """Wrap a policy.

        Args:
            policy: Who answers; closed together with this one.
            examples: What it reads first; none leaves prompts as they are.
        """
        self._policy = policy
        self._text = show_examples(examples)
        self.version = policy.version

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """See `Policy.generate`."""
        return self._policy.generate([self._with_examples(request) for request in requests], sampling=sampling)

    def close(self) -> None:
        """Close the policy inside."""
        self._policy.close()

    def _with_examples(self, request: Request) -> Request:
        if not self._text:
            return request
        first, *rest = request.prompt.messages
        if first.role == SYSTEM:
            messages = (Message(role=SYSTEM, content=f"{first.content}\n\n{self._text}"), *rest)
        else:
            messages = (Message(role=SYSTEM, content=self._text), first, *rest)
        return request.model_copy(update={"prompt": Prompt(messages=messages)})


def load_teacher(config: Config, tasks: Sequence[Task], *, pool: EnvPool, run: RunFolder) -> Policy:
    """The teacher that ``synth.teacher`` names.

    Raises:
        RequestError: No such agent, no gold actions, or no server is named.
    """
    if config.synth.teacher == OPENAI:
        examples = load_examples(config.env.world)[: config.synth.examples]
        return FewShotPolicy(OpenAIPolicy(config.server, ledger=run.path / USAGE_FILE), examples)
    if config.synth.teacher == ORACLE and config.env.world in HONEST_TEACHERS:
        return AgentPolicy(honest_teacher(config, find=pool.expert_many))
    return cast_policy(config.synth.teacher, tasks, config=config, pool=pool, key="synth.teacher", ledger=run.path / USAGE_FILE)


def honest_teacher(config: Config, *, find: FindPlans) -> Agent:
    """The searching agent of the world, which must be one of `HONEST_TEACHERS`."""
    module, _, name = HONEST_TEACHERS[config.env.world].partition(":")
    make: HonestTeacher = getattr(import_module(module), name)
    return make(style=config.synth.style, form=config.prompt.form, find=find)


def token_counter(config: Config) -> Callable[[Turn], int] | None:
    """What counts the tokens of a turn, by the tokenizer of ``model.path``; None where no length is asked for.

    Raises:
        ConfigError: A length is asked for, and ``model.path`` has no tokenizer.
    """
    if not config.synth.max_length:
        return None
    from dpepo.policies.models import load_tokenizer
    from dpepo.protocol import encode_prompt

    tokenizer = load_tokenizer(config.model)

    def count(turn: Turn) -> int:
        reply = tokenizer(turn.completion.text, add_special_tokens=False)["input_ids"]
        return len(encode_prompt(tokenizer, turn.prompt)) + len(reply) + 1  # and the end token

    return count
