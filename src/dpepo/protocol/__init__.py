"""What the agent and the worlds say to each other: the prompt (`PromptBuilder`) and the parser (`parse_reply`)."""

from dpepo.protocol.memory import EnvironmentMemory, PastStep, Recollection, recall
from dpepo.protocol.parser import parse_reply
from dpepo.protocol.prompt import PromptBuilder
from dpepo.protocol.tokens import ChatTokenizer, encode_prompt

__all__ = [
    "ChatTokenizer",
    "EnvironmentMemory",
    "PastStep",
    "PromptBuilder",
    "Recollection",
    "encode_prompt",
    "parse_reply",
    "recall",
]
