"""What the site needs beyond its pages: the reference of public names, the notebooks as pages, links to files that are
no pages, and equations as MathML, which browsers draw without a script."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
CODE = "https://github.com/accord-recommender/accord/blob/main/"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
NAMED = re.compile(r"<mi>log</mi>(?=<m[ifn])")  # log h, not log(h)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Blocks of equations, as GitHub has them."""
    fence = {"name": "math", "class": "equation", "format": equation}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that are made here."""
    files.append(File.generated(config, "api.md", content=_reference()))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=_notebook(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what is no page lead to the code."""
    here = posixpath.dirname(page.file.src_uri)

    def target(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join("docs", here, match[1]))
        inside = place.removeprefix("docs/")
        if inside.endswith(".ipynb"):
            return match[1].removesuffix(".ipynb") + ".md"
        known = files.get_file_from_path(inside) if place.startswith("docs/") else None
        return match[1] if known and known.inclusion.is_included() else CODE + place

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(target, part) for part in parts)


def equation(source: str, *_args: Any, **_options: Any) -> str:
    """A block of LaTeX as MathML."""
    drawn = NAMED.sub(r'\g<0><mspace width="0.17em" />', convert(source, display="block"))
    return f'<div class="equation">{drawn}</div>'


def _reference() -> str:
    """A page with every public name, from the source alone."""
    tree = ast.parse((ROOT / "src" / "accord" / "__init__.py").read_text(encoding="utf-8"))
    home = {
        alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("accord.")
        for alias in node.names
        if alias.name != "__version__"
    }
    kinds = {
        "Functions": [name for name in home if name.islower()],
        "Classes": [name for name in home if not name.islower() and not name.isupper()],
    }
    presets = " and ".join(f"`{name}`" for name in sorted(home) if name.isupper())
    parts = [
        "# Python\n\n`import accord` gives these names, and they are all that is public, with"
        f" {presets}, the [two protocols](protocol.md).\n"
    ]
    for kind, names in kinds.items():
        parts += [f"## {kind}\n", *(_named(name, home[name]) for name in sorted(names))]
    return "\n".join(parts)


def _named(name: str, place: str) -> str:
    return f"::: {place}\n    options:\n      heading: accord.{name}\n      toc_label: {name}\n"


def _notebook(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what came out."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(one) for one in cell.get("outputs", ())]
    return "\n\n".join([*parts, f"[The notebook itself]({CODE}docs/notebooks/{path.name})"])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output" markdown="0">\n{"".join(data["text/html"])}\n</div>'
    if "image/svg+xml" in data:
        return f'<div class="output" markdown="0">\n{"".join(data["image/svg+xml"])}\n</div>'
    return f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"
