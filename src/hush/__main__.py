"""`python -m hush`: the command line without its script."""

from hush.cli.main import main

if __name__ == "__main__":
    main(prog_name="hush")
