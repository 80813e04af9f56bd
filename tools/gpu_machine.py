"""A machine that tools/gpu-check looks at: runs the bundle's programs there, each thing once."""

import array
import copy
import ctypes
import glob
import itertools
import os
import random
import re
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


class Skipped(Exception):
    """Why a check cannot be made here."""


class Failed(Exception):
    """What was found to be wrong."""


def library_folders():
    """Folders of CUDA's libraries: inside Python's packages, and where CUDA installs itself."""
    roots = [*site.getsitepackages(), site.getusersitepackages()] + [path for path in sys.path if path]
    found = [folder for root in roots for folder in sorted(glob.glob(os.path.join(root, 'nvidia', '*', 'lib')))]
    found += [folder for folder in ('/usr/local/cuda/lib64', '/usr/local/cuda/compat') if os.path.isdir(folder)]
    return list(dict.fromkeys(found))


def child_environment(**more):
    names = [os.path.join(HERE, 'lib'), *library_folders(), *filter(None, [os.environ.get('LD_LIBRARY_PATH')])]
    return {**os.environ, 'LD_LIBRARY_PATH': ':'.join(names), 'LC_ALL': 'C', **more}


def why_no_gpu():
    """None where there is one; asked of the driver itself, so that no other program is needed."""
    try:
        driver = ctypes.CDLL('libcuda.so.1')
    except OSError:
        return f'{NO_GPU}: the NVIDIA driver (libcuda.so.1) is not installed'
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return f'{NO_GPU}: the driver is installed and knows no device'
    return None


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


def last_line(out):
    return (out.strip().splitlines() or ['nothing said'])[-1]


class Machine:
    """Runs programs in a folder that goes away, until a deadline.

    Rows that run at the same time have one each, by until(), and share all else.
    """

    def __init__(self, folder, device):
        self.folder, self.base = folder, device
        self.dry = not device.startswith('cuda')  # tried on a processor: small models, and no speed is judged
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
        if kind == 'tf32' and self.dry:
            raise Skipped('a processor has no TF32')
        return self.device(kind)

    def one_gpu(self):
        """Named by its number, all processes take the same."""
        return self.base if self.dry else 'cuda:0'

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

    def run(self, *command, wrap=()):
        """Runs a program of the bundle, and returns what it has said."""
        return self.run_other(*wrap, self.program(command[0]), *command[1:], named=' '.join(command))

    def run_other(self, *command, named=None, skips=None):
        """Runs any program; the exit code `skips` says that it cannot run here, and its last line why."""
        named = named or ' '.join(command)
        started = subprocess.Popen(command, cwd=self.folder, env=child_environment(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            out, _ = started.communicate(timeout=self.seconds_left())
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.communicate()
            raise Failed(f'{named}: did not end in its time') from None
        if started.returncode == skips:
            raise Skipped(last_line(out))
        if started.returncode != 0:
            faults = [line for line in out.splitlines() if 'FAILED' in line]
            raise Failed(f'{named}: exit code {started.returncode}: {(faults or [last_line(out)])[0]}')
        return out

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
        with open(os.path.join(self.folder, 'text.txt'), 'w', encoding='ascii') as text:
            text.writelines(f'{i} and {i * i}\n' for i in range(60000))
        return 'text.txt'

    def write_tokens(self, count=200000):
        tokens = array.array('H', random.Random(1).choices(range(GPT2_WORDS), k=count))
        if sys.byteorder != 'little':
            tokens.byteswap()
        with open(os.path.join(self.folder, 'tokens.tok'), 'wb') as file:
            file.write(b'weir.tok' + struct.pack('<IIQ', 1, GPT2_WORDS, count) + tokens.tobytes())
        return 'tokens.tok'

    def profile(self, model, device):
        def make():
            name = self.numbered('profile.json')
            self.run('weir', 'profile', model, '--device', device, '-o', name)
            return name
        return self.once(('profile', model, device), make)

    def plan(self, schedule, device, model, ranks=4, micro_batches=8):
        """The name of a plan of a model as it was measured on a device."""
        def make():
            name = self.numbered('plan.json')
            cluster = f'{ranks} devices, {DEVICE_GIB // ranks}GiB, 200GB/s 5us'
            optimizer = 'adamw-master' if 'bf16' in device else 'adamw'
            apart = ('--tied', 'apart') if ',tied' in model and ranks > 1 else ()
            self.run('weir', 'partition', self.profile(model, device), '--cluster', cluster, '--schedule', schedule,
                     '--micro-batches', str(micro_batches), '--optimizer', optimizer, *apart, '-o', name)
            return name
        return self.once(('plan', schedule, device, model, ranks, micro_batches), make)

    def train(self, plan, device, model, steps=8, wrap=()):
        return self.run('weir', 'train', model, '--plan', plan, '--device', device, '--data', self.data(model),
                        '--steps', str(steps), wrap=wrap)

    def trained(self, plan, device, model, steps=8):
        """What a training has printed that other rows look at, too."""
        return self.once(('trained', plan, device, model, steps), lambda: self.train(plan, device, model, steps))

    # --- several processes

    def start_ranks(self, ranks, *command):
        """Processes of one command on one GPU; NCCL takes each for a machine of its own, and goes by sockets."""
        meeting, started = os.path.join(self.folder, self.numbered('meeting')), []
        for rank in range(ranks):
            environment = child_environment(
                WEIR_RANK=str(rank), WEIR_RANKS=str(ranks), WEIR_RENDEZVOUS=meeting,
                NCCL_HOSTID=f'rank{rank}', NCCL_SOCKET_IFNAME='lo', NCCL_IB_DISABLE='1', NCCL_MNNVL_ENABLE='0')
            with open(f'{meeting}.rank{rank}', 'w', encoding='utf-8') as said:
                started.append(subprocess.Popen([self.program(command[0]), *command[1:]], cwd=self.folder,
                                                env=environment, stdin=subprocess.DEVNULL, stdout=said,
                                                stderr=subprocess.STDOUT))
        return Ranks(meeting, started, ' '.join(command))

    def run_ranks(self, ranks, *command):
        """What rank 0 has said, where all ended well."""
        started = self.start_ranks(ranks, *command)
        codes = started.end(self.seconds_left())
        said = [f'rank {rank} ({"not in its time" if code is None else code}): {last_line(started.said_by(rank))}'
                for rank, code in enumerate(codes) if code != 0]
        if said:
            raise Failed(f'{ranks} processes of {started.named}: ' + '; '.join(said))
        return started.said_by(0)


class Ranks:
    """Processes that were started together."""

    def __init__(self, said, processes, named):
        self.said, self.processes, self.named = said, processes, named

    def said_by(self, rank):
        with open(f'{self.said}.rank{rank}', encoding='utf-8') as said:
            return said.read()

    def end(self, seconds):
        """Their exit codes; what has not ended in that time is killed, and its code is None."""
        end, codes = time.monotonic() + seconds, []
        for process in self.processes:
            try:
                codes.append(process.wait(timeout=max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                codes.append(None)
        return codes
