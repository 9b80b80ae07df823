"""Write the generated parts of the docs: `python docs/generate.py`. Tests check that they are current."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, get_args

import draw_architecture
import odd_inputs
from typer.main import get_command
from typer.testing import CliRunner

from accord.cli.app import app
from accord.consensus.families import FAMILIES, SEEDS
from accord.data import catalog
from accord.data.columns import USUAL_NAMES
from accord.models import class_of
from accord.protocol import NAMES, Protocol, preset_values
from accord.training.run import every_rule_kind
from accord_lab.findings import pages, published

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None}


def main() -> None:
    draw_architecture.main()
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text), encoding="utf-8")
    for name in pages.PAGES:
        (DOCS / "reproduction" / name).write_text(pages.filled(DOCS / "reproduction", name), encoding="utf-8")


def filled(text: str) -> str:
    """A page with its generated parts made anew."""
    return PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", text)


def protocol_table() -> str:
    """The rules for all, then those that single methods and models declare."""
    rows = ["| field | values | `published` | `corrected` | meaning |", "|---|---|---|---|---|"]
    kinds = Protocol, *every_rule_kind(installed=True)
    published, corrected = (
        {"name": name} | {k: v for kind in kinds for k, v in preset_values(kind, name).items()} for name in NAMES
    )
    fields = {name: field for kind in kinds for name, field in kind.model_fields.items()}
    for name, field in fields.items():
        values = get_args(field.annotation) or (False, True)
        told = "a number" if field.annotation is float else ", ".join(_code(value) for value in values)
        presets = (_code(preset[name]) for preset in (published, corrected))
        rows.append(f"| `{name}` | {told} | {' | '.join(presets)} | {field.description} |")
    return "\n".join(rows) + "\n"


def _code(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def catalog_table() -> str:
    rows = ["| name | what it is | licence |", "|---|---|---|"]
    rows += [f"| `{entry.name}` | {entry.title} | {entry.licence} |" for entry in catalog.ENTRIES.values()]
    return "\n".join(rows) + "\n"


def families_table() -> str:
    """What `auto` tries, and in which ranges."""
    rows = ["| family | what is tried of its options | share of the budget, at most |", "|---|---|---|"]
    for family in FAMILIES:
        name = f"`{family.called or family.model}`"
        name += f" (`{family.model}`)" if family.called else f", trained by `{family.method}`" if family.method else ""
        ranges = ", ".join(f"`{option.partition('.')[2]}` {own.text}" for option, own in family.ranges.items())
        tried = ranges or (f"the mean of {SEEDS} seeds" if family.method is not None else "has none")
        most = class_of(family.model).most_items  # type: ignore[union-attr]
        limit = f" (up to {most:,} items)" if math.isfinite(most) else ""
        rows.append(f"| {name}{limit} | {tried} | {family.share:.0%} |")
    return "\n".join(rows) + "\n"


def usual_columns() -> str:
    rows = ["| role | usual names |", "|---|---|"]
    rows += [f"| {role} | {', '.join(names)} |" for role, names in USUAL_NAMES.items()]
    return "\n".join(rows) + "\n"


def commands() -> str:
    """The help of every command, as the command line prints it."""
    return "\n".join(
        f"{'##' if len(path) < 2 else '###'} `{' '.join(['accord', *path])}`\n\n{_block([*path, '--help'])}"
        for path in _paths(get_command(app), [])
    )


def _paths(command: Any, path: list[str]) -> list[list[str]]:
    inner = getattr(command, "commands", {})
    return [path, *(deeper for name, child in inner.items() for deeper in _paths(child, [*path, name]))]


def _block(arguments: list[str]) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="accord", env=WIDTH, terminal_width=80)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.output.strip().splitlines()]
    return "\n".join(["```text", *lines, "```", ""])


PARTS = {
    "catalog": catalog_table,
    "columns": usual_columns,
    "families": families_table,
    "protocol": protocol_table,
    "commands": commands,
    "models": lambda: _block(["models"]),
    "methods": lambda: _block(["methods"]),
    "errors": odd_inputs.tables,
    "rooms": draw_architecture.rooms_table,
    "baselines": lambda: published.baselines(DOCS / "reproduction"),
}

if __name__ == "__main__":
    main()
