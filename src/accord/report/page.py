"""HTML reports: one file that opens from disk, with its charts inside.

A page is a title, a lead and sections; a section is a list of blocks, shown in the order in which they were added.
All text is escaped. Charts are altair charts or layers of them, without facets or concatenations, whose width cannot
follow the screen; their colours are `REAL`, `NOISE`, `SOFT` and `SERIES[n]`, CSS variables for light, dark and print.

The page loads nothing: its content security policy allows only the scripts and styles inside the file. Vega, compressed
to about 0.4 MB, is included only if there are charts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from accord.data.catalog import cache_folder
from accord.errors import InputError
from accord.io.files import replacing
from accord.report.tables import Table
from accord.version import __version__

Level = Literal["good", "info", "warning", "bad"]

REAL, NOISE, SOFT = "var(--real)", "var(--noise)", "var(--soft)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))


@dataclass(frozen=True)
class Fact:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """A finding: how serious it is, examples by the user's ids, and what to do about it.
    A warning shows only its title until it is clicked; a problem is always open."""

    level: Level
    title: str
    examples: Sequence[str] = ()
    advice: str = ""


@dataclass(frozen=True)
class Chart:
    """An altair chart with a summary in words and, optionally, its data as a table."""

    title: str
    chart: Any  # of altair
    summary: str
    data: Table | None = None
    height: int = 240

    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification, with null for NaN and infinity, which JSON does not have."""
        spec = json.loads(json.dumps(self.chart.to_dict()), parse_constant=lambda _: None)
        return {"height": self.height, **spec}


class Section:
    def __init__(self, title: str, lead: str = "", folded: bool = False) -> None:
        self.title, self.lead, self.folded = title, lead, folded
        self.blocks: list[dict[str, Any]] = []

    def text(self, *paragraphs: str) -> None:
        self._add("text", paragraphs=paragraphs)

    def note(self, text: str) -> None:
        """A paragraph in small print."""
        self._add("note", text=text)

    def heading(self, title: str) -> None:
        self._add("heading", title=title)

    def callout(self, text: str, level: Level = "info") -> None:
        """The main conclusion, in one sentence."""
        self._add("callout", text=text, level=level)

    def facts(self, facts: Sequence[Fact]) -> None:
        self._add("facts", facts=facts)

    def findings(self, findings: Sequence[Finding]) -> None:
        self._add("findings", findings=findings)

    def table(self, table: Table, folded: str = "") -> None:
        """A table with its title as caption. `folded`: the text to click to show it."""
        self._add("table", table=table, folded=folded)

    def chart(self, chart: Chart) -> None:
        self.charts([chart])

    def charts(self, charts: Sequence[Chart]) -> None:
        """Side by side if there is room."""
        self._add("charts", charts=charts)

    def code(self, text: str) -> None:
        """Commands or the content of a file."""
        self._add("code", text=text)

    def _add(self, kind: str, **content: Any) -> None:
        self.blocks.append({"kind": kind, **content})


@dataclass
class Page:
    title: str
    lead: str = ""
    sections: list[Section] = field(default_factory=list)

    def section(self, title: str, lead: str = "", folded: bool = False) -> Section:
        """Add a section. A `folded` one shows only its title until it is clicked, linked to or printed."""
        self.sections.append(Section(title, lead, folded))
        return self.sections[-1]

    def html(self) -> str:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        blocks = [block for section in self.sections for block in section.blocks]
        specs = [chart.spec() for block in blocks for chart in block.get("charts", ())]
        style = _inside("style.css")
        scripts = [_inside("page.js"), *([_inside("charts.js")] if specs else ())]
        vega = [_vega()] if specs else []
        template = Environment(
            loader=PackageLoader("accord.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        ).get_template("page.html.j2")
        return template.render(
            page=self, names=_names([section.title for section in self.sections]), specs=specs,
            style=style, scripts=scripts, version=__version__,
            vega=[base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode() for text in vega],
            policy=_policy(style, [*scripts, *vega]),
        )  # fmt: skip

    def write(self, path: Path) -> Path:
        html = self.html()
        with replacing(path) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return path


def _names(titles: Sequence[str]) -> list[str]:
    """An anchor for each section: its title in lower-case letters, numbered if two are the same."""
    names: list[str] = []
    for title in titles:
        name = "-".join(re.findall(r"[a-z0-9]+", title.lower())) or "section"
        taken = sum(other == name or other.startswith(f"{name}--") for other in names)
        names.append(f"{name}--{taken + 1}" if taken else name)
    return names


def _inside(name: str) -> str:
    return resources.files("accord.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """The script that draws the charts. Building it takes seconds, so it is stored in the cache folder if possible."""
    import vl_convert

    cached = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    if cached.is_file():
        return cached.read_text(encoding="utf-8")
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError, InputError), replacing(cached) as temporary:
        temporary.write_text(script, encoding="utf-8")
    return script


def _policy(style: str, scripts: Sequence[str]) -> str:
    """The content security policy: only these scripts and this style, and nothing is loaded."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, *scripts)]
    first, *rest = [f"'sha256-{digest}'" for digest in digests]
    return (
        f"default-src 'none'; script-src {' '.join(rest)}; style-src {first}; style-src-attr 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
