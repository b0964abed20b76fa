"""`python -m vtop`: the same as `vtop`."""

from vtop.cli import main

if __name__ == "__main__":
    main()
