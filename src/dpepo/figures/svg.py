"""Makes matplotlib's SVG text fit to stand inside a page, beside others, and to be read aloud. Pure."""

from __future__ import annotations

import re
from html import escape

from dpepo.figures.palette import css_variables

_FONT = "'DejaVu Sans'"
_FONTS = "'DejaVu Sans', Verdana, Geneva, sans-serif"


def cleaned(text: str, *, kind: str, title: str, inside_page: bool) -> str:
    """The SVG element alone, with ids of its own, no style rule that reaches beyond it, and its title for screen readers.

    Args:
        text: What matplotlib wrote.
        kind: Goes before every id, so that two pictures can share a page.
        title: What the picture shows.
        inside_page: Replace colours by the page's CSS variables, and let the page choose the width.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="fig-{kind}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>fig-{kind}-", text)
    text = text.replace(_FONT, "var(--sans)" if inside_page else _FONTS)
    opening = re.match(r"<svg[^>]*>", text)
    assert opening is not None  # the text begins with it
    head = opening[0]
    if inside_page:
        head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
        for colour, name in css_variables().items():
            text = text.replace(colour, f"var(--{name})")
    rules = 'style="stroke-linejoin: round; stroke-linecap: butt"'  # what the style rule above said of everything
    head = head[:-1] + f' role="img" aria-label="{escape(title)}" {rules}>'
    return head + f"<title>{escape(title)}</title>" + text[opening.end() :]
