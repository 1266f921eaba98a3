"""Recipe files and command-line overrides, read and checked into a `Config`.

A recipe is a YAML file with any of the keys in `dpepo.config`; overrides (``env.num_envs=4``) win over it. OmegaConf reads and
merges, pydantic checks. Every problem is found in one go and reported with its key, its place and the nearest right key, before
anything heavy is imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dpepo.config import Config
from dpepo.errors import ConfigError, did_you_mean
from dpepo.keys import base_types, default_of, known_keys, nearest_key, section_of, shown_value

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list like [a, b]",
    "dict": "a section like {a: 1}",
}


class _Source(NamedTuple):
    """One place settings come from: a file or one override."""

    values: dict[Any, Any]  # as written: references to other keys are not yet replaced
    places: Mapping[str, str]  # dotted key to where it stands, in words


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe, lay overrides over it, and check the result.

    Args:
        path: The recipe; None starts from the defaults.
        overrides: Items of the form ``section.key=value``; the value is YAML, except that a key that holds text takes it as it
            is written (``run.dir=2024``). Later items win.

    Raises:
        ConfigError: The file cannot be read, or at least one setting is wrong; the message lists every problem.
    """
    problems: list[str] = []
    sources = [] if path is None else [_read_file(path)]
    for item in overrides:
        try:
            sources.append(_read_override(item))
        except ConfigError as error:
            problems.append(str(error))
    for source in sources:
        problems += _drop_unknown(source)
    places = {key: place for source in sources for key, place in source.places.items()}
    merged = _resolve([source.values for source in sources], places, problems)
    problems += _odd_values(merged, places)
    config = None
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        problems += [_problem(details, places) for details in error.errors() if not _is_echo(details)]
    if problems or config is None:
        raise ConfigError(_listed(list(dict.fromkeys(problems)), path))
    return config


def config_yaml(config: Config) -> str:
    """The whole configuration as YAML that `load_config` reads back to an equal one."""
    escaped = _escape(config.model_dump())
    return OmegaConf.to_yaml(OmegaConf.create(escaped))


def _read_file(path: Path) -> _Source:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = did_you_mean(path.name, [p.name for p in path.parent.glob("*.yaml")]) if path.parent.is_dir() else ""
        raise ConfigError(f"There is no recipe {path}. {near}".rstrip()) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read the recipe {path}: {_reason(error)}.") from None
    return _parse(text, name=str(path), places=lambda line: f"{path}, line {line}")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return getattr(error, "strerror", None) or str(error)


def _parse(text: str, *, name: str, places: Callable[[int], str]) -> _Source:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return _Source({}, {})
        if not isinstance(node, yaml.MappingNode):
            what = "a list" if isinstance(node, yaml.SequenceNode) else "a single word or number"
            raise ConfigError(f"{name} must hold settings such as 'seed: 1', not {what}.")
        values = OmegaConf.to_container(OmegaConf.create(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise ConfigError(f"{where} is not valid YAML: {str(error.problem or error.context).rstrip('.')}.") from None
    except (yaml.YAMLError, OmegaConfBaseException, RecursionError, ValueError, TypeError) as error:
        raise ConfigError(f"{name} cannot be read as YAML: {_first_line(error)}.") from None
    lines: dict[str, int] = {}
    _key_lines(node, "", lines)
    return _Source(values if isinstance(values, dict) else {}, {key: places(line) for key, line in lines.items()})


def _key_lines(node: yaml.MappingNode, prefix: str, lines: dict[str, int]) -> None:
    """Collect the line (from 1) of every key; anchors are entered once, so that no cycle is walked twice."""
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and prefix + key.value not in lines:
            lines[prefix + key.value] = key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode) and prefix.count(".") < 8:
                _key_lines(value, f"{prefix}{key.value}.", lines)


def _read_override(item: str) -> _Source:
    key, equals, text = item.partition("=")
    key = key.strip()
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"{item!r} is not a setting. Write section.key=value, e.g. env.num_envs=4.")
    place = f"given as {item}"
    try:
        value = OmegaConf.to_container(OmegaConf.create(f"value: {text}" if text.strip() else "value: ''"), resolve=False)
    except (yaml.YAMLError, OmegaConfBaseException, RecursionError, ValueError) as error:
        if key not in known_keys() or base_types(key) != {str}:
            raise ConfigError(f"The value of {key} in {item!r} is not valid YAML: {_first_line(error)}.") from None
        value = {"value": text}
    plain = value["value"] if isinstance(value, dict) else text
    if key in known_keys() and base_types(key) == {str} and not isinstance(plain, str):
        plain = text  # "run.dir=2024" names a folder, not a number
    parts = key.split(".")
    places = {".".join(parts[:size]): place for size in range(1, len(parts) + 1)}
    values: Any = plain
    for part in reversed(parts):
        values = {part.strip(): values}
    return _Source(values, places)


def _drop_unknown(source: _Source) -> list[str]:
    """Remove keys that do not exist from a source, so that its other settings are checked too; say what was wrong."""
    problems: list[str] = []

    def visit(values: dict[Any, Any], prefix: str) -> None:
        for name in list(values):
            key = f"{prefix}{name}"
            field = known_keys().get(key)
            if field is None or not isinstance(name, str) or "." in name:
                problems.append(_unknown(key, source.places))
                del values[name]
            elif section_of(field) is not None:
                if isinstance(values[name], dict):
                    visit(values[name], f"{key}.")
                    continue
                if values[name] is not None:  # a section whose keys are all commented out reads as null
                    example = _example_of(key)
                    problems.append(f"{key} is a section with keys of its own, e.g. {example}{_at(key, source.places)}.")
                del values[name]

    visit(source.values, "")
    return problems


def _unknown(key: str, places: Mapping[str, str]) -> str:
    at = _at(key, places)
    near = nearest_key(key)
    if near == key:
        section, _, name = key.rpartition(".")
        return f"{key} must be written nested in a file: {name} inside the section {section}{at}."
    if near is not None:
        return f"Unknown key {key}{at}. Did you mean {near}?"
    section = key.rpartition(".")[0]
    while section and section not in known_keys():
        section = section.rpartition(".")[0]
    siblings = [known for known in known_keys() if known.rpartition(".")[0] == section and known != section]
    if not siblings:
        return f"Unknown key {key}{at}. {section} is a single value."
    return f"Unknown key {key}{at}. Known: {', '.join(siblings)}."


def _example_of(section: str) -> str:
    first = next(key for key in known_keys() if key.startswith(f"{section}.") and section_of(known_keys()[key]) is None)
    return f"{first}={shown_value(default_of(first))}"


def _resolve(parts: Sequence[dict[Any, Any]], places: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Merge, then replace references such as ``${env.num_envs}`` by their values, given or default."""
    try:
        merged = OmegaConf.merge({}, *parts)
        written = OmegaConf.to_container(merged)
        for key, value in _leaves(written if isinstance(written, dict) else {}, ""):
            if value == "???":  # laid over the defaults it would silently give way to them
                problems.append(f"{key} cannot be worked out: ??? stands for a value still to be given{_at(key, places)}.")
        whole = OmegaConf.merge(Config().model_dump(mode="json"), merged)
        container = OmegaConf.to_container(whole, resolve=True, throw_on_missing=True)
    except (OmegaConfBaseException, RecursionError, ValueError, TypeError) as error:
        key = str(getattr(error, "full_key", None) or "")
        about = f"{key} cannot be worked out" if key else "The settings cannot be put together"
        problems.append(f"{about}: {_first_line(error)}{_at(key, places)}.")
        return {}
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}


def _odd_values(values: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """Values that pydantic would let through but nobody means: true or infinity where a number is due."""
    problems = []
    for key, value in _leaves(values, ""):
        numeric = base_types(key) & {int, float}
        if numeric and bool not in base_types(key) and isinstance(value, bool):
            problems.append(f"{key} must be a number, got {shown_value(value)}{_at(key, places)}.")
        elif float in numeric and _is_infinite(value):
            problems.append(f"{key} must be a finite number, got {value}{_at(key, places)}.")
    return problems


def _is_infinite(value: Any) -> bool:
    try:
        return isinstance(value, int | float | str) and math.isinf(float(value))
    except (ValueError, OverflowError):
        return False


def _leaves(values: Mapping[Any, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        field = known_keys().get(f"{prefix}{name}")
        if field is not None and section_of(field) is not None and isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{name}.")
        elif field is not None:
            found.append((f"{prefix}{name}", value))
    return found


def _is_echo(details: ErrorDetails) -> bool:
    """Whether a list only counts as too short because its items were refused, each with a complaint of its own."""
    return details["type"] == "too_short" and bool(details["input"])


def _problem(details: ErrorDetails, places: Mapping[str, str]) -> str:
    """One sentence for one complaint of pydantic."""
    parts = [str(part) for part in details["loc"]]
    key = ".".join(parts)
    while key and key not in known_keys():  # positions inside a list, branches of a union
        key = key.rpartition(".")[0]
    if not key:
        text = details["msg"].removeprefix("Value error, ").rstrip(".")
        return text if "Try: " in text else f"{text}."  # what is to be tried can be copied to the end of the line
    wanted = _wanted(details, key)
    example = default_of(key)
    if details["type"] == "tuple_type":
        example = [details["input"]] if isinstance(details["input"], str | int | float) else None
    hint = "" if example is None else f" Try: {key}={shown_value(example)}"
    return f"{key} {wanted}, got {shown_value(details['input'])}{_at(key, places)}.{hint}"


def _wanted(details: ErrorDetails, key: str) -> str:
    context: Mapping[str, Any] = details.get("ctx", {})
    bounds = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most", "less_than": "below"}
    kind = details["type"]
    if kind in bounds:
        return f"must be {bounds[kind]} {next(iter(context.values())):g}"
    if kind == "enum":
        return f"must be {str(context['expected']).replace(chr(39), '')}"
    if kind == "string_pattern_mismatch":
        return "must be " + " or ".join(re.findall(r"\w+", str(context["pattern"])))
    if kind == "too_short":
        return "must name at least one"
    return f"must be {_WORDS.get(kind.split('_')[0], details['msg'].removeprefix('Input should be '))}"


def _at(key: str, places: Mapping[str, str]) -> str:
    while key and key not in places:
        key = key.rpartition(".")[0]
    return f" ({places[key]})" if key else ""


def _listed(problems: Sequence[str], path: Path | None) -> str:
    if len(problems) == 1:
        return problems[0]
    about = f" in {path}" if path is not None else ""
    return "\n".join([f"{len(problems)} settings are wrong{about}:", *(f"  - {problem}" for problem in problems)])


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _escape(value: Any) -> Any:
    """Plain YAML types, with ``${`` kept from being read as a reference to another key."""
    if isinstance(value, dict):
        return {key: _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value)) if isinstance(value, str) else value
