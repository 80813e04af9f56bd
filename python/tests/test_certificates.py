"""What plans, sweeps and explanations claim of random graphs, against every plan there is, by a simulator of this file."""

import itertools
import json
import os
import random
import unittest

import weir

TRIALS = 300 if os.environ.get('WEIR_SOAK') else 25
SCHEDULES = ('gpipe', '1f1b')


def layer(name, forward, backward):
    """One that hands on nothing and keeps nothing: its time is all there is to it."""
    return {'name': name, 'kind': 'test', 'forward_ns': forward, 'backward_input_ns': backward // 2,
            'backward_weight_ns': backward - backward // 2, 'parameter_bytes': 256, 'output_bytes': 0, 'saved_bytes': 0,
            'input_kept': 'none', 'held_for_weight_bytes': 0, 'workspace_bytes': 0, 'backward_workspace_bytes': 0,
            'flops': 0}


def draw(rng):
    """Layers as (F, B), and edges: each layer reads from one or two of the three in front of it."""
    layers = [(1 + rng.randrange(1000), 1 + rng.randrange(2000)) for _ in range(rng.randrange(4, 8))]
    edges = sorted({(rng.randrange(max(0, to - 3), to), to) for to in range(1, len(layers))
                    for _ in range(rng.randrange(1, 3))})
    return layers, edges


def profile_of(layers, edges):
    return weir.Profile.from_json(json.dumps({
        'format': 'weir.profile', 'version': 1, 'model': 'random', 'micro_batch': 1, 'dtype': 'fp32',
        'source': {'how': 'estimated', 'device': '', 'clock': '', 'repeats': 1, 'sum_ns': 0, 'whole_ns': 0,
                   'backward_split': 'assumed'},
        'layers': [layer(f'l{i}', *times) for i, times in enumerate(layers)], 'edges': edges}))


def splits(layers, edges, stages):
    """Every way to part the layers into stages whose edges all point forward, as the stage of each layer."""
    for of in itertools.product(range(stages), repeat=len(layers)):
        if len(set(of)) == stages and all(of[a] <= of[b] for a, b in edges):
            yield of


def makespan(orders, forward, backward):
    """Of ranks that do (kind, stage, micro-batch) in order, where messages take no time."""
    done, clock, at = {}, [0] * len(orders), [0] * len(orders)
    last = len(forward) - 1
    while any(i < len(order) for i, order in zip(at, orders)):
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                kind, stage, micro_batch = order[at[rank]]
                before = [('F', stage, micro_batch)] if kind == 'B' else []
                if kind == 'F' and stage > 0:
                    before.append(('F', stage - 1, micro_batch))
                if kind == 'B' and stage < last:
                    before.append(('B', stage + 1, micro_batch))
                if any(action not in done for action in before):
                    break
                took = (forward if kind == 'F' else backward)[stage]
                clock[rank] = max([clock[rank]] + [done[action] for action in before]) + took
                done[kind, stage, micro_batch] = clock[rank]
                at[rank] += 1
                moved = True
        assert moved, 'a standstill'
    return max(clock)


def orders_of(schedule, ranks, micro_batches):
    """What each rank does but for its updates: "1B0" is ('B', 1, 0)."""
    document = weir.schedule(schedule, ranks=ranks, micro_batches=micro_batches).document
    return [[('F' if 'F' in action else 'B', *map(int, action.replace('F', 'B').split('B')))
             for action in line.split() if 'STEP' not in action] for line in document['actions']]


def best_of(layers, edges, schedule, ranks, micro_batches):
    """The least time of all plans; None where there is none."""
    orders, best = orders_of(schedule, ranks, micro_batches), None
    for of in splits(layers, edges, ranks):
        forward, backward = ([sum(times[kind] for times, stage in zip(layers, of) if stage == s) for s in range(ranks)]
                             for kind in (0, 1))
        time = makespan(orders, forward, backward)
        best = time if best is None else min(best, time)
    return best


class Certificates(unittest.TestCase):
    def judge(self, who, best, value, bound, proved):
        self.assertGreaterEqual(value, best, who)
        self.assertLessEqual(bound, best, who)
        if proved:
            self.assertEqual(value, best, who)

    def judge_rows(self, who, graph, rows):
        claims = 0
        for row in rows:
            if row['schedule'] not in SCHEDULES or row['ranks'] > 3:
                continue
            best = best_of(*graph, row['schedule'], row['ranks'], row['micro_batches'])
            if row['outcome'] == 'planned':
                self.judge((who, row), best, row['iteration_ns'], row['lower_bound_ns'], row['proved'])
                claims += row['proved']
            else:
                self.assertNotEqual((row['outcome'], best is None), ('does not fit', False), row)
        return claims

    def test_nothing_is_claimed_that_is_not_so(self):
        rng, claims = random.Random(17), 0
        for _ in range(TRIALS):
            graph, ranks, micro_batches = draw(rng), rng.randrange(2, 4), rng.randrange(1, 6)
            made, schedule = profile_of(*graph), rng.choice(SCHEDULES)
            cluster = f'{ranks} devices, 1GiB, 1GB/s 0us'
            budget = rng.choice([None, 1, 500])
            plan = weir.partition(made, cluster, schedule=schedule, micro_batches=micro_batches, budget=budget)
            certificate = plan.document['certificate']
            best = best_of(*graph, schedule, ranks, micro_batches)
            self.judge('partition', best, certificate['value_ns'], certificate['lower_bound_ns'], certificate['proved'])
            self.assertEqual(plan.proved, certificate['proved'])
            found = weir.sweep(made, cluster, schedules=SCHEDULES, micro_batches=[micro_batches, micro_batches + 1],
                               budget=budget)
            claims += self.judge_rows('sweep', graph, found)
            explained = plan.explain(made, budget=budget).document
            of_plan = {**explained['unchanged'], 'lower_bound_ns': explained['lower_bound_ns']}
            claims += self.judge_rows('explain', graph, [of_plan, *(
                change for change in explained['changes'] if change['kind'] in ('schedule', 'micro-batches', 'memory'))])
        self.assertGreater(claims, TRIALS)


if __name__ == '__main__':
    unittest.main()
