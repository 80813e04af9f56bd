"""Real PyTorch models in: taken apart (parts), and measured part by part (profile).

`recording` runs a model and writes down its steps, `leaves` says which modules stay whole, `parts` makes modules of
ranges of steps. `replay` runs parts by themselves; `times` and `clock`, `memory` and `dispatch` measure them so;
`document` puts the numbers together, `profiling` all of it. `requirements` says which PyTorch that takes.
"""

from .requirements import check_torch

check_torch()  # before any of the others imports it

from .dispatch import measure_dispatch
from .parts import Part, Parts, parts
from .profiling import profile
from .recording import call

__all__ = ["Part", "Parts", "call", "measure_dispatch", "parts", "profile"]
