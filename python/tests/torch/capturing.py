"""Documents of small models, for the tests of captures."""

import unittest

import models
import torch
from weir.capture.profiling import profile


def square(result):
    logits = result.logits if hasattr(result, "logits") else result
    return logits.float().square().mean()


def document(model, sample, loss_fn=square, repeats=1, **how):
    made = profile(model, sample, loss_fn, repeats=repeats, **how)
    return made if isinstance(made, dict) else made.document


SMALL = {"vgg16": {"batch": 1}, "resnet50": {"side": 32}}


def made(name):
    """A small model of models.SEVEN, or a skip."""
    torch.manual_seed(7)
    try:
        return models.SEVEN[name](**SMALL.get(name, {}))
    except ImportError as error:
        raise unittest.SkipTest(f"{error.name} is not installed")
