"""What a person may choose about a picture."""

from __future__ import annotations

from enum import StrEnum

from dpepo.types import Record


class Band(StrEnum):
    """What the band around a learning curve is."""

    RANGE = "range"  # from the lowest to the highest seed
    T = "t"  # Student's 95 % interval of the mean over seeds


class Options(Record):
    """Choices; the defaults suit every kind of picture."""

    way: str = ""  # the way of playing that is shown; empty: the first that was played
    metric: str = "episode/success_rate"  # of learning curves: a name of docs/metrics.md
    smooth: int = 5  # steps that one point of a learning curve is the mean of
    band: Band = Band.RANGE
    tokenizer: str = ""  # of prompt lengths: a model folder; empty: words are counted
    templates: str = ""  # of prompt lengths: a template set; empty: that of the run
    episodes: int = 200  # of prompt lengths: at most so many episodes, evenly spaced
