"""`python -m specchat`."""

from specchat.cli import main

main()
