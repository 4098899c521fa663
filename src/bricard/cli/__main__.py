"""`python -m bricard.cli`, where scripts are not on the path."""

from bricard.cli import main

main()
