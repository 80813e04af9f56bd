"""The example that trains in PyTorch does learn, in two processes under torchrun."""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


class Example(unittest.TestCase):
    def test_a_pipeline_learns_a_text(self):
        path = os.pathsep.join([os.path.join(ROOT, "python"), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             os.path.join(ROOT, "examples", "train_torch.py"), os.path.join(ROOT, "README.md"), "11", "zb-v"],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})
        self.assertEqual(0, ended.returncode, ended.stderr[-2000:])
        bits = {int(step): float(value) for step, value in re.findall(r"step (\d+): ([0-9.]+) bits", ended.stdout)}
        self.assertEqual([0, 10], sorted(bits))
        self.assertAlmostEqual(8, bits[0], delta=0.3)  # of 256 bytes it knows nothing yet
        self.assertLess(bits[10], 6.5)

    def test_it_stays_below_forty_lines(self):
        with open(os.path.join(ROOT, "examples", "train_torch.py"), encoding="utf-8") as file:
            self.assertLessEqual(len(file.readlines()), 40)


if __name__ == "__main__":
    unittest.main()
