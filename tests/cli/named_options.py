"""Looks up every option that a sentence of ours names: the command that says it must have it.

Which command says a sentence follows from the sources. A sentence of NAME_command.c is that command's; one of any other
file is said by the commands whose file reaches that one by its #includes; "weir NAME ... --option" names the command
itself. A sentence may name several options: one command that says it must have all of them, and where the sentence
begins with an option, every command that has this one.
"""

import os
import re
import subprocess
import sys

ROOMS = ('common', 'profiler', 'schedules', 'partitioner', 'exports', 'device', 'models', 'runtime', 'trainer', 'cli')
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:\\.|[^\'\\])+\'|"((?:\\.|[^"\\])*)"', re.S)
OPTION = re.compile(r'(?<![-\w])--[a-z][a-z0-9-]*')
NAMED = re.compile(r'\bweir (schedule search|sweep --config|[a-z]+)\b')

# Options of other programs, and what may be asked of everything.
TORCHRUN = {'--nproc-per-node', '--no-python'}
SLURM = {'--signal'}
AGAIN = {'--recompute-modules'}
FOREIGN = {'exports/again.c': AGAIN, 'cli/profile_command.c': TORCHRUN, 'cli/train_command.c': SLURM}
# What writes Megatron's arguments names no others, but in "plan with --option" and "(--option)".
MEGATRON, OURS = 'exports/megatron', re.compile(r'(plan with |\()$')
OF_ALL = {'--help', '--usage', '--version'}

# Whose sentences are about another command: an elastic run plans as `weir partition` would; a plan is asked for again
# by other options than those of the command that lacked it.
ABOUT = {'cli/elastic.c': ['partition'], 'exports/export.c': ['partition', 'price', 'sweep'],
         'exports/megatron.c': ['export'], 'exports/megatron_how.c': ['partition']}


def sentences(text):
    """The string literals of a source, those that follow each other as one, with their lines."""
    found, end = [], None
    for match in LITERAL.finditer(text):
        if match[1] is None:
            continue
        if end is not None and not text[end:match.start()].strip():
            found[-1][1] += match[1]
        else:
            found.append([text.count('\n', 0, match.start()) + 1, match[1]])
        end = match.end()
    return found


def sources(root):
    for room in ROOMS:
        for folder, _, files in os.walk(os.path.join(root, room)):
            for file in sorted(files):
                if file.endswith(('.c', '.h', '.cu')):
                    path = os.path.join(folder, file)
                    with open(path, encoding='utf-8') as source:
                        yield os.path.relpath(path, root), source.read()


def said_by(texts):
    """Of each file the commands that reach it."""
    includes, roots = {}, {}
    for path, text in texts.items():
        stem = os.path.splitext(path)[0]
        includes.setdefault(stem, set()).update(
            os.path.splitext(name)[0] for name in re.findall(r'#include "([^"]+)"', text))
        for name in re.findall(r'const struct command command_\w+ = \{ "(\w+)"', text):
            roots[stem] = name
    roots['cli/search_command'], roots['cli/sweep_configs'] = 'schedule search', 'sweep --config'
    headers = {os.path.splitext(path)[0] for path in texts if path.endswith('.h')}
    for stem, used in list(includes.items()):
        if stem not in headers and stem not in roots:  # a part of what stands behind a header of its folder
            for header in used & headers:
                if os.path.dirname(header) == os.path.dirname(stem):
                    includes[header].add(stem)
    said = {}
    for root, name in roots.items():
        todo, seen = [root], set()
        while todo:
            stem = todo.pop()
            if stem not in seen:
                seen.add(stem)
                todo += [other for other in includes.get(stem, ()) if other not in roots]
                said.setdefault(stem, set()).add(name)
    return said


class Commands:
    """Asks each command which options it has, also those that its help does not show."""

    def __init__(self):
        said = subprocess.run(['weir', '--help'], check=True, capture_output=True, text=True).stdout
        self.names = re.findall(r'^  ([a-z]+) ', said, re.M) + ['schedule search', 'sweep --config']
        self.shown, self.known = {}, {}
        for name in self.names:
            said = subprocess.run(self.line(name) + ['--help'], check=True, capture_output=True, text=True).stdout
            self.shown[name] = set(re.findall(r'^ +(?:-., )?(--[a-z0-9-]+)', said, re.M))

    @staticmethod
    def line(name):
        return ['weir'] + [word + '=config.json' if word == '--config' else word for word in name.split()]

    def has(self, name, option):
        if option in OF_ALL or option in self.shown[name] or option in name:
            return True
        if (name, option) not in self.known:  # shown or not, getopt knows it; and by the whole of its name
            tried = subprocess.run(self.line(name) + [option + '=\001'], capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL)
            self.known[name, option] = not re.search(r'unrecognized option|is ambiguous', tried.stderr)
        return self.known[name, option]


def faults_of(path, line, sentence, speakers, commands):
    """What is wrong with the options of one sentence."""
    named, asked = [], []  # of a command that stands before it; of the speaker
    for match in OPTION.finditer(sentence):
        if match[0] in FOREIGN.get(path, ()) or match[0] in OF_ALL:
            continue
        if path.startswith(MEGATRON) and not OURS.search(sentence[:match.start()]):
            continue
        before = [name for name in NAMED.finditer(re.split(r'\\n|; |\. ', sentence[:match.start()])[-1])
                  if name[1] in commands.names]
        (named if before else asked).append((before[-1][1] if before else None, match[0]))
    for name, option in named:
        if not commands.has(name, option):
            yield f'{path}:{line}: "weir {name}" has no {option}'
    options = [option for _, option in asked]
    if not options:
        return
    if not speakers:
        yield f'{path}:{line}: no command reaches this file, which names {options[0]}'
        return
    able = [name for name in speakers if all(commands.has(name, option) for option in options)]
    first = re.match(r'(--[a-z0-9-]+)\b', sentence)
    unable = [name for name in speakers if first and commands.has(name, first[1]) and name not in able]
    if not able:
        yield f'{path}:{line}: none of {", ".join(sorted(speakers))} has {" and ".join(options)}: {sentence[:70]}'
    elif unable:
        yield f'{path}:{line}: {", ".join(sorted(unable))} has {first[1]}, but not all of {" ".join(options)}'


def main():
    texts, commands = dict(sources(sys.argv[1])), Commands()
    said = said_by(texts)
    count, faults = 0, []
    for path, text in texts.items():
        stem = os.path.splitext(path)[0]
        if path == 'cli/weir_main.c':
            continue  # which speaks for all of them, of --help
        for line, sentence in sentences(text):
            if OPTION.search(sentence):
                count += 1
                speakers = set(ABOUT.get(path, ())) | said.get(stem, set())
                faults += faults_of(path, line, sentence, speakers, commands)
    if count < 300:
        faults.append(f'only {count} sentences with options were found; there were 351')
    print('\n'.join(faults) if faults else 'every option that a sentence names is there')
    return 1 if faults else 0


sys.exit(main())
