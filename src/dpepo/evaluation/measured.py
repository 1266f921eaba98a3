"""Finished and unfinished evaluations, found in run folders: one `Measured` for every stage that evaluated something.

Reads whatever is there: runs of ``dpepo eval``, runs with several evaluations (``eval-*`` stages, as of the demo), and folders
of runs, a sweep's among them. What cannot be read is named and left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dpepo.errors import RunFolderError, did_you_mean
from dpepo.evaluation.conditions import Conditions, conditions_of
from dpepo.evaluation.result import EvalResult, summarise
from dpepo.runs.episodes import parse_file_name
from dpepo.runs.rundir import RUN_FILE, RunFolder, no_run
from dpepo.runs.summary import ResultRow, read_summary
from dpepo.types import Episode

SWEEP_FILE = "sweep.yaml"
_EVAL = re.compile(r"eval(-.+)?")
_PART_OF_SWEEP = re.compile(r"seed-[0-9]+|eval(-.+)?|train")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One evaluation."""

    folder: Path
    stage: str
    label: str  # the method, for tables
    policy: str  # who played, e.g. "model runs/rl" or "oracle"
    seed: int
    conditions: Conditions
    result: EvalResult
    finished: bool  # whether its run came to its end

    @property
    def name(self) -> str:
        """Where it is: ``FOLDER``, or ``FOLDER#STAGE`` where a folder holds several."""
        return _name(self.folder, self.stage)


def split_name(text: str) -> tuple[Path, str]:
    """Folder and stage of ``FOLDER`` or ``FOLDER#STAGE``; no stage is an empty one."""
    folder, _, stage = text.partition("#")
    return Path(folder), stage


def find_measured(
    sources: Sequence[str], *, labels: Sequence[str] = (), only: Sequence[str] = (), note: Callable[[str], None]
) -> list[Measured]:
    """All evaluations in run folders and folders of runs.

    Args:
        sources: Each a run folder, ``RUN#STAGE``, or a folder that holds runs at any depth.
        labels: One per source, or none: then a method is called after its folder, a sweep's variant as the sweep file says.
        only: Patterns such as ``*eval-one-copy``; what fits none of them is left out. Empty: all.
        note: Receives a sentence for everything that is damaged, unfinished or left out.

    Raises:
        RunFolderError: A source does not exist, or nothing was found.
    """
    if labels and len(labels) != len(sources):
        raise RunFolderError(f"{len(labels)} labels for {len(sources)} runs: give --label once per run, in their order")
    found: list[Measured] = []
    skipped: list[str] = []
    passed: list[str] = []  # names that fit no pattern
    for position, source in enumerate(sources):
        folder, stage = split_name(source)
        if not folder.is_dir():
            raise RunFolderError(no_run(folder))
        names = _sweep_labels(folder)
        for path in _run_folders(folder, order=list(names)):
            label = labels[position] if labels else _label(path, root=folder, names=names)
            try:
                run = RunFolder.open(path)
                stages = _stages_of(run, stage)
                wanted = [name for name in stages if _fits(_name(path, name), only)]
                passed += [_name(path, name) for name in stages if name not in wanted]
                found += _of_run(run, stages=wanted, label=label, note=note)
            except RunFolderError as error:
                skipped.append(f"{path} is left out: {error}")
    for sentence in skipped:
        note(sentence)
    if passed and not found:
        raise RunFolderError(f"--only {', '.join(only)} fits nothing. {did_you_mean(only[0], passed)}")
    if not found:
        raise RunFolderError(skipped[0] if skipped else f"{', '.join(sources)}: no evaluation there. Try: dpepo eval")
    return found


def _fits(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(name, pattern) for pattern in only)


def _name(folder: Path, stage: str) -> str:
    """``FOLDER``, or ``FOLDER#STAGE`` where a folder may hold several."""
    return str(folder) if stage == "eval" else f"{folder}#{stage}"


def read_measured(source: str, *, note: Callable[[str], None]) -> tuple[Measured, list[Episode]]:
    """One evaluation and its episodes, lost ones included.

    Args:
        source: A run folder with one evaluation, or ``RUN#STAGE``.
        note: As in `find_measured`.

    Raises:
        RunFolderError: There is no such evaluation, or the folder holds several and none is chosen.
    """
    folder, stage = split_name(source)
    run = RunFolder.open(folder)
    stages = eval_stages(run)
    if stage and stage not in stages:
        raise RunFolderError(f"{folder} has no evaluation {stage!r}. {did_you_mean(stage, stages)}")
    if not stages:
        raise RunFolderError(f"{folder} holds no evaluation: no episodes/eval*.jsonl. Try: dpepo eval")
    if not stage and len(stages) > 1:
        raise RunFolderError(
            f"{folder} holds {len(stages)} evaluations. Choose one: " + ", ".join(f"{folder}#{s}" for s in stages)
        )
    chosen = stage or stages[0]
    episodes = counted_episodes(run, chosen, note=note)
    [measured] = _of_run(run, stages=[chosen], label=folder.name, note=note, episodes=episodes)
    return measured, episodes


def eval_stages(run: RunFolder) -> list[str]:
    """Names of the evaluations in a run's episode files, sorted; those made during training are not among them."""
    files = (parse_file_name(path.name) for path in (run.path / "episodes").glob("*.jsonl"))
    return sorted({name.stage for name in files if name is not None and _EVAL.fullmatch(name.stage)})


def counted_episodes(run: RunFolder, stage: str, *, note: Callable[[str], None]) -> list[Episode]:
    """The episodes of an evaluation that count: of several tries at one, after faults, the last."""
    problems: list[str] = []
    latest: dict[tuple[str, int], Episode] = {}
    for line in run.read_episodes(stage=stage, problems=problems):
        latest[line.episode.task.id, line.episode.sibling] = line.episode
    for problem in problems:
        note(f"{run.path}: {problem}")
    return list(latest.values())


def _run_folders(folder: Path, *, order: Sequence[str]) -> list[Path]:
    """The folder itself where it is a run, else all runs in it: a sweep's in the order of its variants, others by path."""
    if (folder / RUN_FILE).is_file():
        return [folder]
    places = {name: place for place, name in enumerate(order)}
    paths = [path.parent for path in folder.rglob(RUN_FILE)]
    return sorted(paths, key=lambda path: (places.get(path.parent.name, len(places)), path))


def _stages_of(run: RunFolder, stage: str) -> list[str]:
    """The evaluations of a run that are meant; none for a run that only trained."""
    stages = [name for name in eval_stages(run) if stage in ("", name)]
    if not stages and run.job == "eval":
        raise RunFolderError("it has no episodes yet")
    if not stages and stage:
        raise RunFolderError(f"it has no evaluation {stage!r}")
    return stages


def _of_run(
    run: RunFolder, *, stages: Sequence[str], label: str, note: Callable[[str], None], episodes: Sequence[Episode] | None = None
) -> Iterator[Measured]:
    path, rows = run.path, _summary_rows(run.path)
    finished = any("finished" in session for session in run.sessions[-1:])
    for name in stages:
        result = _recorded(run) if run.job == "eval" and finished and episodes is None else None
        if result is None or result.conditions is None:
            played = counted_episodes(run, name, note=note) if episodes is None else episodes
            if not played:
                note(f"{path}: {name} holds no whole episode; left out")
                continue
            conditions = _conditions(run, rows.get(name), played[0])
            result = summarise(played, conditions=conditions)
        if not finished:
            note(f"{path}#{name}: the run is not finished; {result.played} episodes so far")
        yield Measured(
            folder=path,
            stage=name,
            label=f"{label}, {rows[name].label}" if name in rows else label,
            policy=_policy(run, rows.get(name)),
            seed=run.config.seed,
            conditions=result.conditions or conditions_of(run.config),
            result=result,
            finished=finished,
        )


def _recorded(run: RunFolder) -> EvalResult | None:
    """What the job has written at its end; None where another version has written it."""
    with suppress(ValidationError):
        return EvalResult.model_validate(run.sessions[-1].get("result"))
    return None


def _conditions(run: RunFolder, row: ResultRow | None, episode: Episode) -> Conditions:
    known: dict[str, Any] = {"num_envs": episode.num_envs, "max_turns": episode.max_turns}
    if row is not None:
        known |= {"split": episode.task.split or row.split, "temperature": row.temperature}
    elif run.job != "eval":
        known |= {"split": episode.task.split, "temperature": None}
    if run.job != "eval":
        known |= {"names": run.config.tasks.train.names}
    return conditions_of(run.config, **known)


def _summary_rows(path: Path) -> Mapping[str, ResultRow]:
    """What a run's summary says of its stages; nothing where it has none."""
    with suppress(RunFolderError):
        return {row.stage: row for row in read_summary(path).table if row.stage}
    return {}


def _policy(run: RunFolder, row: ResultRow | None) -> str:
    if row is not None:
        return row.label
    if run.job != "eval":
        return run.job
    policy = run.config.eval.policy
    names = {"model": f"model {run.config.model.path}", "openai": f"{run.config.server.model} behind a server"}
    return names.get(policy, policy)


def _label(path: Path, *, root: Path, names: Mapping[str, str]) -> str:
    """The name of a method: its folder's, without the parts that name seed and job of a sweep."""
    if path == root:
        return path.name or path.resolve().name
    parts = [part for part in path.relative_to(root).parts if not _PART_OF_SWEEP.fullmatch(part)]
    label = "/".join(parts) or path.name
    return names.get(label, label)


def _sweep_labels(folder: Path) -> Mapping[str, str]:
    """Labels of the variants, by name, where the folder is a sweep's."""
    return _sweep(folder)[0]


def sweep_baseline(sources: Sequence[str]) -> str:
    """Label of the variant that a sweep compares with; empty where none of the folders is a sweep that names one."""
    return next((baseline for source in sources if (baseline := _sweep(split_name(source)[0])[1])), "")


def _sweep(folder: Path) -> tuple[Mapping[str, str], str]:
    """Labels by variant and the label of the baseline, as the sweep file in the folder says."""
    try:
        content = yaml.safe_load((folder / SWEEP_FILE).read_text(encoding="utf-8"))
        labels = {str(variant["name"]): str(variant.get("label") or variant["name"]) for variant in content["variants"]}
        return labels, labels.get(content.get("baseline", ""), "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return {}, ""
