"""Estimates, and sweeps over configurations, as a user of the package meets them."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import weir
from test_documents import Case

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, 'examples', 'share_out.py')
LLAMA = {'model_type': 'llama', 'num_hidden_layers': 2, 'hidden_size': 4096, 'num_attention_heads': 32,
         'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 32000, 'max_position_embeddings': 4096}


class Estimates(Case):
    def test_an_estimate_is_planned_with(self):
        estimate = weir.estimate(LLAMA, 'h100-sxm', tensor=2, sequence_parallel=True)
        self.assertEqual(estimate.document['format'], 'weir.estimate')
        self.assertEqual([layer['count'] for layer in estimate.document['layers']], [1, 2, 2, 1])
        self.assertIn('attention', estimate.table())
        plan = weir.partition(estimate.profile(), '2 devices, 80GiB, 450GB/s 5us', schedule='1f1b', micro_batches=4)
        plan.check(estimate.profile())

    def test_one_word_is_a_list_of_one(self):
        kept, less = (weir.estimate(LLAMA, 'h100-sxm', recompute_tensors=tensors).json()
                      for tensors in ('norms', ['norms', 'activations']))
        self.assertEqual(kept, weir.estimate(LLAMA, 'h100-sxm', recompute_tensors=['norms']).json())
        self.assertNotEqual(kept, less)

    def test_plans_choose_among_its_variants(self):
        profile = weir.estimate(LLAMA, 'h100-sxm', variants='2,tensor2sp,context2').profile()
        names = [variant['name'] for variant in profile.document['layers'][0]['variants']]
        self.assertEqual(names, ['tensor2', 'tensor2sp', 'context2'])
        plan = weir.partition(profile, '4 devices, 80GiB, 450GB/s 5us', schedule='1f1b', micro_batches=4,
                              choose='variants')
        plan.check(profile)
        self.assertEqual({stage['variant'] for stage in plan.document['stages']} - {*names, None}, set())
        self.assertNotEqual({stage['variant'] for stage in plan.document['stages']}, {None})

    def test_what_cannot_be_is_a_sentence(self):
        self.refuses(re.compile('^variants: "some" is none of 2, tensor2'), 2, weir.estimate, LLAMA, 'h100-sxm',
                     variants='some')
        self.refuses('the tensor degree of 3 does not divide the heads (32)', 2, weir.estimate, LLAMA, 'h100-sxm',
                     tensor=3)
        self.refuses(re.compile('"h101" is none of the built-in devices'), 2, weir.estimate, LLAMA, 'h101')


class AsTheCommand(Case):
    """Fine-tuning and runs of weeks, to the byte."""

    def said(self, *arguments):
        if not shutil.which('weir'):
            self.skipTest('there is no weir on the PATH')
        with open('config.json', 'w', encoding='utf-8') as file:
            json.dump(LLAMA, file)
        return subprocess.run(['weir', *arguments, '--json'], check=True, capture_output=True, text=True).stdout

    def test_what_is_not_trained_is_estimated(self):
        usual = ['estimate', 'config.json', '--device', 'h100-sxm']
        for options, words in (({'frozen': ['embedding', 'head'], 'lengths': '512:30%,2048:70%'},
                                ['--frozen', 'embedding,head', '--lengths', '512:30%,2048:70%']),
                               ({'lora': 16}, ['--lora', '16']), ({'lora': '8:mlp'}, ['--lora', '8:mlp']),
                               ({'narrow': ['activations', 'attention']}, ['--narrow', 'activations,attention'])):
            said = self.said(*usual, *words)
            self.assertEqual(weir.estimate('config.json', 'h100-sxm', **options).json(), said)

    def test_weeks_are_judged(self):
        usual = ['sweep', '--config', 'config.json', '--device', 'h100-sxm', '--devices', '16', '--global-batch', '32',
                 '--tensor', '2', '--ranks', '2', '--recompute', 'none', '--lora', '16:attention', '--mtbf', '10h',
                 '--checkpoint-rate', '10GB/s']
        for options, words in (({}, []), ({'repair': '1d'}, ['--repair', '1d']),
                               ({'repair': 3600, 'spares': 0}, ['--repair', '1h', '--spares', '0']),
                               ({'repair': '10h', 'elastic': True}, ['--repair', '10h', '--elastic']),
                               ({'checkpoint': '1TB', 'restart': '5min'}, ['--checkpoint', '1TB', '--restart', '5min'])):
            said = self.said(*usual, *words)
            judged = weir.judge('config.json', 'h100-sxm', tensor=2, ranks=2, data=4, micro_batches=8, recompute='none',
                                lora='16:attention', mtbf='10h', checkpoint_rate='10GB/s', **options)
            self.assertEqual(judged.json(), said)
            self.assertIn('Over weeks, with a failure every 10 h 0 min', judged.table())

    def test_what_cannot_be_is_a_sentence(self):
        self.refuses(re.compile('^weir_weeks_options.mtbf_ns and checkpoint_rate are needed'), 2, weir.judge, LLAMA,
                     'h100-sxm', micro_batches=4, mtbf='3h')
        self.refuses(re.compile('^weir_weeks_options.mtbf_ns and checkpoint_rate are needed'), 2, weir.judge, LLAMA,
                     'h100-sxm', micro_batches=4, elastic=True)
        self.refuses(re.compile('^checkpoint_rate: '), 2, weir.judge, LLAMA, 'h100-sxm', micro_batches=4, mtbf='3h',
                     checkpoint_rate='2TB')
        self.refuses(re.compile('^lora: '), 2, weir.judge, LLAMA, 'h100-sxm', micro_batches=4, lora=0)
        estimate = weir.estimate(LLAMA, 'h100-sxm', lora=16)
        self.refuses(re.compile('plans train all parameters'), 2, estimate.profile)


class Judgements(Case):
    def test_a_stated_layout_is_judged(self):
        judged = weir.judge(LLAMA, 'h100-sxm', like='torchtitan', ranks=2, data=4, micro_batches=1, recompute='full')
        document = judged.document
        self.assertEqual((document['format'], document['shard'], document['micro_batches']), ('weir.judgement', 'weights', 1))
        self.assertAlmostEqual(sum(ns for key, ns in document['time'].items() if key.endswith('_ns')),
                               document['iteration_ns'], delta=20)
        self.assertIn('which holds most', judged.table())

    def test_a_framework_may_be_told_otherwise(self):
        usual, waiting = (weir.judge(LLAMA, 'h100-sxm', tensor=4, micro_batches=4, overlap=overlap).document
                          for overlap in (None, 'nothing'))
        self.assertLess(usual['iteration_ns'], waiting['iteration_ns'])
        wide, narrow = (weir.judge(LLAMA, 'h100-sxm', micro_batches=4, gradient_bytes=size).document['ranks_bytes'][0]
                        for size in (4, 2))
        self.assertEqual(wide['gradients_bytes'], 2 * narrow['gradients_bytes'])

    def test_memory_may_be_said(self):
        self.assertTrue(weir.judge(LLAMA, 'h100-sxm', micro_batches=4).document['fits'])
        self.assertFalse(weir.judge(LLAMA, 'h100-sxm', micro_batches=4, memory='4GiB').document['fits'])

    def test_blocks_and_layouts_say_the_same(self):
        by_blocks, by_layout = (weir.judge(LLAMA, 'h100-sxm', ranks=2, micro_batches=4, **stages).json()
                                for stages in ({'blocks': [2, 0]}, {'layout': 'Et*2|L'}))
        self.assertEqual(by_blocks, by_layout)

    def test_what_cannot_be_is_a_sentence(self):
        self.refuses('layout: it has 1 stages, and ranks x chunks are 2', 2, weir.judge, LLAMA, 'h100-sxm', ranks=2,
                     micro_batches=4, layout='Et*2L')
        self.refuses(re.compile('^like: "megatorn" is none of megatron'), 2, weir.judge, LLAMA, 'h100-sxm',
                     micro_batches=4, like='megatorn')
        self.refuses(re.compile('^recompute: "half" is none of none, selective, full'), 2, weir.judge, LLAMA, 'h100-sxm',
                     micro_batches=4, recompute='half')


class Configs(Case):
    def test_the_best_is_a_plan_of_the_profile_that_is_handed_out(self):
        told = []
        found = weir.sweep_configs(LLAMA, 'h100-sxm', devices=8, global_batch=32, progress=told.append)
        best = next(row for row in found if row['best'])
        plan = found.best.document
        self.assertEqual(best, min((row for row in found if row['iteration_ns']), key=lambda row: row['iteration_ns']))
        self.assertEqual(best['iteration_ns'], plan['predicted']['iteration_ns'] + best['between_ns'])
        self.assertEqual((best['ranks'], best['schedule'], best['micro_batches']),
                         (plan['schedule']['ranks'], plan['schedule']['name'], plan['schedule']['micro_batches']))
        found.best.check(found.profile)
        degrees = {name: best[name] for name in ('tensor', 'context', 'expert', 'data', 'shard', 'micro_batch')}
        alone = weir.estimate(LLAMA, 'h100-sxm', sequence_parallel=best['tensor'] > 1, whole_blocks=True, **degrees)
        self.assertEqual(found.profile, alone.profile())
        self.assertIn('Best: tensor', found.table())
        self.assertRegex(told[-1], r'^\d+ of \d+ configurations$')
        self.assertEqual(repr(found), f'<weir.ConfigSweep of {len(found)} configurations; best: {found.best!r}>')

    def test_it_is_what_the_command_writes(self):
        command = shutil.which('weir')
        if not command:
            self.skipTest('there is no weir on the PATH')
        with open('config.json', 'w', encoding='utf-8') as file:
            json.dump(LLAMA, file)
        said = subprocess.run([command, 'sweep', '--config', 'config.json', '--device', 'a100-80', '--devices', '8',
                               '--global-batch', '16', '--tensor', '1,2', '--ranks', '2,4', '--micro-batch', '1',
                               '--shard', 'optimizer', '--schedules', '1f1b,zb-v', '--sequence', '2048', '--attention',
                               'flash', '--without', '1', '--slow', '1:80%',
                               '--placement', 'tp-cp-ep-pp-dp', '--price', '2.5', '--watts', '400', '--memory', '20GiB',
                               '--optimizer', 'adam8bit', '--budget', '3000', '--json'], check=True, capture_output=True,
                              text=True).stdout
        found = weir.sweep_configs('config.json', 'a100-80', devices=8, global_batch=16, tensor=[1, 2], ranks=(2, 4),
                                   micro_batch=1, shard='optimizer', schedules=['1f1b', 'zb-v'], sequence=2048,
                                   attention='flash', without=1, slow=1, slow_rate=0.8,
                                   placement='tp-cp-ep-pp-dp', price=2.5, watts=400, memory='20GiB',
                                   optimizer='adam8bit', budget=3000, threads=1)
        self.assertEqual(found.json(), said)

    def test_plans_for_a_framework_are_what_it_can_be_told(self):
        found = weir.sweep_configs(LLAMA, 'h100-sxm', devices=8, global_batch=32, ranks=4, target='megatron')
        self.assertLessEqual({row['schedule'] for row in found}, {'1f1b', 'interleaved'})
        self.assertEqual(found.best.document['for'], 'megatron')
        alone = weir.partition(found.profile, '4 devices, 80GiB, 300GB/s 3us', schedule='1f1b', micro_batches=8,
                               optimizer='adamw-master', target='torchtitan')
        self.assertEqual(alone.document['for'], 'torchtitan')
        with self.assertRaisesRegex(weir.WeirError, 'Megatron-Core has no schedule zb-v'):
            weir.partition(found.profile, '4 devices, 80GiB, 300GB/s 3us', schedule='zb-v', micro_batches=8,
                           target='megatron')

    def test_where_nothing_fits_there_is_no_best(self):
        found = weir.sweep_configs(LLAMA, 'h100-sxm', devices=2, global_batch=4, memory='1GiB')
        self.assertIsNone(found.best)
        self.assertIsNone(found.profile)
        self.assertEqual({row['outcome'] for row in found}, {'does not fit'})
        self.assertIn('None of them fits in 1.00 GiB per device.', found.table())

    def test_what_cannot_be_is_a_sentence(self):
        for sentence, options in (
            ('tensor: 0 is not between 1 and 4294967295', {'tensor': [0, 1]}),
            ('tensor: 5000 is not between 1 and 4096', {'tensor': 5000}),
            ('micro_batch: 65 numbers, of 64 at most', {'micro_batch': range(1, 66)}),
            ('devices: 1048577 is not between 1 and 1048576', {'devices': 1048577}),
            ('price: -1 is no amount, which is 0 or more', {'price': -1}),
            ('watts: nan is no amount, which is 0 or more', {'watts': float('nan')}),
            ('shards: "some" is none of none, optimizer, gradients, weights', {'shard': ['none', 'some']}),
            ('pipedream does not flush: its iterations are not of so many sequences', {'schedules': 'pipedream'}),
            ('8 devices without 8 leave none', {'without': 8}),
            ('placement: "dp" is none of tp-cp-ep-dp-pp, tp-cp-ep-pp-dp', {'placement': 'dp'}),
            ('slow_rate in thousandths: 1100 is not between 1 and 1000', {'slow': 1, 'slow_rate': 1.1}),
        ):
            with self.subTest(sentence):
                self.refuses(sentence, 2, weir.sweep_configs, LLAMA, 'h100-sxm',
                             **{'devices': 8, 'global_batch': 16, **options})
        self.refuses('nowhere.json: cannot be read: No such file or directory', 2, weir.sweep_configs, 'nowhere.json',
                     'h100-sxm', devices=8, global_batch=16)

    def test_the_example_says_what_each_kind_of_parallelism_gains(self):
        wide = {**LLAMA, 'num_hidden_layers': 12, 'hidden_size': 8192, 'num_attention_heads': 64,
                'intermediate_size': 28672}
        with open('config.json', 'w', encoding='utf-8') as file:
            json.dump(wide, file)
        for global_batch, gained in ((8, r'\d\.\d\d times as long'), (2, 'no configuration of 8 devices takes a batch of 2')):
            with self.subTest(global_batch):
                said = subprocess.run([sys.executable, EXAMPLE, 'config.json', 'a100-40', '8', str(global_batch)],
                                      check=True, capture_output=True, text=True).stdout
                self.assertRegex(said, r'\* +\d+ +\d+')
                self.assertRegex(said, r'\nwith tensor 1 instead of \d: ' + gained)


if __name__ == '__main__':
    unittest.main()
