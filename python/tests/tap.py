"""Runs the tests of one file by unittest and reports in TAP, which tools/run-tests counts.

    python3 python/tests/tap.py python/tests/test_documents.py

What needs PyTorch stands in python/tests/torch/, and is skipped where there is none.
"""

import gc
import importlib.util
import os
import re
import sys
import unittest


class Tap(unittest.TestResult):
    """A line for each test as it ends: `ok 3 - a sentence`, as it is called."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def startTest(self, test):
        """A profile collects garbage often; without this, each time among all that PyTorch has imported."""
        super().startTest(test)
        gc.collect()
        gc.freeze()

    def say(self, good, test, ending=''):
        self.count += 1
        name = re.sub(r'^test_', '', getattr(test, '_testMethodName', str(test)))
        print(f'{"ok" if good else "not ok"} {self.count} - {name}{ending}', flush=True)

    def addSuccess(self, test):
        self.say(True, test)

    def addSkip(self, test, reason):
        print(f'# skip: {reason}')
        self.say(True, test, ' # SKIP')

    def addFailure(self, test, error):
        print(self._exc_info_to_string(error, test))
        self.say(False, test)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            print(subtest)
            print(self._exc_info_to_string(error, test))
            self.failures.append((subtest, ''))
            self.say(False, test)

    def addExpectedFailure(self, test, error):
        self.say(False, test)

    addUnexpectedSuccess = addSuccess


def why_not(path):
    """Why the tests of this file cannot run here, or None."""
    if sys.version_info < (3, 9):
        return 'the package needs Python 3.9 or later'
    if re.search(r'(asan|tsan|fuzz)', os.path.basename(os.environ.get('WEIR_BUILD', ''))):
        return 'a library with sanitizers is for programs that are built with them'
    torch = importlib.util.find_spec('torch')
    if os.path.basename(os.path.dirname(path)) == 'torch' and not (torch and torch.origin):  # but the folder
        return 'this Python has no PyTorch (WEIR_PYTHON names one that has)'
    return None


def main():
    path = os.path.abspath(sys.argv[1])
    name = os.path.splitext(os.path.basename(path))[0]
    reason = why_not(path)
    if reason:
        print(f'# skip: {reason}\nok 1 - {name} # SKIP')
        return
    sys.path[0] = os.path.dirname(path)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except unittest.SkipTest as why:
        print(f'# skip: {why}\nok 1 - {name} # SKIP')
        return
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    print(f'1..{tests.countTestCases()}', flush=True)
    tests.run(Tap())


if __name__ == '__main__':
    main()
