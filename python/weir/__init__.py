"""Weir plans, simulates and runs pipeline-parallel training.

    profile = weir.profile(model, sample, loss_fn=loss)
    plan = weir.partition(profile, "2 devices, 16GiB, 12GB/s 5us", schedule="zb-v", micro_batches=16)
    pipeline = weir.torch.pipeline(model, plan)

All but `profile` and `torch` is the library libweir, and needs no PyTorch. What goes wrong is a WeirError, whose text
is one sentence.
"""

from __future__ import annotations

import importlib
from typing import Any

from .documents import (Comparison, Explanation, Plan, Profile, Schedule, Simulation, Sweep, compare, partition,
                        schedule, search, sweep)
from .estimates import ConfigSweep, Estimate, Judgement, estimate, judge, sweep_configs
from .library import WeirError, version as _version

__all__ = ['Comparison', 'ConfigSweep', 'Estimate', 'Explanation', 'Judgement', 'Plan', 'Profile', 'Schedule',
           'Simulation', 'Sweep', 'WeirError', 'compare', 'estimate', 'judge', 'partition', 'profile', 'schedule', 'search',
           'sweep', 'sweep_configs']
__version__ = _version()


def profile(*args: Any, **kwargs: Any) -> Profile:
    """Measures what the layers of a PyTorch model cost: see weir.capture.profile()."""
    from .capture import profile as measure  # needs PyTorch, which nothing else here does
    return measure(*args, **kwargs)


def __getattr__(name: str) -> Any:  # weir.torch is imported when it is named
    if name in ('capture', 'torch'):
        return importlib.import_module('.' + name, __name__)
    if name == 'call':  # a sample of arguments by position and by name
        return importlib.import_module('.capture', __name__).call
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
