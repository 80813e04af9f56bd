"""The loop of docs/pytorch.md trains, is cut off, and goes on by another schedule."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def run(folder, *arguments):
    path = os.pathsep.join([os.path.join(ROOT, "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "loop.py",
                           os.path.join(ROOT, "README.md"), *arguments], capture_output=True, text=True, check=False,
                          cwd=folder, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})


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
                ended = run(folder, schedule, last)
                self.assertEqual(0, ended.returncode, ended.stderr[-3000:])
                said += ended.stdout
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
