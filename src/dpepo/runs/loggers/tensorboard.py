"""TensorBoard: event files in ``RUN/tensorboard/STAGE``. Look at them with ``tensorboard --logdir RUN/tensorboard``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from dpepo.runs.loggers.base import Note, TrackedRun, Tracker


class TensorBoardTracker(Tracker):
    """Writes a file per session.

    A later session begins by taking back everything that stands in earlier files, as TensorBoard provides for restarts, and
    writes the history anew: what is shown is what ``metrics.jsonl`` holds.
    """

    def __init__(self, run: TrackedRun, note: Note) -> None:
        super().__init__(run, note)
        folder = run.folder / "tensorboard" / run.stage
        again = folder.is_dir() and any(folder.iterdir())
        self._writer = EventFileWriter(str(folder))
        if again:
            self._writer.add_event(Event(step=0, session_log=SessionLog(status=SessionLog.START)))
        self._writer.add_event(Event(step=0, summary=_text("config", json.dumps(run.settings, indent=1, default=str))))
        self._writer.flush()

    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Write one event with all numbers, and flush."""
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._writer.add_event(Event(step=step, wall_time=time, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _text(tag: str, text: str) -> Summary:
    """A text as TensorBoard's text plugin shows it, as a block of code."""
    block = "\n".join(f"    {line}" for line in text.splitlines())
    return Summary(
        value=[
            Summary.Value(
                tag=f"{tag}/text_summary",
                metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
                tensor=TensorProto(
                    dtype="DT_STRING",
                    string_val=[block.encode()],
                    tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
                ),
            )
        ]
    )
