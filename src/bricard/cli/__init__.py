"""`bricard …`: from a mechanism to a picture, without writing a program."""

import sys

try:
    from bricard.cli.commands import main as main
except ModuleNotFoundError as missing:
    if missing.name not in ("typer", "rich"):
        raise
    sys.exit(f"bricard: the command line needs {missing.name}, which is not installed.\npip install 'bricard[cli]'")
