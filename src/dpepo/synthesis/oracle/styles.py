"""What the searching teachers of all worlds share: which style an episode has, and which of several wordings is used. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from dpepo.config import Style

STYLES = (Style.SEARCH, Style.HYPOTHESIS, Style.FOCUSED)


def style_of(style: Style, *, seed: int) -> Style:
    """The style of one episode: the one asked for, or one drawn where it is mixed.

    Args:
        style: As in ``synth.style``.
        seed: Of the episode (`dpepo.types.EpisodeView.seed`).

    >>> style_of(Style.MIXED, seed=1) == style_of(Style.MIXED, seed=1)
    True
    """
    return random.Random(f"style/{seed}").choice(STYLES) if style is Style.MIXED else style


def say(wordings: Sequence[str], rng: random.Random, **names: object) -> str:
    """One of several wordings, filled in, every sentence begun with a capital letter.

    >>> say(["{env} has {thing}. {env} goes on."], random.Random(0), env="environment 2", thing="the mug")
    'Environment 2 has the mug. Environment 2 goes on.'
    """
    text = rng.choice(wordings).format(**names)
    return re.sub(r"(^|[.?!] )([a-z])", lambda start: start[1] + start[2].upper(), text)
