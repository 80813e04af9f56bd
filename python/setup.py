"""Puts the built library into the package: `scons` first, then `pip install ./python`, or `scons wheel` for both.

The library stands in weir/lib and its solver in weir/libexec, as in a prefix; they need no compiler any more.
"""

import atexit
import ctypes
import os
import shutil
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # older setuptools leave it to the package `wheel`
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get('WEIR_BUILD') or os.path.join(HERE, os.pardir, 'build', 'release')
LIBRARY = os.path.join(BUILD, 'lib', 'libweir.so')
SOLVER = os.path.join(BUILD, 'libexec', 'weir-glpk')  # built where GLPK is


def version():
    """The library's, whose wheel this is."""
    if not os.path.exists(LIBRARY):
        raise SystemExit(f'weir: {LIBRARY} is not there: build the library by running `scons` in the tree of Weir, and '
                         'install from that tree (or say in WEIR_BUILD where it is built)')
    library = ctypes.CDLL(LIBRARY)
    library.weir_version.restype = ctypes.c_char_p
    return library.weir_version().decode()


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        for source, folder in ((LIBRARY, 'lib'), (SOLVER, 'libexec')):
            if os.path.exists(source):
                target = os.path.join(self.build_lib, 'weir', folder)
                os.makedirs(target, exist_ok=True)
                shutil.copy(source, target)


class ForThisMachine(Distribution):
    """What is of no use on another kind of machine."""

    def has_ext_modules(self):
        return True


class ForAnyPython(bdist_wheel):
    """The library is bound by ctypes, which every Python 3 has."""

    def get_tag(self):
        return 'py3', 'none', super().get_tag()[2]


WORK = tempfile.mkdtemp(prefix='weir-build-')  # not in the tree, where a file that is gone would be found again
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
setup(version=version(), distclass=ForThisMachine,
      options={'build': {'build_base': WORK}, 'egg_info': {'egg_base': WORK}},
      cmdclass={'build_py': BuildWithLibrary, 'bdist_wheel': ForAnyPython})
