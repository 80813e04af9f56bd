#!/usr/bin/env python3
"""Weir's schedules against PyTorch's own loader, lowering and simulator, in one run.

    compare_schedules.py [BUILD]        (default: build/release)

Each schedule that `weir schedule` knows is written as CSV, at several sizes, loaded
by PyTorch's _load_csv (which validates it), written back, lowered by its
_add_send_recv and counted by its _simulate_comms_compute. Weir's lowering must be the
same cell for cell, its steps the same number, and PyTorch's copy of its file the same
byte for byte. Then both judge a few files that are wrong; and both do their work on
large ones, of which times and their ratio are printed. Exits with 1 when anything
differs. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH); says
so and exits with 1 when it is not there.
"""

import csv
import re
import subprocess
import sys
import tempfile
import time

SIZES = [(1, 3), (2, 4), (3, 6), (4, 8), (4, 10), (4, 12), (8, 16), (8, 24)]  # ranks, micro-batches
LARGE = [('1f1b', 8, 64), ('zb-h1', 16, 128), ('interleaved-zb', 8, 64), ('1f1b', 32, 256), ('zb-h1', 32, 256)]
ROUNDS = 3
WRONG = [  # what is wrong, stages, micro-batches, the file
    ('a micro-batch without a backward', 1, 2, '0F0,0F1,0B0,0I0,0W0'),
    ('a forward twice', 1, 1, '0F0,0F0,0B0'),
    ('a micro-batch that is not there', 1, 1, '0F7,0B7'),
    ('letters behind a cell', 1, 1, '0F0junk,0B0'),
    ('two cells in one', 1, 1, '0F0,0I0F3,0W0'),
    ('a cycle across ranks', 2, 2, '0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0'),
    ('sends that wait for each other', 3, 2,
     '0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2B0,2SEND_B0,2RECV_F1,2F1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1\n'
     '1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1'),
]


def run(*command):
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr.strip()


class Weir:
    def __init__(self, build):
        self.weir, self.bench = f'{build}/bin/weir', f'{build}/bench/bench_file'

    def names(self):
        text = run(self.weir, 'schedule', '--help')[1]
        listed = text[text.index('Schedules:'):].splitlines()[1:]
        names = []
        for line in listed[:listed.index('')]:
            match = re.match(r'  ([a-z0-9-]+) ', line)
            if match and match[1] != 'search':  # otherwise the end of a long line, or a command of its own
                names.append(match[1])
        return names

    def write(self, name, ranks, micro_batches, path, *more):
        """The sentence that refuses it, or None."""
        code, _, said = run(self.weir, 'schedule', name, '--ranks', str(ranks), '--micro-batches', str(micro_batches),
                            '--format', 'csv', *more, '-o', path)
        return said if code else None

    def steps(self, path):
        code, out, said = run(self.weir, 'simulate', path, '--unit-steps')
        return int(re.search(r': (\d+) steps', out)[1]) if code == 0 else said

    def judge(self, path):
        code, out, said = run(self.weir, 'check', path)
        return 'takes it' if code == 0 else 'refuses: ' + (out or said).splitlines()[0].removeprefix(f'weir: {path}')

    def times(self, path):
        code, out, said = run(self.bench, path)
        if code:
            raise SystemExit(said)
        parts = dict(re.findall(r' (read|check|lower|simulate|steps) ([0-9.]+)', out.split('ms:')[1]))
        lowered = int(re.search(r'lowered (\d+)', out)[1])
        return lowered, {part: float(ms) for part, ms in parts.items()}


class Torch:
    """PyTorch's functions without a process group: they need no more than these few numbers."""

    def __init__(self):
        import torch
        from torch.distributed.pipelining import schedules
        self.version, self.schedules = torch.__version__, schedules

    def load(self, path, ranks, stages, micro_batches):
        order = object.__new__(self.schedules.PipelineScheduleMulti)
        order.pipeline_order, order._stages = {}, []
        order.pp_group_size, order._num_stages, order._n_microbatches = ranks, stages, micro_batches
        order._load_csv(path, 'compute_only')
        return order

    def judge(self, path, stages, micro_batches):
        rows = rows_of(path)
        try:
            if any('SEND' in cell for cell in rows[0]):
                home = {int(stage): rank for rank, row in enumerate(rows) for stage in re.findall(r"(\d+)[A-Z]", ",".join(row))}
                actions = {rank: [self.schedules._Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}
                self.schedules._simulate_comms_compute(actions, lambda stage: home[stage], stages)
            else:
                self.lower(self.load(path, len(rows), stages, micro_batches), stages)
        except (AssertionError, RuntimeError, ValueError) as refused:
            return f'refuses: {str(refused).splitlines()[0]}'
        return 'takes it'

    def lower(self, order, stages):
        home = order.stage_index_to_group_rank
        actions = {rank: [a for a in row if a is not None] for rank, row in order.pipeline_order.items()}
        return self.schedules._add_send_recv(actions, lambda stage: home[stage], stages)

    def steps(self, order, lowered, stages):
        home = order.stage_index_to_group_rank
        simulated = self.schedules._simulate_comms_compute(lowered, lambda stage: home[stage], stages)
        return max(len(row) for row in simulated.values())


def rows_of(path):
    with open(path, newline='', encoding='utf-8') as file:
        return list(csv.reader(file))


def sizes_of(rows):
    cells = [cell for row in rows for cell in row]
    stages = 1 + max(int(n) for cell in cells for n in re.findall(r'(\d+)[FBIW]', cell))
    return len(rows), stages, 1 + max(int(n) for cell in cells for n in re.findall(r'[FBIW](\d+)', cell))


def compare(weir, torch, name, ranks, micro_batches, folder):
    """What differs, as sentences; or why there is nothing to compare."""
    order_path, lowered_path = f'{folder}/order.csv', f'{folder}/lowered.csv'
    refused = weir.write(name, ranks, micro_batches, order_path)
    if refused:
        return refused.removeprefix('weir: '), []
    weir.write(name, ranks, micro_batches, lowered_path, '--lowered')
    ours, (_, stages, _) = rows_of(lowered_path), sizes_of(rows_of(order_path))
    try:
        order = torch.load(order_path, ranks, stages, micro_batches)
    except AssertionError as wrong:
        return f'PyTorch does not load it: {" ".join(str(wrong).split())}', []
    differ = []
    order._dump_csv(f'{folder}/back.csv')
    with open(order_path, 'rb') as first, open(f'{folder}/back.csv', 'rb') as second:
        if first.read() != second.read():
            differ.append('PyTorch writes another file than it read')
    lowered = torch.lower(order, stages)
    theirs = [[str(action) for action in lowered[rank]] for rank in range(ranks)]
    if ours != theirs:
        differ.append('lowered otherwise')
    cells = sum(len(row) for row in theirs)
    if any(action.sub_actions for row in lowered.values() for action in row):
        return f'{cells} cells; groups, which its simulator cannot take', differ
    wanted, got = torch.steps(order, lowered, stages), weir.steps(lowered_path)
    if wanted != got:
        differ.append(f'{got} steps, not {wanted}')
    return f'{cells} cells, {wanted} steps', differ


def judge(weir, torch, folder):
    print('\nWhat is wrong, and who notices:')
    for what, stages, micro_batches, text in WRONG:
        path = f'{folder}/wrong.csv'
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text + '\n')
        print(f'{what:34} PyTorch {torch.judge(path, stages, micro_batches)}\n{"":34} Weir {weir.judge(path)}')


def best(work):
    times = []
    for _ in range(ROUNDS):
        since = time.process_time()
        result = work()
        times.append(time.process_time() - since)
    return min(times) * 1e3, result


def race(weir, torch, name, ranks, micro_batches, folder):
    path = f'{folder}/order.csv'
    weir.write(name, ranks, micro_batches, path)
    _, stages, _ = sizes_of(rows_of(path))
    actions, ours = weir.times(path)
    read, order = best(lambda: torch.load(path, ranks, stages, micro_batches))
    lower, lowered = best(lambda: torch.lower(order, stages))
    steps, _ = best(lambda: torch.steps(order, lowered, stages))
    for part, mine, theirs in (('read and validate', ours['read'] + ours['check'], read), ('lower', ours['lower'], lower),
                               ('simulate (theirs: unit steps)', ours['simulate'], steps),
                               ('unit steps', ours['steps'], steps)):
        print(f'{name:15} {ranks:4} {micro_batches:5} {actions:8}  {part:30} {mine:10.3f} {theirs:10.1f} '
              f'{actions / mine / 1e3:10.2f} {actions / theirs / 1e3:10.3f} {theirs / mine:8.0f}', flush=True)


def main():
    try:
        torch = Torch()
    except ImportError:
        print('compare_schedules.py: no PyTorch here (pip install torch, or set PYTHONPATH to where it is)')
        return 1
    weir = Weir(sys.argv[1] if len(sys.argv) > 1 else 'build/release')
    bad = 0
    print(f'PyTorch {torch.version}')
    with tempfile.TemporaryDirectory() as folder:
        for name in weir.names():
            same, why = 0, {}
            for ranks, micro_batches in SIZES:
                about, differ = compare(weir, torch, name, ranks, micro_batches, folder)
                if differ:
                    print(f'{name:15} p={ranks} m={micro_batches}: {"; ".join(differ)}')
                bad += len(differ)
                if re.match(r'\d+ cells', about):
                    same += not differ
                if not re.match(r'\d+ cells.*steps$', about):
                    why.setdefault(re.sub(r'\d+', 'N', about), about)
            print(f'{name:15} {same} sizes alike' + ''.join(f'\n{"":15} {about}' for about in why.values()), flush=True)
        judge(weir, torch, folder)
        print(f'\n{"":15} {"p":>4} {"m":>5} {"actions":>8}  {"":30} {"weir ms":>10} {"torch ms":>10} {"weir M/s":>10} '
              f'{"torch M/s":>10} {"ratio":>8}   best of the CPU times')
        for name, ranks, micro_batches in LARGE:
            race(weir, torch, name, ranks, micro_batches, folder)
    return 1 if bad else 0


sys.exit(main())
