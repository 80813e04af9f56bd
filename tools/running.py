"""What run-tests, run-bench and run-fuzz share: programs under a time limit."""

import argparse
import concurrent.futures
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_SHOWN = 300  # lines of a failed program's output


def arguments(what):
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument('--build', metavar='DIR', required=True, help='a build folder, such as build/release')
    parser.add_argument('--only', metavar='TEXT', default='',
                        help='run only what has TEXT in its path; several are separated by commas')
    parser.add_argument('--without', metavar='TEXT', default='', help='leave out what has TEXT in its path; likewise')
    return parser


def name_of(path, build):
    """How a program or script is called: its path inside its tree."""
    inside = os.path.relpath(path, build)
    return inside if not inside.startswith(os.pardir) else os.path.relpath(path, ROOT)


def wanted(path, options):
    name = name_of(path, options.build)
    has_any = lambda texts: any(part in name for part in texts.split(',') if part)
    return (not options.only or has_any(options.only)) and not has_any(options.without)


def programs(build, folder, prefix):
    """The executables of build/folder whose names begin with prefix, in order."""
    found = []
    for at, _, names in os.walk(os.path.join(build, folder)):
        found += [os.path.join(at, name) for name in names
                  if name.startswith(prefix) and '.' not in name and os.access(os.path.join(at, name), os.X_OK)]
    return sorted(found)


def scripts(folder):
    """The shell scripts of a folder of the source tree, in order."""
    folder = os.path.join(ROOT, folder)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if name.endswith('.sh')]


def modules(folder):
    """The Python tests of a folder of the source tree and of those in it, in order."""
    return sorted(os.path.join(at, name) for at, _, names in os.walk(os.path.join(ROOT, folder)) for name in names
                  if name.startswith('test_') and name.endswith('.py'))


# Open MPI starts more processes than there are cores, by 4.x and by 5.x, and as root.
MPIRUN = {'OMPI_MCA_rmaps_base_oversubscribe': '1', 'PRTE_MCA_rmaps_default_mapping_policy': ':oversubscribe',
          'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def environment(build, more=None):
    """The caller's, with the built programs first on the PATH; in a language that has all characters."""
    build = os.path.abspath(build)
    path = os.path.join(build, 'bin') + os.pathsep + os.environ.get('PATH', '')
    return {**os.environ, **MPIRUN, 'PATH': path, 'WEIR_BUILD': build, 'WEIR_LIBEXEC': os.path.join(build, 'libexec'),
            'WEIR_PLUGINS': os.path.join(build, 'lib'), 'ROOT': ROOT, 'LC_ALL': 'C.UTF-8', **(more or {})}


class Ended:
    """A program that has ended: how, after how long, with how much processor time, and what it wrote."""

    def __init__(self, code, seconds, busy, out, err, limit=None):
        self.code, self.seconds, self.busy, self.out, self.err = code, seconds, busy, out, err
        self.limit = limit  # the seconds after which it was killed, or None

    def how(self):
        """In words; '' for an ordinary end."""
        if self.limit is not None:
            return f'killed after {self.limit} s'
        if self.code < 0:
            return f'ended by {signal.Signals(-self.code).name}'
        return f'exit code {self.code}' if self.code else ''


running = set()  # process groups, to be ended when we are interrupted
lock = threading.Lock()
stopping = threading.Event()


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it has ended already


def run(command, limit, env, cwd=None, apart=False):
    """Runs a command in a process group of its own, which does not outlive it.

    Its output goes to files and not to pipes, so that something it left
    running cannot keep us waiting. `apart` keeps stdout and stderr apart.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err if apart else out,
                                 env=env, cwd=cwd, start_new_session=True)
        with lock:
            running.add(child.pid)
        if stopping.is_set():
            end_group(child.pid)
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), end_group(child.pid)))
        timer.start()
        # The child stays a zombie until wait4(), so that its number is no other group's when that is ended.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        timer.cancel()
        end_group(child.pid)
        _, status, used = os.wait4(child.pid, 0)
        code = child.returncode = os.waitstatus_to_exitcode(status)
        with lock:
            running.discard(child.pid)
        out.seek(0)
        err.seek(0)
        return Ended(code, time.monotonic() - start, used.ru_utime + used.ru_stime, out.read().decode(errors='replace'),
                     err.read().decode(errors='replace'), limit if late.is_set() else None)


def each(function, items, jobs, waits=lambda item: False):
    """function(item) for all items, `jobs` at a time; yields results as they come. As many again of those that mostly
    wait run beside them."""
    pool, beside = (concurrent.futures.ThreadPoolExecutor(jobs) for _ in range(2))
    try:
        for done in concurrent.futures.as_completed([(beside if waits(item) else pool).submit(function, item)
                                                     for item in items]):
            yield done.result()
    except BaseException:
        stopping.set()
        with lock:
            for group in running:
                end_group(group)
        raise
    finally:
        beside.shutdown(cancel_futures=True)
        pool.shutdown(cancel_futures=True)


def say(line=''):
    print(line, flush=True)


def show(text):
    """Prints output indented, only the end of it when it is long."""
    lines = text.rstrip().splitlines()
    if len(lines) > MOST_SHOWN:
        say(f'    ... {len(lines) - MOST_SHOWN} lines before these')
    for line in lines[-MOST_SHOWN:]:
        say('    ' + line)


def main(function):
    """Runs a tool's main(). Ctrl-C or SIGTERM ends it and what it started, which
    is in process groups of its own and would not hear of either."""
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(function())
    except KeyboardInterrupt:
        sys.exit(130)
