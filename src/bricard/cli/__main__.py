"""`python -m bricard.cli`, for use when the `bricard` script is not on the path."""

from bricard.cli import main

main()
