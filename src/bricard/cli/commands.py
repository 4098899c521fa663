"""All commands, each in a file of its own; JAX takes a second to import, so none imports it before it needs it."""

from bricard.cli import bench as bench
from bricard.cli import chart as chart
from bricard.cli import compare as compare
from bricard.cli import info as info
from bricard.cli import run as run
from bricard.cli import view as view
from bricard.cli.app import app as app
from bricard.cli.app import main as main

# In `--help`: what there is, what it does, what to do with it.
ORDER = ("list", "info", "run", "chart", "compare", "view", "bench")

app.registered_commands.sort(key=lambda c: ORDER.index(c.name or getattr(c.callback, "__name__", "")))
