"""The structs of weir/library.py are those of weir.h, and every function that it calls is declared there."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import unittest

from weir import library

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
HEADER = os.path.join(ROOT, 'api', 'weir.h')
LAYERS = os.path.join(ROOT, 'common', 'public', 'weir_layer.h')  # which weir.h includes


def read_headers():
    """What both declare, without comments."""
    text = ''
    for header in (HEADER, LAYERS):
        with open(header, encoding='utf-8') as file:
            text += re.sub('//.*', '', file.read())
    return text


def structs():
    """Of each of the module's structs its name in C."""
    return {'weir_' + re.sub('(?<!^)(?=[A-Z])', '_', name).lower(): value for name, value in vars(library).items()
            if isinstance(value, type) and issubclass(value, ctypes.Structure)
            and value not in (ctypes.Structure, library.Options)}


def fields(struct):
    """The names of a struct's fields, of which all options have the first."""
    inherited = library.Options._fields_ if issubclass(struct, library.Options) else []
    return [field for field, *_ in [*inherited, *struct._fields_]]


class Layout(unittest.TestCase):
    def test_every_field_stands_where_the_compiler_puts_it(self):
        compiler = shutil.which(os.environ.get('CC', 'gcc')) or shutil.which('cc')
        if not compiler:
            self.skipTest('there is no C compiler')
        lines, ours = [], []
        for name, struct in structs().items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            ours.append(f'{name} {ctypes.sizeof(struct)}')
            for field in fields(struct):
                lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), '
                             f'sizeof(((struct {name} *)0)->{field}));')
                place = getattr(struct, field)
                ours.append(f'{name}.{field} {place.offset} {place.size}')
        with open('layout.c', 'w', encoding='utf-8') as file:
            file.write(f'#include "{HEADER}"\n#include <stdio.h>\nint main(void)\n{{\n' + '\n'.join(lines) + '\n}\n')
        subprocess.run([compiler, '-std=c11', '-I', os.path.dirname(LAYERS), 'layout.c', '-o', 'layout'],
                       check=True)
        theirs = subprocess.run(['./layout'], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(ours, theirs)

    def test_every_field_of_the_header_is_there(self):
        header = read_headers()
        for name, struct in structs().items():
            body = re.search(rf'struct {name} \{{(.*?)\n\}};', header, re.S)[1]
            theirs = [re.search(r'\(\*(\w+)\)|(\w+)(?:\[\d+\])?\s*$', part).group(1, 2)
                      for statement in body.split(';') if statement.strip()
                      for part in re.sub(r'\([^*].*?\)$', '', statement.strip()).split(',')]
            self.assertEqual([a or b for a, b in theirs], fields(struct), name)

    def test_options_have_their_size(self):
        options = [struct for name, struct in structs().items() if name.endswith('_options')]
        self.assertTrue(options)
        for struct in options:
            self.assertTrue(issubclass(struct, library.Options), struct)
            self.assertEqual(struct().size, ctypes.sizeof(struct))


class Imports(unittest.TestCase):
    def test_nothing_but_the_library_is_needed(self):
        script = ('import sys\nfrom weir import *\nassert "torch" not in sys.modules\n'
                  'import weir\nassert weir.__version__\ntry:\n    weir.nothing\n'
                  'except AttributeError as why:\n    print(why)')
        said = subprocess.run([sys.executable, '-c', script], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said, "module 'weir' has no attribute 'nothing'\n")

    def test_a_library_that_is_not_there_is_a_sentence(self):
        ended = subprocess.run([sys.executable, '-c', 'import weir'], capture_output=True, text=True,
                               env={**os.environ, 'WEIR_LIBRARY': __file__})
        self.assertRegex(ended.stderr, 'ImportError: libweir cannot be loaded .*: install the wheel that `scons wheel`')

    def test_a_plan_is_not_taken_for_a_profile(self):
        import weir
        made = weir.schedule('1f1b', ranks=2, micro_batches=2)
        for wrong in (made, {'format': 'weir.profile'}, 12, None):
            with self.assertRaisesRegex((TypeError, ctypes.ArgumentError), 'a weir.Profile is wanted'):
                weir.partition(wrong, '2 devices, 1GiB, 1GB/s 1us', schedule='1f1b', micro_batches=2)


class Functions(unittest.TestCase):
    def test_each_takes_as_many_arguments_as_the_header_says(self):
        header = ' '.join(read_headers().split())
        for name, (_, *takes) in library._CALLS.items():
            match = re.search(rf'\bweir_{name}\(([^)]*)\);', header)
            self.assertIsNotNone(match, name)
            self.assertEqual(len(takes) + 1, len(match[1].split(',')), name)

    def test_numbers_that_do_not_fit_are_refused(self):
        for value, sentence in ((-1, 'ranks: -1 is not between 0 and 4294967295'),
                                (2**32, 'ranks: 4294967296 is not between 0 and 4294967295')):
            with self.assertRaises(library.WeirError) as refused:
                library.whole(value, 'ranks')
            self.assertEqual((str(refused.exception), refused.exception.code), (sentence, 2))

    def test_quantities_have_units_or_are_numbers(self):
        self.assertEqual(library.size('16GiB', 'memory'), 16 << 30)
        self.assertEqual(library.size(1000, 'memory'), 1000)
        self.assertEqual(library.time_ns('1.5ms', 'deadline'), 1500000)
        self.assertEqual(library.time_ns(2.5, 'deadline'), 2500000000)
        with self.assertRaises(library.WeirError) as refused:
            library.size('16 apples', 'memory')
        self.assertEqual(refused.exception.code, 2)
        self.assertTrue(str(refused.exception).startswith('memory: '), refused.exception)


if __name__ == '__main__':
    unittest.main()
