"""What all sections share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

MAX_ENVS = 999_999
"""Largest K, and the largest environment id that the parser accepts."""

MANY = 999_999
"""Most of anything that a job lists in memory before it begins; beyond it a number is a slip of the finger."""


class Section(BaseModel):
    """Base of all sections: immutable, unknown keys refused, defaults checked like values."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
