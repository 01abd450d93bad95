"""`python -m specchat`."""

from specchat.cli.main import main

main()
