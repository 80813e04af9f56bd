"""A machine that tools/gpu-check looks at: runs the bundle's programs there, each thing once."""

import array
import contextlib
import copy
import ctypes
import functools
import glob
import itertools
import os
import random
import re
import shutil
import signal
import site
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_GPU = 'no GPU here'
DEVICE_GIB = 64  # of the GPU, that plans may fill
GPT2_WORDS = 50257


class Unfinished(Exception):
    """A check that came to no good end, and all that its last program has said."""

    def __init__(self, why, said=''):
        super().__init__(why)
        self.said = said


class Skipped(Unfinished):
    """Why a check cannot be made here."""


class Failed(Unfinished):
    """What was found to be wrong."""


@functools.cache
def driver():
    """The driver's library, and the folder that has to be named for it: none, where the machine finds it by itself.

    CUDA brings a libcuda of its own for older drivers, and that one refuses a driver that is newer than itself.
    """
    for folder in ('', '/usr/local/cuda/compat'):
        try:
            return ctypes.CDLL(os.path.join(folder, 'libcuda.so.1')), folder
        except OSError:
            pass
    return None, ''


@functools.cache
def folders_in_packages(part):
    """Where NVIDIA's packages of Python have such a part: site-packages/nvidia/*/lib."""
    roots = [*site.getsitepackages(), site.getusersitepackages()] + [path for path in sys.path if path]
    found = [folder for root in roots for folder in sorted(glob.glob(os.path.join(root, 'nvidia', '*', part)))]
    return list(dict.fromkeys(found))


@functools.cache
def library_folders():
    """Folders of CUDA's libraries: inside Python's packages, and where CUDA installs itself."""
    return [*folders_in_packages('lib'), *filter(os.path.isdir, ['/usr/local/cuda/lib64', driver()[1]])]


def with_libraries(more):
    """More variables for the programs of the bundle: where CUDA's libraries are. Those of the bundle they find."""
    names = [*library_folders(), *filter(None, [os.environ.get('LD_LIBRARY_PATH')])]
    return {'LD_LIBRARY_PATH': ':'.join(names), **more}


def why_no_gpu():
    """None where there is one; asked of the driver itself, so that no other program is needed."""
    library, _ = driver()
    if not library:
        return f'{NO_GPU}: the NVIDIA driver (libcuda.so.1) is not installed'
    count = ctypes.c_int(0)
    status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if status or count.value == 0:
        return f'{NO_GPU}: the driver is installed and knows no device (its answer is {status})'
    return None


def found_program(name, *more):
    """Where a program of NVIDIA's is: on the PATH, with CUDA, in Python's packages, or in one of these folders."""
    folders = [folder for place in ('/usr/local/cuda/bin', *more) for folder in sorted(glob.glob(place))]
    return shutil.which(name, path=os.pathsep.join([os.environ.get('PATH', ''), *folders, *folders_in_packages('bin')]))


def losses(out):
    found = [float(loss) for loss in re.findall(r'^step +\d+ of \d+\s+loss (\S+)', out, re.M)]
    if not found:
        raise Failed('weir train printed no losses')
    return found


def speed_of(out):
    """Tokens per second of the median step."""
    speeds = [1000 * float(number) for number in re.findall(r'([\d.]+) k tokens/s', out)]
    if not speeds:
        raise Failed('weir train printed no tokens/s')
    return sorted(speeds)[len(speeds) // 2]


def iteration_of(out):
    """Of a training: nanoseconds per iteration as measured, and measured over predicted."""
    found = re.search(r'iteration time\s+\S+ \S+\s+([\d.]+) (ns|us|ms|s)\s+measured / predicted (\S+)', out)
    if not found:
        raise Failed('weir train printed no iteration time')
    return float(found[1]) * {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}[found[2]], float(found[3])


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def last_line(out):
    return (out.strip().splitlines() or ['nothing said'])[-1]


class Children:
    """Processes that were started and have not ended: so that they can be ended from outside, and are counted."""

    def __init__(self):
        self.lock, self.running, self.started, self.stopped = threading.Lock(), set(), 0, False

    def start(self, command, environment, **how):
        """Starts one in a process group of its own, with which its own children end."""
        with self.lock:
            if self.stopped:
                raise Skipped('nothing is started any more')
            process = subprocess.Popen(command, env={**os.environ, 'LC_ALL': 'C', **environment},
                                       stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True,
                                       **how)
            self.started += 1
            self.running.add(process)
        return process

    @staticmethod
    def kill(process):
        """What has not ended by itself, and what that has started."""
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(process.pid, signal.SIGKILL)

    def end(self, process, seconds=2):
        """Ends it; returns the exit code, None of what hangs on."""
        self.kill(process)
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:  # it waits for its GPU's driver, and does not hear
            code = None
        with self.lock:
            self.running.discard(process)
        return code

    def stop(self):
        """Ends all, for good, and waits a moment."""
        with self.lock:
            self.stopped, running = True, list(self.running)
        for process in running:
            self.kill(process)
        end = time.monotonic() + 1
        for process in running:
            self.end(process, max(0.01, end - time.monotonic()))


class Machine:
    """Runs programs in a folder that goes away, until a deadline.

    Rows that run at the same time have one each, by until(), and share all else. What programs that fail have said
    is kept in a file, and files for people stand beside `output`, where there is one.
    """

    def __init__(self, folder, device, output=None, small=False):
        self.folder, self.base, self.output = folder, device, output
        self.children, self.of_peer = Children(), ()
        self.on_gpu = device.startswith('cuda')
        self.dry = small or not self.on_gpu  # only tried: small models, and no speed is judged
        self.small = 'gpt-nano,' + ('width=32,blocks=3,heads=2,sequence=16,micro_batch=2' if self.dry else
                                    'width=64,blocks=4,heads=4,sequence=64')
        self.deadline = 0
        self.known, self.locks, self.numbers = {}, {}, itertools.count(1)

    # --- names

    def device(self, words=''):
        """The device with more words: cuda:bf16, cpu:queued,bf16."""
        if not words:
            return self.base
        return self.base + (',' if ':' in self.base else ':') + words

    def in_kind(self, kind):
        """The device in a kind of numbers: '' is fp32."""
        if kind == 'tf32' and not self.on_gpu:
            raise Skipped('a processor has no TF32')
        return self.device(kind)

    def one_gpu(self):
        """Named by its number, all processes take the same."""
        return 'cuda:0' if self.on_gpu else self.base

    def gpt2(self, *words):
        """gpt2, its head tied, with sizes of one's own; where all this is only tried, a model that a processor runs in
        a second."""
        return ','.join((self.small, 'tied') if self.dry else ('gpt2', 'tied', *words))

    # --- running

    def until(self, deadline):
        other = copy.copy(self)
        other.deadline = deadline
        return other

    def seconds_left(self):
        return max(1, self.deadline - time.monotonic())

    def once(self, key, make):
        """What several rows need is made for the first; what has failed then fails for all."""
        with self.locks.setdefault(key, threading.Lock()):
            if key not in self.known:
                try:
                    self.known[key] = make()
                except (Failed, Skipped) as why:
                    self.known[key] = why
        if isinstance(self.known[key], Exception):
            raise self.known[key]
        return self.known[key]

    def program(self, name):
        path = os.path.join(HERE, 'bin', name)
        if not os.path.exists(path):
            raise Failed(f'{path} is not there: run gpu-check inside the bundle')
        return path

    def beside(self, ending):
        """A file beside the table, FILE.ENDING; without a table it goes away with all else."""
        return os.path.abspath(self.output) + ending if self.output else os.path.join(self.folder, 'table' + ending)

    def note(self, ending, text):
        """More for a file beside the table."""
        with self.locks.setdefault(ending, threading.Lock()):
            with open(self.beside(ending), 'a', encoding='utf-8') as file:
                file.write(text)

    def keep(self, named, said):
        """What a program that failed has said, whole, and at once: also of those that are ended with all."""
        self.note('.failed', f'--- {named}\n{said.rstrip()}\n\n')

    def told(self, *command, **environment):
        """What a program of the machine says, whatever it is worth."""
        if not shutil.which(command[0]):
            return 'not there'
        try:
            return self.run_other(*command, **environment)
        except Unfinished as why:
            return f'{why}\n{why.said}'

    def run(self, *command, wrap=(), **environment):
        """Runs a program of the bundle, and returns what it has said."""
        return self.run_other(*wrap, self.program(command[0]), *command[1:], named=' '.join(command),
                              **with_libraries(environment))

    def run_other(self, *command, named=None, skips=None, **environment):
        """Runs any program; the exit code `skips` says that it cannot run here, and its last line why.

        What it says goes to a file, so that nobody waits for what it may leave running.
        """
        named, path = named or ' '.join(command), os.path.join(self.folder, self.numbered('said'))
        with open(path, 'w', encoding='utf-8') as said:
            started = self.children.start(command, environment, cwd=self.folder, stdout=said)
        try:
            how = f'exit code {started.wait(timeout=self.seconds_left())}'
        except subprocess.TimeoutExpired:
            how = 'did not end in its time'
        out = read(path)
        if self.children.stopped:
            how = 'was ended with all'
        if how not in ('exit code 0', f'exit code {skips}'):
            self.keep(f'{named}: {how}', out)  # before it is waited for: it may not hear
        self.children.end(started)
        if how == 'exit code 0':
            return out
        if how == f'exit code {skips}':
            raise Skipped(last_line(out), out)
        faults = [line for line in out.splitlines() if 'FAILED' in line]
        why = f': {(faults or [last_line(out)])[0]}' if how.startswith('exit') else ''
        raise Failed(f'{named}: {how}{why}', out)

    # --- what rows share

    def numbered(self, name):
        """A file name that nobody has had."""
        return f'{next(self.numbers)}.{name}'

    def data(self, model):
        """Random tokens of gpt2's whole vocabulary for it, and for the others text."""
        if model.startswith('gpt2'):
            return self.once('tokens', self.write_tokens)
        return self.once('text', self.write_text)

    def write_text(self):
        lines = 6000 if self.dry else 60000  # a tenth of the text is held out, and evaluated after a training
        with open(os.path.join(self.folder, 'text.txt'), 'w', encoding='ascii') as text:
            text.writelines(f'{i} and {i * i}\n' for i in range(lines))
        return 'text.txt'

    def write_tokens(self, count=200000):
        tokens = array.array('H', random.Random(1).choices(range(GPT2_WORDS), k=count))
        if sys.byteorder != 'little':
            tokens.byteswap()
        with open(os.path.join(self.folder, 'tokens.tok'), 'wb') as file:
            file.write(b'weir.tok' + struct.pack('<IIQ', 1, GPT2_WORDS, count) + tokens.tobytes())
        return 'tokens.tok'

    def profile(self, model, device, *options):
        def make():
            name = self.numbered('profile.json')
            self.run('weir', 'profile', model, '--device', device, *options, '-o', name)
            return name
        return self.once(('profile', model, device, options), make)

    def plan(self, schedule, device, model, ranks=4, micro_batches=8, profiled=(), planned=()):
        """The name of a plan of a model as it was measured on a device, with such options of weir profile and
        weir partition."""
        def make():
            name = self.numbered('plan.json')
            cluster = f'{ranks} devices, {DEVICE_GIB // ranks}GiB, 200GB/s 5us, host 64GiB 25GB/s'
            optimizer = 'adamw-master' if 'bf16' in device or 'fp16' in device else 'adamw'
            apart = ('--tied', 'apart') if ',tied' in model and ranks > 1 else ()
            self.run('weir', 'partition', self.profile(model, device, *profiled), '--cluster', cluster,
                     '--schedule', schedule, '--micro-batches', str(micro_batches), '--optimizer', optimizer, *apart,
                     *planned, '-o', name)
            return name
        return self.once(('plan', schedule, device, model, ranks, micro_batches, profiled, planned), make)

    def train(self, plan, device, model, steps=8, wrap=(), **environment):
        return self.run('weir', 'train', model, '--plan', plan, '--device', device, '--data', self.data(model),
                        '--steps', str(steps), wrap=wrap, **environment)

    def trained(self, plan, device, model, steps=8):
        """What a training has printed that other rows look at, too."""
        return self.once(('trained', plan, device, model, steps), lambda: self.train(plan, device, model, steps))

    # --- several processes

    def start_ranks(self, ranks, *command, **environment):
        """Processes of one command on one GPU; NCCL takes each for a machine of its own, and goes by sockets."""
        meeting, started = os.path.join(self.folder, self.numbered('meeting')), []
        for rank in range(ranks):
            own = with_libraries({
                'WEIR_RANK': str(rank), 'WEIR_RANKS': str(ranks), 'WEIR_RENDEZVOUS': meeting,
                'NCCL_HOSTID': f'rank{rank}', 'NCCL_SOCKET_IFNAME': 'lo', 'NCCL_IB_DISABLE': '1',
                'NCCL_MNNVL_ENABLE': '0', 'NCCL_DEBUG': 'WARN', 'NCCL_DEBUG_FILE': f'{meeting}.nccl{rank}',
                **environment})
            with open(f'{meeting}.rank{rank}', 'w', encoding='utf-8') as said:
                started.append(self.children.start([self.program(command[0]), *command[1:]], own, cwd=self.folder,
                                                   stdout=said))
        return Ranks(self, meeting, started, ' '.join(command))

    def run_ranks(self, ranks, *command, **environment):
        """What rank 0 has said, where all ended well."""
        started = self.start_ranks(ranks, *command, **environment)
        codes = started.end(self.seconds_left())
        said = [f'rank {rank} ({"not in its time" if code is None else code}): {last_line(started.said_by(rank))}'
                for rank, code in enumerate(codes) if code != 0]
        if said:
            raise started.failed('; '.join(said))
        return started.said_by(0)


class Ranks:
    """Processes that were started together, as `named`; what they say is in files that begin with `said`."""

    def __init__(self, machine, said, processes, named):
        self.machine, self.said, self.processes, self.named = machine, said, processes, named

    def said_by(self, rank):
        return read(f'{self.said}.rank{rank}')

    def warnings(self):
        """What NCCL has warned of, each once."""
        lines = ''.join(read(path) for path in sorted(glob.glob(f'{self.said}.nccl*')))
        return list(dict.fromkeys(re.findall('NCCL WARN (.*)', lines)))

    def failed(self, why):
        """What is raised for them: why, and the first warnings of NCCL; all that they have said is kept."""
        named, warnings = f'{len(self.processes)} processes of {self.named}', self.warnings()
        said = [f'rank {rank}:\n{self.said_by(rank)}' for rank in range(len(self.processes))]
        self.machine.keep(named, '\n'.join(said + [f'NCCL warns: {warning}' for warning in warnings]))
        return Failed('; '.join([f'{named}: {why}', *(f'NCCL warns: {warning}' for warning in warnings[:3])]))

    def end(self, seconds):
        """Their exit codes; what has not ended in that time is killed, and its code is None."""
        end, codes = time.monotonic() + seconds, []
        for process in self.processes:
            try:
                codes.append(process.wait(timeout=max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)
        for process in self.processes:
            self.machine.children.kill(process)
        end = time.monotonic() + 2
        for process in self.processes:
            self.machine.children.end(process, max(0.01, end - time.monotonic()))
        return codes
