"""Refusals of a capture: one sentence that names the place and what to do."""

try:
    from weir import WeirError
except ImportError:  # the subpackage alone, without the binding beside it

    class WeirError(Exception):  # type: ignore[no-redef]
        """What went wrong, in one sentence; `code` is 1 (the answer is no), 2 (input) or 3 (the machine)."""

        def __init__(self, sentence: str, code: int = 2):
            super().__init__(sentence)
            self.code = code


def refusal(sentence: str) -> "WeirError":
    """An error of what was handed in: exit code 2 of the command."""
    error = WeirError(sentence)
    error.code = 2
    return error
