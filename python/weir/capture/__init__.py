"""Real PyTorch models in: taken apart (parts), and measured part by part (profile)."""

from .parts import Part, Parts, parts
from .profiling import profile

__all__ = ["Part", "Parts", "parts", "profile"]
