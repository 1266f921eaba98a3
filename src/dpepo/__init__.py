"""Train LLM agents that explore several copies of a task at once (DPEPO, arXiv 2604.24320)."""

__version__ = "0.1.0.dev0"
