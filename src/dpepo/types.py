"""What flows through the system, stage by stage, as frozen records.

``Task -> Episode(turns: Turn(prompt, completion, reply, steps)) -> ScoredEpisode -> EpisodeGroup -> TurnAdvantages ->
TrainingSample``. Each stage is a type of its own and nothing is filled in later. A bad reply and a broken environment are
values here (`ReplyProblem`, `Observation.failure`, `StopReason`), never exceptions. Pure data: importing this starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Record(BaseModel):
    """Base of all records: immutable, keyword-only, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(Record):
    """One problem, by name."""

    id: str  # e.g. "scienceworld/boil/17"; the same string always means the same initial state
    world: str  # the registered world that plays it, e.g. "scienceworld"
    name: str  # the task type inside that world, e.g. "boil"; tables group by it
    split: str = ""  # "train", "dev", "test" or another list it belongs to; empty when unknown


class Observation(Record):
    """What one environment shows after a reset or an action."""

    text: str
    admissible_actions: tuple[str, ...] = ()  # complete actions, or templates such as "open OBJ" where the world says so
    objects: tuple[str, ...] = ()  # names that may stand for OBJ; empty where actions are complete
    score: float = 0.0  # the world's own scale (ScienceWorld: -100..100); never the training reward
    success: bool = False  # the goal is reached; not the same as `ended`
    ended: bool = False  # no further action is accepted
    valid: bool = True  # False when the world did not understand the last action
    state: str = ""  # the simulator's own fingerprint of its state; empty where it has none
    failure: str = ""  # "Type: message" when the environment broke (then `ended` is True); empty otherwise

    @field_validator("admissible_actions", "objects", mode="before")
    @classmethod
    def _text_is_lines(cls, value: object) -> object:
        """A text where a list belongs is one item per line, never one per character."""
        return tuple(line for line in value.splitlines() if line.strip()) if isinstance(value, str) else value


class ActionTemplate(Record):
    """One form of action a world understands, with a word of explanation."""

    template: str  # e.g. "open OBJ"
    help: str = ""  # e.g. "open a container or door"


class WorldGuide(Record):
    """What a prompt and the counting of actions need to know about a world as a whole."""

    role: str  # one sentence: who the agent is and where
    action_templates: tuple[ActionTemplate, ...] = ()  # shown once per prompt when observations list objects
    hidden_actions: tuple[str, ...] = ()  # admissible but never offered (ALFWorld: "help")
    free_actions: tuple[str, ...] = ()  # repeats across environments are not charged (ALFWorld: "look")


class Message(Record):
    """One chat message."""

    role: str  # "system", "user" or "assistant"
    content: str


class Prompt(Record):
    """What the policy reads at one turn: at most one system message, then one user message."""

    messages: tuple[Message, ...]


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # the model ended its reply
    LENGTH = "length"  # the limit on new tokens was reached
    CONTEXT_FULL = "context_full"  # prompt leaves no room for a reply; nothing was generated
    ERROR = "error"  # the policy could not answer (a server gave up); `Completion.error` says why


class Completion(Record):
    """A policy's answer to one prompt. Ids and log-probabilities are those sampled, never re-encoded text."""

    text: str
    finish: FinishReason
    prompt_token_ids: tuple[int, ...] = ()  # P ids; empty for text-only policies
    token_ids: tuple[int, ...] = ()  # L ids, the end-of-turn token included when it was sampled
    logprobs: tuple[float, ...] = ()  # L natural logs, at the sampling temperature
    num_prompt_tokens: int = 0  # as a text-only server counted them; 0 where the ids above are there, or nobody counted
    num_reply_tokens: int = 0
    error: str = ""

    @property
    def prompt_length(self) -> int:
        """Tokens of the prompt; 0 where nobody counted."""
        return len(self.prompt_token_ids) or self.num_prompt_tokens

    @property
    def reply_length(self) -> int:
        """Tokens of the reply; 0 where nobody counted."""
        return len(self.token_ids) or self.num_reply_tokens


class ReplyProblem(StrEnum):
    """What was wrong with a reply; several may hold at once. Counted, never raised."""

    NO_ACTION = "no_action"  # nothing in the reply can be executed
    UNCLOSED_THINK = "unclosed_think"
    MULTIPLE_THINK = "multiple_think"
    MISSING_THINK = "missing_think"
    MISSING_PARALLEL = "missing_parallel"  # no <parallel> block (sequential form: no <action>)
    MULTIPLE_PARALLEL = "multiple_parallel"
    UNCLOSED_PARALLEL = "unclosed_parallel"
    UNCLOSED_ENV = "unclosed_env"  # an <env_i> without its end; its text is never sent
    DUPLICATE_ENV = "duplicate_env"  # the same environment addressed twice; the first counts
    BAD_ENV_ID = "bad_env_id"  # 0, negative, leading zero or not a number
    OVER_LIMIT = "over_limit"  # an environment above K
    EMPTY_ACTION = "empty_action"
    STRAY_TEXT = "stray_text"  # text outside the tags


class Step(Record):
    """One action done in one environment, and the answer."""

    env_id: int  # 1..K
    action: str
    observation: Observation


class EpisodeView(Record):
    """What a prompt is built from: an episode as it stands before the next turn."""

    goal: str
    guide: WorldGuide
    initial: Observation
    turns: tuple[tuple[Step, ...], ...] = ()  # executed steps of each finished turn
    num_envs: int | None  # K; None: as many as the agent asks for
    task_id: str = ""  # for oracles, which look plans up; no prompt shows it
    seed: int = 0  # of the episode, equal at all its turns, for agents that settle on a manner; no prompt shows it


class Request(Record):
    """One question to a policy."""

    prompt: Prompt
    view: EpisodeView  # what the prompt was built from, for agents that are not language models
    seed: int  # everything random about this reply


class Sampling(Record):
    """How a reply is drawn."""

    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    max_new_tokens: int = 256


class ParsedReply(Record):
    """A reply, taken apart."""

    thought: str
    actions: Mapping[int, str]  # env id (1..K) to execution-ready action, in id order
    problems: tuple[ReplyProblem, ...] = ()  # distinct, in order of the enum
    messages: tuple[str, ...] = ()  # one sentence per problem found, naming ids and allowed ranges


class Turn(Record):
    """One model call and what came of it."""

    prompt: Prompt
    completion: Completion
    reply: ParsedReply
    steps: tuple[Step, ...]  # executed actions only, by env id; actions for ended environments are not executed
    seconds: float = 0.0  # wall time of sampling and stepping this turn, shared batches divided evenly
    env_seconds: float = 0.0  # of these, in the environments; 0 where nobody measured


class StopReason(StrEnum):
    """Why an episode ended."""

    SUCCESS = "success"
    ALL_ENDED = "all_ended"  # every environment ended without success
    MAX_TURNS = "max_turns"
    CONTEXT_FULL = "context_full"
    OVER_LIMIT = "over_limit"  # an environment above K was asked for, under over_limit: fail
    ENV_FAILED = "env_failed"  # no environment is left and at least one broke: left out of all statistics
    POLICY_FAILED = "policy_failed"  # the policy could not answer: left out of all statistics


LOST = frozenset({StopReason.ENV_FAILED, StopReason.POLICY_FAILED})


class Episode(Record):
    """The turns of one agent on one task."""

    task: Task
    goal: str  # the task in words, as the world states it
    guide: WorldGuide
    num_envs: int = Field(ge=1)  # K
    max_turns: int = Field(ge=1)  # T
    seed: int
    sibling: int = 0  # 0..N-1 inside its group
    initial: Observation  # the same for all K copies
    turns: tuple[Turn, ...]
    stop: StopReason
    error: str = ""  # what broke, for ENV_FAILED and POLICY_FAILED

    @property
    def success(self) -> bool:
        """Whether any environment reached the goal."""
        return any(step.observation.success for turn in self.turns for step in turn.steps)

    @property
    def outcome(self) -> float | None:
        """R_traj: 1 if any environment succeeded, else 0; None for an episode lost to a fault (docs/algorithms.md)."""
        return None if self.stop in LOST else float(self.success)

    @property
    def num_actions(self) -> int:
        """Actions executed in all environments together."""
        return sum(len(turn.steps) for turn in self.turns)


class StepReward(Record):
    """The diversity reward of one turn and the integer counts behind it (words of docs/algorithms.md)."""

    value: float  # R_step in (0, 2] (scale "equations") or W in (0, 1] (scales "reference*")
    scale: str
    num_actions: int  # addressed environments with an action, |E'|
    c_width: int = 0  # |A_t| - |distinct A_t|
    c_depth: Mapping[int, int] = Field(default_factory=dict)  # env id to earlier occurrences of its action
    m_depth: Mapping[int, int] = Field(default_factory=dict)  # env id to earlier occurrences of its transition
    m_width: Mapping[int, int] = Field(default_factory=dict)  # env id to occurrences elsewhere, by `width_count`
    num_invalid: int | None = None  # None where the world does not report invalid actions


class ScoredEpisode(Record):
    """An episode with its rewards."""

    episode: Episode
    outcome: float | None  # R_traj (or a process reward in [0, 1] where one is configured); None: left out
    step_rewards: tuple[StepReward, ...]  # one per turn


class EpisodeGroup(Record):
    """N sibling episodes of one task, sampled from one policy. Groups are made by task position in the batch, never by text."""

    task: Task
    siblings: tuple[ScoredEpisode, ...]


class TurnAdvantages(Record):
    """A group with an advantage for every turn of every sibling."""

    group: EpisodeGroup
    trajectory: tuple[float | None, ...]  # Phi_traj per sibling; None: left out
    turns: tuple[tuple[float, ...], ...]  # Phi per sibling and turn; empty for a sibling left out
    returns: tuple[tuple[float, ...], ...] = ()  # what the value head should have said, per sibling and turn (PPO)


class TrainingSample(Record):
    """One turn as the learner sees it: every token of the reply carries the same advantage."""

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # of the sampler, one per token id; zeros for demonstrations
    advantage: float  # 1.0 for demonstrations
    value: float = 0.0  # V of the prompt when the episode was played (PPO)
    value_target: float | None = None  # what V should have been; None where no value is learnt
    group: int = 0  # position of its group in the step
    sibling: int = 0
    turn: int = 0
