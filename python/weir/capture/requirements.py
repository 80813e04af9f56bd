"""Which PyTorch this needs: the first whose pipelining takes stages as weir.torch hands them over."""

import re

NEEDED = (2, 15)


def check_torch() -> None:
    """Raises an ImportError of one sentence where there is no PyTorch, or one that is too old."""
    needed = ".".join(map(str, NEEDED))
    how = f"pip install 'torch>={needed}'"
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise  # one that is broken says best itself what it lacks
        raise ImportError(f"there is no PyTorch here, which weir.profile and weir.torch need: {how}") from None
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found and tuple(map(int, found.groups())) < NEEDED:
        raise ImportError(f"PyTorch {torch.__version__} is here, and weir.profile and weir.torch need {needed} or "
                          f"later, whose schedules take inputs already cut into micro-batches: {how}")
