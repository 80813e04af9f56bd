"""Random modules in pipelines are right or refused: fuzz_modules.py draws and compares them."""

import os
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from fuzz_modules import fuzz

FIRST, COUNT = (0, 760) if os.environ.get("WEIR_SOAK") else (187, 12)  # of 760 some 500 are run


class Fuzz(unittest.TestCase):
    def test_each_module_is_right_or_refused(self):
        outcomes = list(fuzz(range(FIRST, FIRST + COUNT)))
        bad = [str(outcome) for outcome in outcomes if not outcome.is_good()]
        right = sum(outcome.what == "right" for outcome in outcomes)
        print(f"# seeds {FIRST} to {FIRST + COUNT - 1}: {right} right, {len(outcomes) - right - len(bad)} refused")
        self.assertEqual([], bad, "\n".join(bad))
        self.assertGreaterEqual(right, COUNT // 2)  # or the fuzz draws modules that nothing takes


if __name__ == "__main__":
    unittest.main()
