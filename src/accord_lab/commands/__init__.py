"""The commands of the lab, which `accord lab` lists. Slow imports wait for their command."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from accord.cli.options import with_groups
from accord_lab.commands.leaderboard import injected, leaderboard, partners
from accord_lab.commands.reproduce import reproduce
from accord_lab.commands.studies import bars, exposure, labels
from accord_lab.commands.verify import verify

if find_spec("matplotlib") is None:
    raise ImportError("matplotlib is not installed; run pip install 'accord[lab]'")

lab = typer.Typer(
    help="Reproduce the paper, and study denoising, labels and noise.", no_args_is_help=True, rich_markup_mode=None
)
for command in (reproduce, leaderboard, labels, injected, partners, bars, exposure, verify):
    lab.command()(with_groups(command))
