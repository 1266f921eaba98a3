"""What a sweep file says. docs/sweeps.md describes the form for users; reading one starts nothing.

Settings are written as on the command line (``train.steps=30``), so that there is one way to say them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, StringConstraints, ValidationError, model_validator

from dpepo.config import Section
from dpepo.errors import ConfigError, did_you_mean
from dpepo.types import Record

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]  # it becomes the name of a folder
Settings = tuple[str, ...]  # each "section.key=value"


class Variant(Section):
    """One column of the comparison: other settings for training and evaluation, from a cold start that others share."""

    name: Name
    label: str = ""  # how tables call it; empty: its name
    settings: Settings = ()
    train: bool = True  # False: the cold start itself is evaluated
    cold_start: str = ""  # name of a cold start; empty: the first one, or none where the sweep has none

    @property
    def title(self) -> str:
        """How tables call it."""
        return self.label or self.name


class Evaluation(Section):
    """One way of playing that every variant is evaluated by."""

    name: Name
    label: str = ""
    settings: Settings = ()
    tries: tuple[Annotated[int, Field(ge=1)], ...] = Field((1,), min_length=1)  # k of the pass@k in the table; 1: success rate

    @property
    def title(self) -> str:
        """How tables call it."""
        return self.label or self.name


class SweepSpec(Section):
    """A sweep file."""

    title: str = "Sweep"
    notes: tuple[str, ...] = ()  # paragraphs above the table
    recipe: str = ""  # recipe of every job, relative to the sweep file; empty: defaults
    settings: Settings = ()  # over the recipe, for every job
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0,), min_length=1)
    cold_starts: dict[Name, Settings] = Field(default_factory=dict)  # synth and sft, once per seed each
    variants: tuple[Variant, ...] = Field(min_length=1)
    evaluate: tuple[Evaluation, ...] = Field(min_length=1)
    baseline: str = ""  # name of the variant that others are compared with, seed by seed; empty: no comparison

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        for what, names in (("variants", [v.name for v in self.variants]), ("evaluate", [e.name for e in self.evaluate])):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what}: the name {twice[0]} is used twice")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: one is listed twice")
        for variant in self.variants:
            if variant.cold_start and variant.cold_start not in self.cold_starts:
                raise ValueError(
                    f"there is no cold start {variant.cold_start!r}. {did_you_mean(variant.cold_start, self.cold_starts)}"
                )
        names = [variant.name for variant in self.variants]
        if self.baseline and self.baseline not in names:
            raise ValueError(f"baseline: there is no variant {self.baseline!r}. {did_you_mean(self.baseline, names)}")
        return self


class Sweep(Record):
    """A sweep as read."""

    spec: SweepSpec
    file: Path
    text: str  # the file as it is

    @property
    def recipe(self) -> Path | None:
        """Where the recipe of every job is; None for defaults."""
        return self.file.parent / self.spec.recipe if self.spec.recipe else None


def load_sweep(file: Path, settings: Sequence[str] = ()) -> Sweep:
    """Read a sweep file.

    Args:
        file: The YAML file.
        settings: Further ``section.key=value`` for every job; they win over the file's ``settings``, not over a variant's.

    Raises:
        ConfigError: It cannot be read or says something that a sweep does not know.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = yaml.safe_load(text)
    except FileNotFoundError:
        raise ConfigError(f"There is no sweep file {file}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the sweep file {file}: {error}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict) or "variants" not in content:
        raise ConfigError(f"{file} is no sweep file: it has no list of variants. docs/sweeps.md shows the form.")
    try:
        spec = SweepSpec.model_validate(content)
    except ValidationError as error:
        raise ConfigError("\n".join([f"{file}:", *(f"  - {_problem(details)}" for details in error.errors())])) from None
    return Sweep(spec=spec.model_copy(update={"settings": (*spec.settings, *settings)}), file=file, text=text)


def _problem(details: Any) -> str:
    place = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        known = [*SweepSpec.model_fields, *Variant.model_fields, *Evaluation.model_fields]
        return f"{place} is unknown. {did_you_mean(str(details['loc'][-1]), known)}"
    text = details["msg"].removeprefix("Value error, ")
    return f"{place}: {text}" if place else text
