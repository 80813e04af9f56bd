"""The rows of tools/gpu-check: what is looked at on a machine with a GPU, in which order, and what is asked for.

A check returns a verdict and what was seen, or raises; GROUPS at the end is their order, PARTS what is looked at
together in a few minutes.
"""

import csv
import glob
import io
import json
import os
import platform
import re
import shutil
import sys
import time

from gpu_machine import (HERE, Failed, Skipped, folders_in_packages, found_program, iteration_of, last_line,
                         library_folders, losses, speed_of, with_libraries)

KINDS = {'': 'fp32', 'tf32': 'tf32', 'bf16': 'bf16', 'fp16': 'fp16'}
LOSS_BOUND = {'': 1e-4, 'tf32': 1e-3, 'bf16': 1e-2, 'fp16': 1e-2}  # weir prints losses to 1e-4

# gpt2 as it is trained where speed counts: tokens per update are 4 times 16 sequences (gpu-peer has the same).
TRAINED = {'sizes': ('micro_batch=16',), 'micro_batches': 4, 'steps': 12}
# Operations per token by llm.c's count (gpt2_estimate_mfu): 6 N + 6 L C T.
PARAMETERS, BLOCKS, WIDTH, SEQUENCE = 124439808, 12, 768, 1024
OPERATIONS = 6 * PARAMETERS + 6 * BLOCKS * WIDTH * SEQUENCE

# The loss of gpt2's first update, whose weights know nothing: ln 50257 = 10.82, and 0.15 for logits that differ.
FIRST_LOSS = 10.7, 11.0

# How weir profile is asked to pad a vocabulary; the plan then names the model that weir train is to train.
PADDED = ('--pad-vocabulary',)
# What gpu-peer measures in one process, and the rows that look at it; what has no row here has a process of its own.
PEERS = {'matrix-rate': ('matrix-rate', 'speed'), 'eager': ('pytorch-eager',)}
# Our own kernels: those of libraries are called otherwise.
OUR_KERNELS = 'regex=_Z[0-9]+[a-z_]+_kernel'
SLICES = 'on one GPU, which serves them in turn, a slice of time each'  # so that their times are not those of links

LEAST_SHARE = 0.45       # of the matrix rate
LEAST_OF_PEER = 1.0      # of PyTorch's speed
LEAST_PIPELINE = 0.95    # of the speed of a single stage
MOST_ASTRAY = 0.05       # measured from predicted
MOST_SECONDS_AFTER_KILL = 5


def judged(machine, good, seen):
    """Of what has a target: speeds mean nothing where all this is only tried."""
    if machine.dry:
        return 'measured', seen + ', which is not judged of small models'
    return 'passed' if good else 'off target', seen


# --- the checks: each returns a verdict and what was seen, or raises -----------------------

PLUGIN = os.path.join(HERE, 'lib', 'weir', 'weir-cuda.so')


def facts(machine):
    """What somebody will want to know of this machine: heading and text."""
    yield 'nvidia-smi', machine.told('nvidia-smi')
    yield 'Python', f'{sys.executable}, {sys.version}'
    yield 'programs', '\n'.join(f'{name}: {found_program(name)}' for name in ('python3', 'ncu', 'compute-sanitizer'))
    yield 'folders of CUDA\'s libraries', '\n'.join(library_folders())
    yield 'NVIDIA\'s libraries that the loader knows', '\n'.join(re.findall('.*(?:libcuda|nvidia).*',
                                                                       machine.told('ldconfig', '-p')))
    yield 'CUDA', '\n'.join(sorted(glob.glob('/usr/local/cuda*') + glob.glob('/usr/local/nvidia*')))
    yield 'processors', str(os.cpu_count())
    yield 'memory', machine.told('free', '-m')
    yield 'disk', machine.told('df', '-h', machine.folder)
    if os.path.exists(PLUGIN):
        yield PLUGIN, machine.told('ldd', PLUGIN, **with_libraries({}))


def check_machine(machine):
    """Facts go to a file of their own; the first profile is what it takes to load all of CUDA's libraries once."""
    known = {}
    for heading, text in facts(machine):
        known[heading] = text
        machine.note('.facts', f'--- {heading}\n{text.rstrip()}\n\n')
    lacks = re.findall(r'^\s*(\S+) => not found', known.get(PLUGIN, ''), re.M)
    if lacks and not machine.dry:
        packages = ' '.join(folders_in_packages('lib')) or 'none of NVIDIA'
        raise Failed(f'{PLUGIN} needs {", ".join(lacks)}, found neither where the loader looks nor in Python\'s '
                     f'packages ({packages}): install CUDA\'s libraries')
    start = time.monotonic()
    said = machine.run('weir', 'profile', machine.small, '--device', machine.device('bf16'), '--verbose', '-o',
                       machine.numbered('profile.json'))
    took = time.monotonic() - start
    machine.note('.facts', f'--- the first profile, {took:.1f} s\n{said.rstrip()}\n\n')
    gpu = 'nvidia-smi is not there'
    if shutil.which('nvidia-smi'):
        gpu = machine.told('nvidia-smi', '--query-gpu=name,driver_version,clocks.sm,clocks.max.sm',
                           '--format=csv,noheader').strip().replace('\n', '; ')
    version = machine.run('weir', '--version').strip()
    return 'measured', (f'{gpu}; {version}; Python {platform.python_version()}; {platform.platform()}; the first '
                        f'profile took {took:.1f} s; more in {machine.beside(".facts")}')


def compared(program, kind):
    """Every kernel, or every kind of layer, of the device against the processor's or against double precision."""
    def check(machine):
        few = ('1', 'small') if machine.dry else ()
        out = machine.run(program, machine.in_kind(kind), *few)
        worst, bound = max(re.findall(r'off by +(\S+) of (\S+)', out), key=lambda of: float(of[0]) / float(of[1]))
        return 'passed', f'{last_line(out)}, off by {float(worst):.1e} of {bound} at most'
    return check


def models(kind):
    """Training on the GPU against training on the processor: the same losses, step by step."""
    def check(machine):
        device, processor = machine.in_kind(kind), f'cpu:{kind}' if kind in ('bf16', 'fp16') else 'cpu'
        worst, names = 0.0, []
        thin = machine.gpt2('width=32', 'blocks=2', 'heads=4', 'sequence=32')
        for model in ('mlp,width=64,blocks=2', machine.small, thin):
            # A plan each: a layer's bytes are its device's.
            want, got = (losses(machine.trained(machine.plan('1f1b', where, model, ranks=1), where, model, steps=6))
                         for where in (processor, device))
            worst = max([worst, *(abs(a - b) / abs(b) for a, b in zip(got, want))])
            names.append(model.split(',')[0])
        if not worst <= LOSS_BOUND[kind]:
            raise Failed(f'losses are off by {worst:.1e}, more than {LOSS_BOUND[kind]:.0e}')
        return 'passed', f'{", ".join(names)}: losses of 6 steps off by at most {worst:.1e}'
    return check


def verify(schedule, words='', planned=()):
    def check(machine):
        device = machine.device(words)
        plan = machine.plan(schedule, device, machine.small, planned=planned)
        return 'passed', last_line(machine.run('weir', 'verify', plan, '--device', device))
    return check


def plan_small(machine, device, schedule):
    return machine.plan(schedule, device, machine.small)


def plan_whole_gpt2(machine, device, schedule):
    """All of GPT-2, 124,439,808 parameters, in four stages."""
    return machine.plan(schedule, device, machine.gpt2('micro_batch=1'), micro_batches=4)


def check_gpt2(machine):
    device, seen = machine.device(), []
    for schedule in ('1f1b', 'gpipe'):
        plan = plan_whole_gpt2(machine, device, schedule)
        seen.append(last_line(machine.run('weir', 'verify', plan, '--device', device, '--steps', '1')))
    return 'passed', f'{machine.gpt2()} in 4 stages, 1f1b: {seen[0]}; gpipe: {seen[1]}'


def verify_processes(schedules, plan_of, *more):
    """Four processes on one GPU, by NCCL."""
    def check(machine):
        seen = [f'4 processes {SLICES}']
        for schedule in schedules:
            plan = plan_of(machine, machine.device(), schedule)
            out = machine.run_ranks(4, 'weir', 'verify', plan, '--device', machine.one_gpu(), *more)
            seen.append(f'{schedule}: {last_line(out)}')
        return 'passed', '; '.join(seen)
    return check


def check_implicit_order(machine):
    """The same where NCCL launches in the order in which the host has called it, whatever has come until then."""
    plan, start = plan_small(machine, machine.device(), 'interleaved'), time.monotonic()
    try:
        machine.run_ranks(4, 'weir', 'verify', plan, '--device', machine.one_gpu(), NCCL_LAUNCH_ORDER_IMPLICIT='1')
    except Failed as why:
        return 'measured', f'with NCCL_LAUNCH_ORDER_IMPLICIT=1 interleaved does not end well: {why}'
    took = time.monotonic() - start
    return 'measured', f'with NCCL_LAUNCH_ORDER_IMPLICIT=1 interleaved ended after {took:.1f} s, and is equal'


def check_kill(machine):
    """kill -9 of a rank ends the others, and they name it."""
    device = machine.one_gpu()
    plan = plan_small(machine, machine.device(), '1f1b')
    ranks = machine.start_ranks(4, 'weir', 'train', machine.small, '--plan', plan, '--device', device,
                                '--data', machine.data(machine.small), '--steps', '1000000')
    while 'step' not in ranks.said_by(0):
        if machine.seconds_left() <= 5 or any(process.poll() is not None for process in ranks.processes):
            ranks.end(0.1)
            raise ranks.failed(f'no first step: {last_line(ranks.said_by(0))}')
        time.sleep(0.05)
    ranks.processes[2].kill()
    killed = time.monotonic()
    codes = ranks.end(min(machine.seconds_left(), 60 if machine.dry else 2 * MOST_SECONDS_AFTER_KILL))
    took = time.monotonic() - killed
    named = [rank for rank in (0, 1, 3) if 'rank 2 (process' in ranks.said_by(rank)]
    good = all(code == 3 for rank, code in enumerate(codes) if rank != 2)
    if named != [0, 1, 3] or not good or took > MOST_SECONDS_AFTER_KILL and not machine.dry:
        others = [f'rank {rank}: {last_line(ranks.said_by(rank))}' for rank in (0, 1, 3) if rank not in named]
        raise ranks.failed(f'exit codes {codes} after {took:.1f} s; rank 2 was named by ranks {named}; '
                           + '; '.join(others))
    return 'passed', f'4 processes {SLICES}: the other three ended after {took:.2f} s and named rank 2'


def check_same_bits(machine):
    device = machine.device('bf16')
    plan = plan_small(machine, device, '1f1b')
    first, second = (losses(machine.train(plan, device, machine.small)) for _ in range(2))
    if first != second:
        raise Failed('two runs of the same plan and seed printed other losses')
    return 'passed', f'{len(first)} printed losses of two runs are equal; the rows kernels-* and layers-* compare bits'


# --- gpt2 where speed counts: trained once on one stage and once on four; the rows look at it --------

def gpt2_plan(machine, ranks):
    model, device = machine.gpt2(*TRAINED['sizes']), machine.device('bf16')
    return machine.plan('1f1b', device, model, ranks, TRAINED['micro_batches']), device, model


def gpt2_trained(machine, ranks):
    return machine.trained(*gpt2_plan(machine, ranks), steps=3 if machine.dry else TRAINED['steps'])


def first_loss(machine, ranks):
    """Which does not hang on the speed of anything: a training that begins elsewhere computes something else."""
    first = losses(gpt2_trained(machine, ranks))[0]
    least, most = FIRST_LOSS
    if not machine.dry and not least <= first <= most:
        raise Failed(f'the first loss of gpt2 is {first}, not within {least} and {most}')
    return first


def peer(machine, name):
    """A number of gpu-peer's, and PyTorch's version; what it has printed counts, also if it came to no good end."""
    names = machine.of_peer if name in machine.of_peer else (name,)

    def measure():
        try:
            return machine.run_other(sys.executable, os.path.join(HERE, 'tools', 'gpu-peer'), *names,
                                     named='gpu-peer ' + ' '.join(names), skips=4), None
        except (Failed, Skipped) as why:
            return why.said, why
    out, why = machine.once(('peer', names), measure)
    number, version = re.search(rf'^{name} (\d+)$', out, re.M), re.search(r'^PyTorch \S+$', out, re.M)
    if not number or not version:
        raise why or Failed(f'gpu-peer printed no {name}')
    return float(number[1]), version[0]


def check_matmul(machine):
    rate, version = peer(machine, 'matrix-rate')
    return 'measured', f'bf16 matrix product of 8192: {rate / 1e12:.0f} TFLOP/s ({version})'


def check_speed(machine):
    model, speed = gpt2_plan(machine, ranks=1)[2], speed_of(gpt2_trained(machine, ranks=1))
    seen = f'{model} in bf16: first loss {first_loss(machine, ranks=1)}, {speed:.0f} tokens/s'
    try:
        rate, _ = peer(machine, 'matrix-rate')
    except (Failed, Skipped) as why:
        return 'measured', f'{seen}; of no known matrix rate: {why}'
    share = speed * OPERATIONS / rate
    return judged(machine, share >= LEAST_SHARE, f'{seen}, {share:.1%} of {rate / 1e12:.0f} TFLOP/s measured in this '
                  f'run ({LEAST_SHARE:.0%} is asked for)')


def against_torch(how):
    def check(machine):
        theirs, version = peer(machine, how)
        ours = speed_of(gpt2_trained(machine, ranks=1))
        return judged(machine, ours >= LEAST_OF_PEER * theirs, f'gpt2 in bf16: {ours / theirs:.2f} times {version}, '
                      f'{how}, {ours:.0f} against {theirs:.0f} tokens/s ({LEAST_OF_PEER} is asked for)')
    return check


def check_pipeline(machine):
    """Four stages in one process on one GPU, which can at best be as fast as one."""
    first, again = (first_loss(machine, ranks) for ranks in (1, 4))
    if first != again:
        raise Failed(f'the first loss of gpt2 is {first} on one stage, {again} on four')
    one, four = (speed_of(gpt2_trained(machine, ranks)) for ranks in (1, 4))
    return judged(machine, four >= LEAST_PIPELINE * one, f'{machine.gpt2()}: {four / one:.1%} of one stage, '
                  f'{four:.0f} against {one:.0f} tokens/s ({LEAST_PIPELINE:.0%} is asked for)')


def check_connections(machine):
    """The same four stages with as few connections to the GPU as CUDA has by itself, so that queues share them."""
    shipped = gpt2_trained(machine, 4)
    few = machine.train(*gpt2_plan(machine, 4), steps=len(losses(shipped)), CUDA_DEVICE_MAX_CONNECTIONS='8')
    if losses(few) != losses(shipped):
        raise Failed('other losses with CUDA_DEVICE_MAX_CONNECTIONS=8')
    return 'measured', (f'four stages with CUDA_DEVICE_MAX_CONNECTIONS=8: {speed_of(few) / speed_of(shipped):.1%} of '
                        f'their speed with the 32 that are shipped, {speed_of(few):.0f} against '
                        f'{speed_of(shipped):.0f} tokens/s')


def work_of(machine, plan):
    """What all ranks of a plan have to do, in nanoseconds: on a GPU that they share, the time it takes."""
    told = json.loads(machine.run('weir', 'simulate', plan, '--json'))
    return sum(rank['busy_ns'] for rank in told['per_rank'])


def check_prediction(machine):
    _, alone = iteration_of(gpt2_trained(machine, ranks=1))
    measured, _ = iteration_of(gpt2_trained(machine, 4))
    shared = measured / work_of(machine, gpt2_plan(machine, 4)[0])
    worst = max(abs(alone - 1), abs(shared - 1))
    return judged(machine, worst <= MOST_ASTRAY,
                  f'measured / predicted {alone:.3f} of gpt2 on one stage, {shared:.3f} of four that share the GPU, '
                  f'which does their work in turn (within {MOST_ASTRAY:.0%} is asked for)')


def check_bytes(machine):
    device, seen = machine.device(), []
    small = machine.trained(plan_small(machine, device, '1f1b'), device, machine.small)
    for what, out in ((machine.small, small), (machine.gpt2(), gpt2_trained(machine, 4))):
        pairs = re.findall(r'^\s*peak bytes, rank \d+\s+(\d+)\s+(\d+)', out, re.M)
        if len(pairs) != 4:
            raise Failed(f'{what}: weir train printed the peak bytes of {len(pairs)} ranks, not of 4')
        if any(planned != allocated for planned, allocated in pairs):
            raise Failed(f'{what}: planned and allocated: ' + ', '.join(' and '.join(pair) for pair in pairs))
        seen.append(f'{what}: {", ".join(planned for planned, _ in pairs)}')
    return 'passed', 'planned equals allocated on 4 ranks, ' + '; '.join(seen)


# --- what things cost ------------------------------------------------------------------------

def squeezed(text):
    """Its lines as one."""
    return '; '.join(' '.join(line.split()) for line in text.splitlines() if line.strip())


def check_host_cost(machine):
    """What the host takes per action, call by call and replayed; and gpt2 replayed, which must lose nothing by it."""
    seen = []
    for words in ('', 'graphs'):
        out = machine.run('bench_actions', machine.device(words))
        seen.append(f'{machine.device(words)}: {squeezed(out)}')
    plan, _, model = gpt2_plan(machine, ranks=1)
    plain = gpt2_trained(machine, ranks=1)
    again = machine.train(plan, machine.device('bf16,graphs'), model, steps=len(losses(plain)))
    if losses(again) != losses(plain):
        raise Failed(f'{model}: other losses where actions are replayed')
    share = ' '.join(re.search(r'^ +actions replayed +(.*)', again, re.M)[1].split())
    seen.append(f'{model} with graphs: {speed_of(again) / speed_of(plain):.1%} of its speed without, {share}')
    return 'measured', '. '.join(seen)


def check_kernel_rates(machine):
    """Every kernel against a copy, and the products and the attention of gpt2."""
    device = machine.device('bf16')
    out = machine.run('bench_kernels', device, 'small' if machine.dry else 'gpt2')
    passes, *others = out.split('\n\n')[1:]
    rates = re.findall(r'^ *(\S.*?) +[\d.]+ +([\d.]+) +[\d.]+$', passes, re.M)
    seen = [f'{device}, GB/s: ' + ', '.join(f'{name} {float(rate):.0f}' for name, rate in rates)]
    return 'measured', '. '.join([*seen, *map(squeezed, others)])


def check_hand_over(machine):
    """A micro-batch handed on, and its gradient back: within a process, and between two by NCCL."""
    within = machine.run('bench_hand_over', machine.device())
    between = machine.run_ranks(2, 'bench_hand_over', machine.one_gpu())
    return 'measured', f'{squeezed(within)}; 2 processes {SLICES}: {squeezed(between)}'


def check_links(machine):
    """The link between two processes on one GPU, by NCCL's sockets, as a cluster that a plan can be made for."""
    file = os.path.join(machine.folder, 'links.json')
    out = machine.run_ranks(2, 'weir', 'profile', '--links', '--device', machine.one_gpu(), '--memory', '8GiB',
                            '-o', file)
    found = re.search(r'^ +0 - 1 +in a machine +(.*)$', out, re.M)
    if not found:
        raise Failed(f'weir profile --links printed no link: {last_line(out)}')
    machine.run('weir', 'partition', machine.profile(machine.small, machine.device()), '--cluster', file,
                '--schedule', '1f1b', '--micro-batches', '8')
    return 'measured', (f'2 processes {SLICES}: latency, rate there, back and both at once, and the worst '
                        'distance from latency and rate: '
                        + ', '.join(re.split('  +', found[1])))


# --- where the time goes -----------------------------------------------------------------------

def kernel_times(table):
    """Of ncu's table, as it prints it with commas: {kernel: nanoseconds}, of all its launches."""
    times = {}
    for row in csv.DictReader(io.StringIO(table[max(0, table.find('"ID"')):])):
        name, ns = re.sub('^void ', '', row.get('Kernel Name') or ''), row.get('gpu__time_duration.sum') or ''
        if re.match(r'\d', ns):  # else it is the row of units
            times[name[:60]] = times.get(name[:60], 0) + float(ns.replace(',', ''))
    return times


def check_profile(machine):
    """One update of gpt2 under Nsight Compute, which is told to leave the GPU's clocks as they are."""
    ncu = found_program('ncu', '/opt/nvidia/nsight-compute/*')
    if machine.dry or not ncu:
        raise Skipped('ncu looks at GPUs only' if machine.dry else 'ncu is neither on the PATH nor with CUDA')
    model, device, report = machine.gpt2(*TRAINED['sizes']), machine.device('bf16'), machine.beside('.ncu-rep')
    plan = machine.plan('1f1b', device, model, ranks=1, micro_batches=1)
    wrap = (ncu, '--clock-control', 'none', '--metrics', 'gpu__time_duration.sum,dram__bytes.sum',
            '--launch-count', '4000', '--force-overwrite', '--export', report)
    try:
        machine.train(plan, device, model, steps=1, wrap=wrap)
    except Failed as why:
        refused = re.search('.*(ERR_NVGPUCTRPERM|Failed to initialize the profiler).*', why.said)
        raise Skipped(f'ncu cannot read the counters of this GPU: {refused[0]}') if refused else why
    times = kernel_times(machine.run_other(ncu, '--import', report, '--page', 'raw', '--csv', '--print-units', 'base'))
    most = sorted(times.items(), key=lambda item: -item[1])[:12]
    return 'measured', (f'{model}, one micro-batch and what comes before it: {sum(times.values()) / 1e6:.1f} ms of '
                        'kernels, ' + ', '.join(f'{name} {ns / 1e6:.2f} ms' for name, ns in most) + f'; {report}')


def check_vocabulary(machine):
    """gpt2 with its own words, and with as many as matrix units like."""
    _, device, model = gpt2_plan(machine, ranks=1)
    plain = gpt2_trained(machine, ranks=1)
    try:
        plan = machine.plan('1f1b', device, model, 1, TRAINED['micro_batches'], profiled=PADDED)
    except Failed as why:
        unknown = f"unrecognized option '{PADDED[0]}'" in why.said
        raise Skipped(f'weir profile has no {PADDED[0]}') if unknown else why
    with open(os.path.join(machine.folder, plan), encoding='utf-8') as file:
        padded = json.load(file)['profile']['model']
    odd, even = speed_of(plain), speed_of(machine.train(plan, device, padded, steps=len(losses(plain))))
    which = 'faster' if even > odd else 'slower'
    return 'measured', (f'{model} with a padded vocabulary is {abs(even / odd - 1):.1%} {which}: {even:.0f} against '
                        f'{odd:.0f} tokens/s')


# --- what a tool can find, which takes longest ---------------------------------------------------

def sanitized(tool):
    """Every kernel, every kind of layer and a small model's training under compute-sanitizer."""
    def check(machine):
        found = found_program('compute-sanitizer')
        if machine.dry or not found:
            raise Skipped('compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin' if not machine.dry
                          else 'compute-sanitizer looks at GPUs only')
        wrap = (found, '--tool', tool, '--error-exitcode', '9')
        if tool == 'racecheck':  # those of libraries take most of the time, and are not ours to mend
            wrap += ('--kernel-name', OUR_KERNELS)
        model, device = 'gpt-nano,width=32,blocks=1,heads=2,sequence=16', machine.device()
        plan = machine.plan('1f1b', 'cpu', model, ranks=1, micro_batches=2)
        lazy = {'CUDA_MODULE_LOADING': 'LAZY'}  # so that kernels of libraries that nobody calls are not prepared
        try:
            machine.run('compare_kernels', device, '1', 'small', wrap=wrap, **lazy)
            machine.run('compare_layers', device, '1', 'small', wrap=wrap, **lazy)
            machine.train(plan, device, model, steps=2, wrap=wrap, **lazy)
        except Failed as why:
            raise Skipped('compute-sanitizer: Device not supported') if 'Device not supported' in why.said else why
        return 'passed', f'{tool} is clean on every kernel, every kind of layer, and training {model}'
    return check


# Groups of checks: name, seconds it may take, what it does. First facts, then whether all is right, how fast it is,
# several processes; last what takes long. The checks of a group run at the same time; what is timed is a group of its
# own.
GROUPS = [
    [('machine', 60, check_machine)],
    [('matrix-rate', 90, check_matmul)],
    [(f'{what}-{KINDS[kind]}', 60, compared(f'compare_{what}', kind))
     for what in ('kernels', 'layers') for kind in KINDS],
    [*((f'verify-{schedule}', 40, verify(schedule)) for schedule in ('1f1b', 'gpipe', 'pipedream', 'interleaved')),
     ('verify-bf16', 40, verify('1f1b', 'bf16')), ('verify-fp16', 40, verify('1f1b', 'fp16')),
     ('verify-host', 40, verify('1f1b', planned=('--host', 'optimizer'))),
     ('same-bits', 40, check_same_bits)],
    [(f'models-{KINDS[kind]}', 60, models(kind)) for kind in KINDS],
    [('speed', 60, check_speed)],
    [('verify-gpt2-124M', 60, check_gpt2)],
    [('pytorch-eager', 60, against_torch('eager'))],
    [('pipeline-on-one-gpu', 60, check_pipeline)],
    [('prediction', 60, check_prediction)],
    [('bytes', 90, check_bytes)],
    [('connections-8', 60, check_connections)],
    [('kernel-rates', 60, check_kernel_rates)],
    [('host-cost', 60, check_host_cost)],
    [('verify-processes', 90, verify_processes(('1f1b', 'gpipe'), plan_small))],
    [('kill-a-rank', 60, check_kill)],
    [('nccl-hand-over', 90, check_hand_over)],
    [('interleaved-processes', 60, verify_processes(('interleaved',), plan_small))],
    [('verify-gpt2-processes', 120, verify_processes(('1f1b', 'gpipe'), plan_whole_gpt2, '--steps', '1'))],
    [(tool, 120, sanitized(tool)) for tool in ('memcheck', 'racecheck')],
    [('nccl-links', 90, check_links)],
    [('implicit-order', 40, check_implicit_order)],
    [('initcheck', 120, sanitized('initcheck'))],
    [('profile-step', 120, check_profile)],
    [('vocabulary', 60, check_vocabulary)],
    [('pytorch-compiled', 120, against_torch('compiled'))],
]


def rows_of(first, last):
    """The rows from one to another."""
    names = [name for group in GROUPS for name, _, _ in group]
    return names[names.index(first):names.index(last) + 1]


# What a GPU is asked that is there for some minutes, in three times. What rows need of others is made anew in each.
PARTS = {
    'right': rows_of('machine', 'speed'),
    'speed': ['machine', 'matrix-rate', *rows_of('speed', 'host-cost'), *rows_of('profile-step', 'pytorch-compiled')],
    'processes': ['machine', *rows_of('verify-processes', 'initcheck')],
}
