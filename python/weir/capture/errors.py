"""Refusals of a capture: one sentence that names the place and what to do."""

from ..library import WeirError


def refusal(sentence: str) -> WeirError:
    """An error of what was handed in: exit code 2 of the command."""
    return WeirError(sentence)
