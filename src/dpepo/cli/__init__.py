"""The command line: ``dpepo <job> [RECIPE.yaml] [section.key=value ...]``."""

from dpepo.cli.app import app, main

__all__ = ["app", "main"]
