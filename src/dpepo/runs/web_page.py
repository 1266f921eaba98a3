"""How the HTML pages are put together: one file each, nothing loaded from elsewhere, no text that can become markup or script.

Three walls stand between recorded text and the page: data travels as JSON in which ``<``, ``>``, ``&`` and everything outside
ASCII is escaped (or as compressed base64), the page's own scripts only ever create text nodes from it, and a content security
policy names our scripts by their hash, so that any other script would not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from dpepo.errors import RunFolderError
from dpepo.runs.files import write_atomic

_PACKAGE = "dpepo.runs"


def json_for_script(value: Any) -> str:
    r"""JSON that stays inert inside a script element, whatever the strings in it say.

    >>> json_for_script({"text": "</script>"})
    '{"text":"\\u003c/script\\u003e"}'
    """
    return _ascii_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(value: Any) -> str:
    """JSON, compressed (zlib) and in base64: what the viewer unpacks when an episode is opened."""
    return base64.b64encode(zlib.compress(_ascii_json(value).encode("ascii"), 6)).decode("ascii")


def _ascii_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    except ValueError:  # rare, and looking for it beforehand would take longer than all the rest
        return json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    """The same value with NaN and infinities as words: JSON has none, and a page must not be lost to one."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def web_file(name: str) -> str:
    """Text of a packaged file of ``runs/web``."""
    return (files(_PACKAGE) / "web" / name).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """The content security policy's name of an inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def render_page(template: str, *, styles: tuple[str, ...], scripts: tuple[str, ...], **context: Any) -> str:
    """A whole page as text.

    Args:
        template: name of the Jinja2 template in ``runs/web``.
        styles: names of the CSS files to inline.
        scripts: names of the JavaScript files to inline, joined in this order into one script.
        context: further values of the template.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(web_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = "\n".join(web_file(name) for name in styles)
    script = "\n".join(web_file(name) for name in scripts)
    hashes = [script_hash(web_file("theme.js")), script_hash(script)]
    return environment.get_template(template).render(
        style=style, script=script, theme_script=web_file("theme.js"), script_hashes=hashes, **context
    )


def write_page(page: str, path: Path) -> Path:
    """Write a page, whole or not at all, and return its path. An older page is replaced, any other file is not.

    Raises:
        RunFolderError: the place cannot be written, or holds something else.
    """
    try:
        if path.is_file() and not _is_page(path):
            raise RunFolderError(f"{path} exists and is no page, so it is left as it is. Choose another file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, page)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(256)
    return not head or b"<!doctype html" in head.lower()
