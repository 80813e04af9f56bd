"""The wheel that `scons wheel` has made, installed where nothing of this tree is to be seen."""

import glob
import os
import subprocess
import sys
import unittest
import zipfile

BUILD = os.environ.get('WEIR_BUILD', '')
SCRIPT = '''
import json, sys, weir
assert weir.__file__.startswith(sys.prefix), weir.__file__
profile = weir.Profile.from_json(sys.stdin.read())
plan = weir.partition(profile, "2 devices, 16MiB, 10GB/s 10us", schedule="1f1b", micro_batches=8)
print(plan.document["certificate"]["proved"])
print(plan.second_opinion(profile).split(":")[0])
'''


def wheel():
    """The wheel, if it is not older than the library."""
    found = glob.glob(os.path.join(BUILD, 'wheel', '*.whl'))
    library = os.path.join(BUILD, 'lib', 'libweir.so')
    if not found or os.path.getmtime(found[0]) < os.path.getmtime(library):
        raise unittest.SkipTest('there is no wheel of this library (scons wheel makes it)')
    return found[0]


class Wheel(unittest.TestCase):
    def test_it_plans_without_the_tree_and_a_compiler(self):
        from test_documents import numbers
        import json
        made = wheel()
        subprocess.run([sys.executable, '-m', 'venv', 'installed'], check=True)
        python = os.path.join('installed', 'bin', 'python')
        # Not even a shell is on its PATH, and all that it loads must be what the wheel brings.
        alone = {'PATH': os.path.abspath(os.path.join('installed', 'bin'))}
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--no-index', '--no-deps', made], check=True,
                       env=alone)
        said = subprocess.run([python, '-c', SCRIPT], check=True, env=alone, text=True, stdout=subprocess.PIPE,
                              input=json.dumps(numbers(4))).stdout
        self.assertEqual(said.splitlines()[0], 'True')
        with zipfile.ZipFile(made) as inside:
            if any(name.endswith('libexec/weir-glpk') for name in inside.namelist()):
                self.assertEqual(said.splitlines()[1], 'Second opinion (GLPK, optimal)')

    def test_each_library_that_it_carries_has_its_notice(self):
        with zipfile.ZipFile(wheel()) as inside:
            names = inside.namelist()
            [listed] = [name for name in names if name.endswith('licenses/CARRIED.txt')]
            rows = [line.split() for line in inside.read(listed).decode().splitlines() if line.endswith('.txt')]
        folder = os.path.dirname(listed)
        self.assertTrue(rows)
        for package, _, notice in rows:
            self.assertIn(f'{folder}/{notice}', names, package)
        carried = [name for name in names if name.startswith('weir.libs/') and '.so' in name]
        for name in carried:  # libdnnl-a4f9d805.so.2.6 is of libdnnl2
            stem = os.path.basename(name).split('-')[0].lower()
            self.assertTrue(any(stem in package for package, *_ in rows), name)


if __name__ == '__main__':
    unittest.main()
