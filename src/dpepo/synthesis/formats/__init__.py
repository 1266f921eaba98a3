"""Datasets in files: export for this and other trainers, import of what others wrote."""

from __future__ import annotations

from dpepo.synthesis.formats.exporting import ExportedData, export_data
from dpepo.synthesis.formats.importing import ImportedData, import_data
from dpepo.synthesis.formats.shapes import FORMATS, Format

__all__ = ["FORMATS", "ExportedData", "Format", "ImportedData", "export_data", "import_data"]
