"""The page of every report: one HTML file that opens from disk, with its charts inside.

A page is a title, a lead and sections; a section is a list of blocks, in the order in which they are added:

    page = Page("Audit of clicks.csv", "8,000 interactions of 400 users.")
    section = page.section("Health of the log", "What stands out in the log itself.")
    section.callout("Denoising does not help here.", "info")
    section.facts([Fact("interactions", "8,000", "after duplicates were merged"), Fact("users", "400")])
    section.findings([Finding("warning", "17 duplicate pairs", "The same user and item …", ["u1 · i7"], "Merge them.")])
    section.table(Table("Noise by user", ("user", "share"), rows, ("A note.",)))     # accord.report.tables.Table
    section.chart(Chart("Lorenz curve", alt.Chart(table)…, "Half of the items have 92% of all clicks.", data))
    section.charts([Chart(…), Chart(…)])                                              # side by side where there is room
    section.charts([Chart(…)], folded="Over time")                                    # its title, until it is clicked
    page.section("How to repeat it", folded=True).code("accord audit clicks.csv")     # its title, until it is clicked
    page.write(Path("report.html"))

Every text is shown as it is: none is read as markup. A section's title is its place in the contents.

Charts are altair charts or layers of them (not facets or concatenations: their width cannot follow the screen; use
`charts`). They get the page's width and look; leave colours out, or name them by role: `REAL`, `NOISE`, `SOFT`,
`SERIES[n]`. Those are CSS variables, so that one chart does for light, dark and paper; a continuous scale of colours
cannot mix them. Each chart says in `summary`, one sentence, what it shows, which is also what a screen reader reads;
`data` is a table of its figures, folded away below it. Its own points are not for screen readers.

The page needs no network and allows none (its content security policy names the scripts and styles it has, nothing
else). Vega is in it once, about 0.9 MB, and only where there are charts.
"""

from __future__ import annotations

import base64
import hashlib
import math
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
HEIGHT = 240
AXIS = {
    "labelColor": "var(--soft)",
    "titleColor": "var(--soft)",
    "gridColor": "var(--line)",
    "domainColor": "var(--line)",
    "tickColor": "var(--line)",
    "titleFontWeight": "normal",
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titlePadding": 12,
    "labelOverlap": True,
    "labelSeparation": 8,
}
LOOK = {
    "aria": False,  # the figure has one label; hundreds of points read aloud would not help
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "mark": {"color": SERIES[0], "tooltip": True},
    "axis": AXIS,
    "axisX": {"grid": False},
    "legend": {
        "orient": "top",
        "title": None,
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "labelLimit": 200,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
    },
    "rule": {"color": "var(--soft)"},
    "text": {"color": "var(--ink)"},
    "range": {"category": list(SERIES)},
}


@dataclass(frozen=True)
class Fact:
    """A number with a label."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """Something found: what, how serious, examples by the user's own ids, and what to do.

    A warning shows its title alone until it is clicked; a problem shows all of it.
    """

    level: Level
    title: str
    text: str = ""
    examples: Sequence[str] = ()
    advice: str = ""


@dataclass(frozen=True)
class Chart:
    """An altair chart, with a summary in words and, if that helps, its data as a table."""

    title: str
    chart: Any  # of altair
    summary: str
    data: Table | None = None
    height: int = HEIGHT

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = _without_nan(self.chart.to_dict())
        found.pop("config", None)  # altair's own sizes
        fit = {"type": "fit-x", "contains": "padding"}
        return {"height": self.height, **found, "width": "container", "autosize": fit, "config": LOOK}


class Section:
    """A section of the page with its heading."""

    def __init__(self, title: str, lead: str = "", folded: bool = False) -> None:
        self.title, self.lead, self.folded = title, lead, folded
        self.blocks: list[dict[str, Any]] = []

    def text(self, *paragraphs: str) -> None:
        self._add("text", paragraphs=paragraphs)

    def note(self, text: str) -> None:
        """A paragraph that may be skipped."""
        self._add("note", text=text)

    def heading(self, title: str) -> None:
        """A heading inside the section."""
        self._add("heading", title=title)

    def callout(self, text: str, level: Level = "info") -> None:
        """The sentence to take away."""
        self._add("callout", text=text, level=level)

    def facts(self, facts: Sequence[Fact]) -> None:
        self._add("facts", facts=facts)

    def findings(self, findings: Sequence[Finding]) -> None:
        self._add("findings", findings=findings)

    def table(self, table: Table, folded: str = "") -> None:
        """A table; its title is the caption, its first column names the rows. `folded`: a text to click to show it."""
        self._add("table", table=_Grid.of(table), folded=folded)

    def chart(self, chart: Chart) -> None:
        self.charts([chart])

    def charts(self, charts: Sequence[Chart], folded: str = "") -> None:
        """Side by side where there is room. `folded`: the text to click to show them."""
        drawn = [(one, None if one.data is None else _Grid.of(one.data)) for one in charts]
        self._add("charts", charts=drawn, folded=folded)

    def code(self, text: str, folded: str = "") -> None:
        """Commands or a file's content. `folded`: the text to click to show it."""
        self._add("code", text=text, folded=folded)

    def _add(self, kind: str, **content: Any) -> None:
        self.blocks.append({"kind": kind, **content})


@dataclass(frozen=True)
class _Grid:
    """A table as the template needs it: text already escaped, numeric columns known."""

    table: Table
    numeric: list[bool]
    rows: list[list[Any]]

    @classmethod
    def of(cls, table: Table) -> _Grid:
        from markupsafe import Markup, escape

        texts = table.cells(lambda text: str(escape(text)), "<strong>{}</strong>".format)
        return cls(table, table.numeric(), [[Markup(text) for text in row] for row in texts])


@dataclass
class Page:
    """A report."""

    title: str
    lead: str = ""
    sections: list[Section] = field(default_factory=list)

    def section(self, title: str, lead: str = "", folded: bool = False) -> Section:
        """Add a section; a `folded` one shows its title alone until it is clicked, linked to or printed."""
        self.sections.append(Section(title, lead, folded))
        return self.sections[-1]

    def html(self) -> str:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        specs = [
            chart.spec()
            for section in self.sections
            for block in section.blocks
            for chart, _ in block.get("charts", ())
        ]
        style = _inside("style.css")
        moving = ("table", "findings")  # tables that scroll, and what is open on paper
        moves = any(section.folded or block["kind"] in moving for section in self.sections for block in section.blocks)
        scripts = [_inside("page.js")] if moves or specs else []
        scripts += [_vega(), _inside("charts.js")] if specs else []
        template = Environment(
            loader=PackageLoader("accord.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        ).get_template("page.html.j2")
        return template.render(
            page=self,
            names=_names([section.title for section in self.sections]),
            specs=specs,
            style=style,
            scripts=scripts,
            policy=_policy(style, scripts),
            version=__version__,
        )

    def write(self, path: Path) -> Path:
        """Write the page; the file is complete or not there."""
        html = self.html()
        with replacing(path) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return path


def _names(titles: Sequence[str]) -> list[str]:
    """An anchor for each section: its title in plain letters, numbered where two are the same."""
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
    """The script that draws. Making it takes seconds, so it is kept in the cache folder if possible."""
    import vl_convert

    kept = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError, InputError), replacing(kept) as temporary:
        temporary.write_text(script, encoding="utf-8")
    return script


def _without_nan(content: Any) -> Any:
    """JSON has no NaN and no infinity; a chart leaves out what is null."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _policy(style: str, scripts: Sequence[str]) -> str:
    """What the browser may do: run and apply what is in the file, and fetch nothing."""

    def named(texts: Sequence[str]) -> str:
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    return (
        f"default-src 'none'; script-src {named(scripts)}; style-src {named([style])}; style-src-attr 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
