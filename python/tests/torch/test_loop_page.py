"""The loop of docs/pytorch.md trains, is cut off, and goes on by another schedule."""

import os
import re
import tempfile
import unittest

import weir.torch  # noqa: F401  # before ranks are forks

from ranks import run_script, setUpModule, tearDownModule  # noqa: F401

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


class Page(unittest.TestCase):
    def test_the_loop_trains_and_goes_on(self):
        with open(os.path.join(ROOT, "docs", "pytorch.md"), encoding="utf-8") as file:
            page = file.read()
        code = re.search(r"```python\n(# loop.py\n.*?)```", page, re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "loop.py"), "w", encoding="utf-8") as file:
                file.write(code)
            said = ""
            for schedule, last in (("1f1b", "20"), ("zb-v", "40")):
                said += "".join(run_script(2, folder, "loop.py", os.path.join(ROOT, "README.md"), schedule, last))
        losses = {int(step): float(loss) for step, loss in re.findall(r"step (\d+): ([0-9.]+)", said)}
        held_out = [float(loss) for loss in re.findall(r"held out: ([0-9.]+)", said)]
        self.assertEqual([0, 9, 19, 20, 29, 39], sorted(losses))
        self.assertAlmostEqual(losses[19], losses[20], delta=0.5)  # it has gone on
        self.assertLess(losses[39], losses[19])
        self.assertLess(held_out[1], held_out[0])
        for name in re.findall(r"`(test_\w+)` \|", page):
            self.assertTrue(os.path.exists(os.path.join(os.path.dirname(__file__), f"{name}.py")), name)


if __name__ == "__main__":
    unittest.main()
