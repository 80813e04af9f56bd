"""What the commands of `weir` say of themselves, taken apart: for man pages and completion.

    commands = read_commands('build/release/bin/weir')
    commands['partition'].options[0].long

Everything is asked of the program, so that nothing is said in two places.
"""

import os
import re
import subprocess
import tempfile

UNWRAPPED = 'no-dup-args-note,rmargin=10000'  # argp breaks no line
OPTION = re.compile(r'^  (?:-(?P<short>.), |    )--(?P<long>[a-z-]+)(?:=(?P<argument>\S+)|\[=\S+\])?(?:\s+(?P<about>\S.*))?$')
ITEM = re.compile(r'^  (\S+)\s+(\S.*)$')


class Option:
    def __init__(self, short, long, argument, about):
        self.short, self.long, self.argument, self.about = short, long, argument, about


class Command:
    """A command's help: `usages` are what may follow its name; `groups` its options, as (title or '', options);
    `parts` what stands behind these, as (sentences, items), items being (word, what it means); `exits` what the
    command's own exit codes mean; `examples` are lines.
    """

    def __init__(self, name, about):
        self.name, self.about = name, about
        self.usages, self.says, self.groups, self.parts, self.exits, self.examples = [], '', [], [], '', []

    @property
    def options(self):
        return [option for _, options in self.groups for option in options]

    def items(self, title):
        """The words of the list under this title, such as Formats."""
        return [word for said, items in self.parts if said == title + ':' for word, _ in items]


def ask(weir, *arguments):
    """What weir says, on standard output and error; in an empty folder, so that it finds and leaves nothing."""
    env = {**os.environ, 'ARGP_HELP_FMT': UNWRAPPED, 'LC_ALL': 'C.UTF-8'}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([os.path.abspath(weir), *arguments], env=env, cwd=folder, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def read_part(command, lines):
    """One part of what stands behind the options, up to an empty line."""
    if re.match(r'Examples?:$', lines[0]):
        command.examples = [line[2:] for line in lines[1:]]
        return
    said, items = [], []
    for line in lines:
        if not line.startswith('  '):
            said.append(line)
        elif found := ITEM.match(line):
            items.append(found.groups())
        else:
            items[-1] = (items[-1][0], items[-1][1] + ' ' + line.strip())
    said, exits = split_exits(' '.join(said))
    command.exits = command.exits or exits
    if said:
        command.parts.append((said, items))


def split_exits(said):
    """Sentences, and those of exit codes, which are the last."""
    at = re.search(r'\bExit codes? ', said)
    return (said[:at.start()].strip(), said[at.start():]) if at else (said, '')


def read_options(command, lines):
    """The options at the head of these lines, which are taken away."""
    while lines and (not lines[0] or lines[0].startswith(' ')):
        line = lines.pop(0)
        if line.startswith(' ') and not line.startswith('  '):
            command.groups.append((line.strip().rstrip(':'), []))
        elif found := OPTION.match(line):
            if not command.groups or (found['long'] == 'help' and command.groups[-1][0]):
                command.groups.append(('', []))
            command.groups[-1][1].append(Option(**found.groupdict(default='')))
        elif line:
            raise ValueError(f'weir {command.name} --help: not an option: {line}')


def read_command(weir, name, about):
    command = Command(name, about)
    words = [word + '=FILE' if word.startswith('--') else word for word in name.split()]
    lines = ask(weir, *words, '--help').splitlines()
    while found := re.match(r'(?:Usage|  or): +weir ' + name.split(' --')[0] + r' ?(.*)$', lines[0]):
        command.usages.append(found[1])
        lines.pop(0)
    end = lines.index('')
    command.says = ' '.join(lines[:end])
    lines = lines[end:]
    read_options(command, lines)
    for part in '\n'.join(lines).strip().split('\n\n'):
        read_part(command, part.splitlines())
    return command


def read_commands(weir):
    """All commands by name, in the order of `weir --help`; `schedule search` is one, and `sweep --config`."""
    found = re.findall(r'^  ([a-z]+) +(\S.*)$', ask(weir, '--help'), re.MULTILINE)
    commands = {name: read_command(weir, name, about) for name, about in found}
    commands['schedule search'] = read_command(weir, 'schedule search', 'search for the best order for given costs')
    commands['sweep --config'] = read_command(weir, 'sweep --config', 'from a configuration and devices to a plan')
    return commands


def read_exit_codes(weir):
    """(code, what it means) of every command."""
    said = re.search(r'Exit codes: (.*)\.', ' '.join(ask(weir, '--help').split()))[1]
    return [tuple(one.split(' ', 1)) for one in said.split('; ')]


def read_purpose(weir):
    """The sentence of what it is all for."""
    return ask(weir, '--help').splitlines()[1]


def read_version(weir):
    return ask(weir, '--version').split()[1]
