"""A PyTorch that is too old, or none, is one sentence."""

import os
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

import torch

from weir.capture.requirements import NEEDED, check_torch


def said(part, played):
    """The last line of what Python says of a use of the package, beside a torch.py of this text."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write(played)
        ended = subprocess.run([sys.executable, "-c", f"import weir\nweir.{part}"], capture_output=True, text=True,
                               check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, PACKAGE])})
    return ended.stderr.splitlines()[-1] if ended.returncode else "nothing"


class Requirements(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, torch, "__version__", torch.__version__)

    def test_an_older_pytorch_is_refused(self):
        for version in ("2.14.1+cpu", "2.9.0", "1.13.1"):
            torch.__version__ = version
            with self.assertRaises(ImportError) as refused:
                check_torch()
            self.assertEqual(f"PyTorch {version} is here, and weir.profile and weir.torch need 2.15 or later, whose "
                             "schedules take inputs already cut into micro-batches: pip install 'torch>=2.15'",
                             str(refused.exception))

    def test_newer_ones_and_ones_of_ones_own_are_taken(self):
        for version in ("2.15.0", "2.16.0a0+git1234567", "3.0.1", "of my own"):
            torch.__version__ = version
            self.assertIsNone(check_torch())

    def test_both_parts_ask_first(self):
        for part in ("torch", "profile(None, None)"):
            self.assertRegex(said(part, "__version__ = '2.9.0'"), "^ImportError: PyTorch 2.9.0 is here, and weir")
            self.assertEqual("ImportError: there is no PyTorch here, which weir.profile and weir.torch need: pip "
                             "install 'torch>=2.15'", said(part, "raise ModuleNotFoundError('no torch', name='torch')"))
            self.assertEqual("ModuleNotFoundError: no numbers", said(part, "raise ModuleNotFoundError('no numbers')"))

    def test_the_wheel_asks_for_the_same(self):
        with open(os.path.join(PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn(f'torch = ["torch>={NEEDED[0]}.{NEEDED[1]}"]', file.read())


if __name__ == "__main__":
    unittest.main()
