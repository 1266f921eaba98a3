"""What the agent and the worlds say to each other: the prompt (`PromptBuilder`), the parser (`parse_reply`) and its inverse."""

from dpepo.protocol.memory import EnvironmentMemory, PastStep, Recollection, recall
from dpepo.protocol.parser import parse_reply
from dpepo.protocol.prompt import PromptBuilder
from dpepo.protocol.reply import format_reply
from dpepo.protocol.tokens import ChatTokenizer, encode_prompt

__all__ = [
    "ChatTokenizer",
    "EnvironmentMemory",
    "PastStep",
    "PromptBuilder",
    "Recollection",
    "encode_prompt",
    "format_reply",
    "parse_reply",
    "recall",
]
