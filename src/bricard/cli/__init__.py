"""The command `bricard`: simulate and inspect mechanisms from a shell."""

import sys

try:
    from bricard.cli.commands import main as main
except ModuleNotFoundError as missing:
    if missing.name not in ("typer", "rich"):
        raise
    sys.exit(f"bricard: the command line needs {missing.name}, which is not installed.\nRun pip install 'bricard[cli]'")
