"""Success against the size of the model, counted from the headers of its weight files."""

from __future__ import annotations

import json
import math
from pathlib import Path

from dpepo.errors import ConfigError
from dpepo.figures.estimates import intervals_text, n_text, rate
from dpepo.figures.options import Options
from dpepo.figures.picture import Axis, Line, Lines, NothingToShow, Picture, Point, caption_of
from dpepo.figures.sources import Material, Played
from dpepo.policies.lora import is_adapter
from dpepo.policies.models import base_folder, model_folder

_MAX_HEADER = 100_000_000  # bytes, the format's own limit


def make(material: Material, options: Options) -> Picture:
    """A line per number of copies, a point per size.

    Raises:
        NothingToShow: Fewer than two sizes are known.
    """
    methods = material.in_way(options.way)
    way = next(iter(methods.values()))[0].way
    sizes: dict[int, dict[int, list[Played]]] = {}
    problems: list[str] = []
    for repeats in methods.values():
        for played in repeats:
            try:
                sizes.setdefault(played.num_envs, {}).setdefault(_size(played), []).append(played)
            except (ConfigError, OSError, ValueError) as error:
                problems.append(f"{played.method}: the size of its model is not known ({error})")
    known = sorted({size for by_size in sizes.values() for size in by_size})
    if len(known) < 2:
        found = f"one size, {known[0]:,} parameters" if known else "no size"
        raise NothingToShow(
            f"{', '.join(material.words)}: {found} of model was found, two are needed. {' '.join(problems[:1])}".strip()
        )
    lines, estimates = [], []
    for number, (copies, by_size) in enumerate(sorted(sizes.items())):
        values = {
            size: rate([[facts.success for facts in one.facts] for one in some]) for size, some in sorted(by_size.items())
        }
        estimates += list(values.values())
        points = tuple(Point(size, one.value, one.low, one.high) for size, one in values.items() if one is not None)
        lines.append(Line(f"K = {copies}", points, colour=number, whiskers=True))
    return Picture(
        kind="size",
        title="Success against model size",
        caption=caption_of(
            material.played_as(way),
            n_text(estimates),
            intervals_text(estimates),
            "Parameters as stored in the weight files.",
            material.source,
        ),
        panels=(
            Lines(
                x=Axis(label="parameters", log=10, ticks=tuple(map(float, known)) if len(known) < 7 else ()),
                y=Axis(label="episodes solved", percent=True, from_zero=True),
                lines=tuple(lines),
            ),
        ),
        notes=(*material.others(way), *problems),
    )


def _size(played: Played) -> int:
    config = played.run.config.model
    if played.run.job == "eval" and played.run.config.eval.policy != "model":
        raise ValueError(f"{played.run.config.eval.policy} is no model")
    if not config.path:
        raise ValueError("no model plays")
    folder = model_folder(config.path)
    adapter = count_parameters(Path(folder)) if is_adapter(folder) else 0
    return count_parameters(Path(base_folder(config))) + adapter


def count_parameters(folder: Path) -> int:
    """Numbers stored in the ``*.safetensors`` files of a folder, from their headers: no weight is read.

    Raises:
        ValueError: There are none, or one is damaged.
        OSError: A file cannot be read.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{folder} holds no *.safetensors")
    return sum(_stored(file) for file in files)


def _stored(file: Path) -> int:
    with file.open("rb") as content:
        length = int.from_bytes(content.read(8), "little")
        if length > _MAX_HEADER:
            raise ValueError(f"{file} is no safetensors file")
        header = json.loads(content.read(length))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
