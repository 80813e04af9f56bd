"""What nobody says is the same for all three: the command, this package, and weir.h, whose defaults are zeroes."""

import ctypes
import inspect
import json
import os
import re
import shutil
import subprocess
import unittest

import weir
from weir import library

CLUSTER = '2 devices, 64MiB, 10GB/s 10us'
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, 'api', 'weir.h')
COST = '3us,3us,3us,1us'
LLAMA = {'model_type': 'llama', 'hidden_size': 1024, 'intermediate_size': 2816, 'num_hidden_layers': 4,
         'num_attention_heads': 8, 'num_key_value_heads': 8, 'vocab_size': 4096, 'max_position_embeddings': 1024}


def layer(name, scale):
    return {'name': name, 'kind': 'linear', 'forward_ns': 1000000 * scale, 'backward_input_ns': 1200000 * scale,
            'backward_weight_ns': 800000 * scale, 'parameter_bytes': 65536 * scale, 'output_bytes': 16384,
            'saved_bytes': 16384 * scale, 'input_kept': 'weight', 'held_for_weight_bytes': 16384,
            'workspace_bytes': 0, 'backward_workspace_bytes': 0, 'flops': 0}


def write_profile(path, **more):
    layers = [layer(f'layer{i}', 1 + i % 3) for i in range(8)]
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({'format': 'weir.profile', 'version': 1, 'model': 'eight', 'micro_batch': 4, 'dtype': 'fp32',
                   'source': {'how': 'imported', 'device': 'cpu', 'clock': 'thread_cpu', 'repeats': 20,
                              'sum_ns': sum(layer['forward_ns'] * 3 for layer in layers), 'whole_ns': 0,
                              'backward_split': 'measured'}, 'layers': layers, **more}, file)


def says(*arguments):
    return subprocess.run(['weir', *arguments], check=True, stdout=subprocess.PIPE).stdout.decode()


def in_c(kind, name, *arguments):
    """What the library's function makes of structs in which all else is zero."""
    made = kind(library.call(name, *arguments))
    return made.json()


def answer_in_c(name, *arguments, behind=()):
    return library.call_answer(name, *arguments, behind=behind)[0]


@unittest.skipUnless(shutil.which('weir'), 'there is no weir on the PATH')
class Defaults(unittest.TestCase):
    def alike(self, command, python, c):
        self.assertEqual(command, python)
        self.assertEqual(command, c)
        return json.loads(command) if command.startswith('{') else command

    def test_plans(self):
        for name, more in (('chain', {}), ('tied', {'tied': [[0, 7]], 'one_owner': [[0, 7]]}),
                           ('graph', {'edges': [[0, 1], [0, 2], [1, 3], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7]]})):
            write_profile('profile.json', **more)
            profile = weir.Profile.load('profile.json')
            for schedule in ('1f1b', 'interleaved', 'zb-v'):
                given = library.PartitionOptions(cluster=CLUSTER.encode(), schedule=schedule.encode(), micro_batches=8)
                with self.subTest(name, schedule=schedule):
                    plan = self.alike(
                        says('partition', 'profile.json', '--cluster', CLUSTER, '--schedule', schedule,
                             '--micro-batches', '8', '--json'),
                        weir.partition(profile, CLUSTER, schedule=schedule, micro_batches=8).json(),
                        in_c(weir.Plan, 'partition', profile, ctypes.byref(given)))
                    self.assertEqual(plan['optimizer'], 'adamw')
                    self.assertEqual(plan.get('storage', {}).get('tied_apart', False), name == 'tied')

    def test_tied_layers_stay_together_where_nothing_flushes_or_lends(self):
        for schedule, more in ('pipedream', {'one_owner': [[2, 3]]}), ('1f1b', {}):
            with self.subTest(schedule):
                self.tied(schedule, more)

    def tied(self, schedule, more):
        write_profile('profile.json', tied=[[2, 3]], **more)
        profile = weir.Profile.load('profile.json')
        given = library.PartitionOptions(cluster=CLUSTER.encode(), schedule=schedule.encode(), micro_batches=8)
        plan = self.alike(says('partition', 'profile.json', '--cluster', CLUSTER, '--schedule', schedule,
                               '--micro-batches', '8', '--json'),
                          weir.partition(profile, CLUSTER, schedule=schedule, micro_batches=8).json(),
                          in_c(weir.Plan, 'partition', profile, ctypes.byref(given)))
        self.assertNotIn('storage', plan)

    def test_explanations(self):
        write_profile('profile.json')
        profile = weir.Profile.load('profile.json')
        plan = weir.partition(profile, CLUSTER, schedule='1f1b', micro_batches=4)
        plan.save('plan.json')
        self.alike(says('explain', 'plan.json', '--profile', 'profile.json', '--json'), plan.explain(profile).json(),
                   answer_in_c('explain', plan, profile, None))

    def test_sweeps(self):
        write_profile('profile.json', tied=[[0, 7]], one_owner=[[0, 7]])
        profile = weir.Profile.load('profile.json')
        given = library.SweepOptions(cluster=CLUSTER.encode())
        sweep = self.alike(says('sweep', 'profile.json', '--cluster', CLUSTER, '--json'),
                           weir.sweep(profile, CLUSTER).json(),
                           answer_in_c('sweep', profile, ctypes.byref(given), behind=[None]))
        self.assertEqual({row['micro_batches'] for row in sweep['rows']}, {2, 4, 8, 16})

    def test_estimates_and_sweeps_of_configurations(self):
        with open('config.json', 'w', encoding='utf-8') as file:
            json.dump(LLAMA, file)
        estimated = library.EstimateOptions(device=b'h100-sxm')
        self.alike(says('estimate', 'config.json', '--device', 'h100-sxm', '--json'),
                   weir.estimate('config.json', 'h100-sxm').json(),
                   answer_in_c('estimate', b'config.json', ctypes.byref(estimated), behind=[None]))
        given = library.ConfigSweepOptions(estimate=ctypes.pointer(estimated), devices=4, global_batch=8)
        swept = self.alike(says('sweep', '--config', 'config.json', '--device', 'h100-sxm', '--devices', '4',
                                '--global-batch', '8', '--json'),
                           weir.sweep_configs('config.json', 'h100-sxm', devices=4, global_batch=8).json(),
                           answer_in_c('sweep_configs', b'config.json', ctypes.byref(given), behind=[None, None]))
        self.assertIn('adamw-master', json.dumps(swept))
        stated = library.JudgeOptions(estimate=ctypes.pointer(estimated), micro_batches=8)
        self.assertEqual(weir.judge('config.json', 'h100-sxm', micro_batches=8).json(),
                         answer_in_c('judge', b'config.json', ctypes.byref(stated)))

    def test_schedules(self):
        for name in '1f1b', 'interleaved', 'seq1f1b', 'zb-v', 'pipedream':
            given = library.GenerateOptions(name=name.encode(), ranks=4, micro_batches=8)
            order = weir.schedule(name, ranks=4, micro_batches=8)
            with self.subTest(name):
                self.alike(says('schedule', name, '--ranks', '4', '--micro-batches', '8', '--format', 'json'),
                           order.json(), in_c(weir.Schedule, 'schedule_generate', ctypes.byref(given)))
                order.save('order.json')
                self.alike(says('check', 'order.json', '--json'),
                           says('check', 'order.json', '--sends', 'rendezvous', '--channels', 'apart', '--json'),
                           library.take_text(library.call('schedule_check', order, None)))
                self.assertEqual(json.loads(says('check', 'order.json', '--json')), order.check())
                price = library.PriceOptions(costs=COST.encode())
                self.alike(says('simulate', 'order.json', '--cost', COST, '--json'), order.simulate(COST).json(),
                           in_c(weir.Simulation, 'schedule_simulate', order, ctypes.byref(price)))
                if name not in ('seq1f1b', 'pipedream'):  # for which PyTorch has no cells
                    self.alike(says('schedule', 'order.json', '--format', 'csv'), order.csv(),
                               library.take_text(library.call('schedule_csv', order, None)))

    def test_searched_orders(self):
        price = library.PriceOptions(costs=COST.encode())
        given = library.SearchOptions(ranks=2, micro_batches=4, price=ctypes.pointer(price))
        self.alike(says('schedule', 'search', '--ranks', '2', '--micro-batches', '4', '--cost', COST, '--json'),
                   weir.search(ranks=2, micro_batches=4, cost=COST).json(),
                   in_c(weir.Schedule, 'search', ctypes.byref(given), None))

    def test_each_says_which_optimizer_it_takes(self):
        with open(HEADER, encoding='utf-8') as file:
            header = file.read()
        structs = {name: body for name, body in re.findall(r'struct (weir_\w+) \{\n(.*?)\n\};', header, re.S)}
        for command, function, struct, optimizer in (
                (['partition'], weir.partition, 'weir_partition_options', 'adamw'),
                (['sweep'], weir.sweep, 'weir_sweep_options', 'adamw'),
                (['sweep', '--config=x'], weir.sweep_configs, 'weir_config_sweep_options', 'adamw-master')):
            with self.subTest(command):
                usual = inspect.signature(function).parameters['optimizer'].default
                self.assertEqual(usual, optimizer)
                self.assertRegex(says(*command, '--help'), rf'--optimizer=NAME\s[^-]*?\b{optimizer} \(usual\)')
                self.assertRegex(function.__doc__, rf'`optimizer`: {optimizer} \(the\s+usual\)')
                line = re.search(r'((?://[^\n]*\n\s*)?const char \*optimizer;[^\n]*)', structs[struct])[1]
                self.assertRegex(line, rf'usual: "{optimizer}"|"{optimizer}" \(usual\)')


if __name__ == '__main__':
    unittest.main()
