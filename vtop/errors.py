"""The one kind of error a user causes: a line that says what was expected and what to do."""


class VtopError(Exception):
    """What the user asked for cannot be done. Printed as one line on stderr; no traceback.

    What the world does (a refused connection, a full disk) is an event of the recording, not an error;
    what vtop does wrong is a fault (see faults.py).
    """

    def __init__(self, line: str, *, exit_code: int = 2) -> None:
        super().__init__(line)
        self.exit_code = exit_code
