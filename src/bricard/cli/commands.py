"""All commands, one per file; each imports JAX only when it needs it, since that takes a second."""

from bricard.cli import bench as bench
from bricard.cli import chart as chart
from bricard.cli import compare as compare
from bricard.cli import info as info
from bricard.cli import run as run
from bricard.cli import view as view
from bricard.cli.app import app as app
from bricard.cli.app import main as main

# Order of the commands in `--help`.
ORDER = ("list", "info", "run", "chart", "compare", "view", "bench")

app.registered_commands.sort(key=lambda c: ORDER.index(c.name or getattr(c.callback, "__name__", "")))
