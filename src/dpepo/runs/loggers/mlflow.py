"""MLflow without a server: an SQLite store in ``RUN/mlflow``. Look at it with ``mlflow ui --backend-store-uri sqlite:///...``.

MLflow keeps every number it is given for good. So a step that is done again after a resume keeps the numbers of the first time;
on a CPU they are the same, times apart.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag

from dpepo.runs.loggers.base import Note, TrackedRun, Tracker

DATABASE = "mlflow.db"
_STEP, _STAGE = "dpepo.step", "dpepo.stage"
Item = TypeVar("Item")
_MOST_METRICS, _MOST_PARAMS, _LONGEST_PARAM = 1000, 100, 6000  # per call, by MLflow's limits


class MlflowTracker(Tracker):
    """One MLflow run per stage, in an experiment named after the run folder."""

    def __init__(self, run: TrackedRun, note: Note) -> None:
        super().__init__(run, note)
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # it tells of every table it makes
        folder = (run.folder / "mlflow").absolute()
        folder.mkdir(exist_ok=True)
        self._client = MlflowClient(tracking_uri=f"sqlite:///{folder / DATABASE}")
        experiment = self._client.get_experiment_by_name(run.folder.name)
        number = (
            self._client.create_experiment(run.folder.name, artifact_location=(folder / "artifacts").as_uri())
            if experiment is None
            else experiment.experiment_id
        )
        found = self._find(number)
        if found is None:
            found = self._client.create_run(number, run_name=run.stage, tags={_STAGE: run.stage, _STEP: "-1"})
            for batch in _batches(_params(run.settings), _MOST_PARAMS):
                self._client.log_batch(found.info.run_id, params=batch)
        else:
            self._client.update_run(found.info.run_id, status="RUNNING")
        self._id = found.info.run_id
        self._last = int(found.data.tags[_STEP])

    @property
    def last_step(self) -> int | None:
        """The last step in the store when it was opened."""
        return self._last

    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Write the numbers, and with them up to where the store is filled."""
        metrics = [Metric(name, value, round(time * 1000), step) for name, value in values.items()]
        for batch in _batches(metrics, _MOST_METRICS):
            self._client.log_batch(self._id, metrics=batch, tags=[RunTag(_STEP, str(step))])

    def close(self) -> None:
        """Mark the run as finished; a resume opens it again."""
        self._client.set_terminated(self._id)

    def _find(self, experiment: str) -> Run | None:
        found = self._client.search_runs([experiment], filter_string=f"tags.`{_STAGE}` = '{self.run.stage}'")
        return found[0] if found else None


def _params(settings: Mapping[str, object]) -> list[Param]:
    texts = {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in settings.items()}
    return [Param(key, text[:_LONGEST_PARAM]) for key, text in texts.items()]


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
