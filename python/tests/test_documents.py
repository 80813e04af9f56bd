"""Profiles, plans, schedules, simulations and sweeps, as a user of the package meets them."""

import copy
import gc
import gzip
import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import types
import unittest
from contextlib import redirect_stdout
from unittest import mock

import weir

CLUSTER = '2 devices, 16MiB, 10GB/s 10us'


def layer(name, scale):
    """A layer whose numbers are all of one size."""
    return {'name': name, 'kind': 'linear', 'forward_ns': 1000000 * scale, 'backward_input_ns': 1200000 * scale,
            'backward_weight_ns': 800000 * scale, 'parameter_bytes': 65536 * scale, 'output_bytes': 16384,
            'saved_bytes': 16384 * scale, 'input_kept': 'weight', 'held_for_weight_bytes': 16384,
            'workspace_bytes': 0, 'backward_workspace_bytes': 0, 'flops': 0}


def numbers(count=8):
    """A profile's document, as somebody has who measured it by other means."""
    return {'format': 'weir.profile', 'version': 1, 'model': 'eight', 'micro_batch': 4, 'dtype': 'fp32',
            'source': {'how': 'imported', 'device': 'cpu', 'clock': 'thread_cpu', 'repeats': 20,
                       'sum_ns': sum(3000000 * (1 + i % 3) for i in range(count)), 'whole_ns': 0,
                       'backward_split': 'measured'},
            'layers': [layer(f'layer{i}', 1 + i % 3) for i in range(count)]}


def profile(count=8, **more):
    return weir.Profile.from_json(json.dumps({**numbers(count), **more}))


def weir_says(*arguments):
    """What the program `weir` of the same build prints."""
    return subprocess.run(['weir', *arguments], check=True, stdout=subprocess.PIPE).stdout.decode()


class Case(unittest.TestCase):
    def refuses(self, sentence, code, function, *arguments, **options):
        """The whole sentence, or, where `sentence` is a pattern, what it finds."""
        with self.assertRaises(weir.WeirError) as refused:
            function(*arguments, **options)
        self.assertEqual(refused.exception.code, code, refused.exception)
        if hasattr(sentence, 'search'):
            self.assertRegex(str(refused.exception), sentence)
        else:
            self.assertEqual(str(refused.exception), sentence)



class Profiles(Case):
    def test_a_document_comes_back_as_weir_writes_it(self):
        made = profile()
        self.assertEqual(made.document['layers'][3]['forward_ns'], 1000000)
        self.assertEqual(weir.Profile.from_json(made.json()).json(), made.json())
        self.assertEqual(pickle.loads(pickle.dumps(made)), made)
        self.assertEqual(copy.copy(made).json(), made.json())
        made.save('profile.json')
        with open('profile.json', encoding='utf-8') as file:
            self.assertEqual(file.read(), made.json())
        self.assertEqual(weir.Profile.load('profile.json'), made)
        self.assertIn('layer7', made.table())
        self.assertEqual(repr(made), '<weir.Profile of eight: 8 layers, imported, micro-batches of 4>')

    def test_a_wrong_document_is_refused_in_weirs_words(self):
        wrong = numbers()
        wrong['layers'][2]['forward_ns'] = -1
        self.refuses(re.compile(r'^mine: layers\[2\]\.forward_ns: '), 2, weir.Profile.from_json, json.dumps(wrong),
                     'mine')
        self.refuses(re.compile('^the profile: '), 2, weir.Profile.from_json, 'no document')
        self.refuses(re.compile('^nowhere.json: cannot be read'), 2, weir.Profile.load, 'nowhere.json')
        self.refuses(re.compile('nowhere'), 3, profile().save, 'nowhere/profile.json')

    def test_lint_says_what_looks_wrong(self):
        wrong = numbers()
        wrong['source']['whole_ns'] = 2 * wrong['source']['sum_ns']
        found = weir.Profile.from_json(json.dumps(wrong)).lint()
        self.assertTrue(any('untrusted' in line for line in found), found)


class Plans(Case):
    def test_a_plan_is_what_the_command_prints(self):
        made = profile()
        made.save('profile.json')
        plan = weir.partition(made, CLUSTER, schedule='1f1b', micro_batches=8)
        plan.save('plan.json')
        self.assertEqual(plan.json(), weir_says('partition', 'profile.json', '--cluster', CLUSTER, '--schedule=1f1b',
                                                '--micro-batches=8', '-o', '-'))
        loaded = weir.Plan.load('plan.json')
        self.assertEqual(loaded.text(), plan.text().replace(
            'Proved optimal: no other cut or recomputation that fits is faster.',
            'Its file says that it is proved optimal, which was not checked.'))
        self.assertTrue(plan.proved)
        self.assertFalse(loaded.proved)
        self.assertEqual((loaded.ranks, loaded.micro_batches), (2, 8))
        self.assertEqual((loaded.schedule_name, loaded.optimizer), ('1f1b', 'adamw'))
        self.assertNotIn('optimal', repr(loaded))
        loaded.check(made, prove=True)
        self.assertTrue(loaded.proved)
        self.assertEqual(loaded.text(), plan.text())
        self.assertEqual(weir_says('simulate', 'plan.json', '--json'), plan.simulate().json())
        self.assertEqual(weir_says('explain', 'plan.json', '--profile=profile.json', '--json'),
                         plan.explain(made).json())
        self.assertIn('proved optimal', repr(plan))
        plan.check(made)

    def test_an_export_is_what_the_command_writes(self):
        made = profile()
        made.save('profile.json')
        told = refused = 0
        formats = re.findall(r'^  (\S+)', weir_says('export', '--help').partition('Formats:\n')[2].partition('\n\n')[0],
                             re.M)
        self.assertIn('pytorch-csv', formats)
        for schedule in ('1f1b', 'gpipe', 'zb-v', 'chimera'):
            plan = weir.partition(made, CLUSTER, schedule=schedule, micro_batches=8)
            plan.save('plan.json')
            for name in [*formats, 'jax']:
                for options, given in (([], {}), (['--profile=profile.json'], {'profile': made}),
                                       (['--units=0,3,3,2,0'], {'units': [0, 3, 3, 2, 0]}),
                                       (['--base=my.llama'], {'base': 'my.llama'})):
                    ended = subprocess.run(['weir', 'export', name, 'plan.json', *options], capture_output=True,
                                           check=False)
                    sentences = [re.sub('^weir: (plan.json: )?', '', line)
                                 for line in ended.stderr.decode().splitlines()]
                    said = []
                    with self.subTest(schedule=schedule, format=name, options=options):
                        try:
                            text = plan.export(name, said=said.append, **given)
                        except weir.WeirError as why:
                            self.assertEqual((why.code, [str(why)]), (ended.returncode, sentences))
                            refused += 1
                        else:
                            self.assertEqual((0, text.encode(), said), (ended.returncode, ended.stdout, sentences))
                            told += 1
        self.assertGreater(told, 20)
        self.assertGreater(refused, 20)

    def test_an_export_is_refused_in_the_commands_words(self):
        plan = weir.partition(profile(), CLUSTER, schedule='1f1b', micro_batches=8)
        self.refuses('there is no format "jax" to export (weir export --help lists them)', 2, plan.export, 'jax')
        self.refuses(re.compile('^the plan was made of the profile .*, and this is '), 2, plan.export, 'megatron',
                     profile=profile(9))
        self.refuses('--units: names 3 layers, but the plan has 8', 2, plan.export, 'megatron', units=[1, 1, 1])
        self.refuses('units: -1 is not between 0 and 4294967295', 2, plan.export, 'megatron', units=[-1])
        self.refuses('--base: Megatron-Core has no config functions', 2, plan.export, 'megatron', base='my.llama')
        for base in ('llama', '.llama', 'my.', 'my..llama', 'my.2llama', 'my.llama()', 'my.llama\n', ''):
            self.refuses(f'--base: "{base}" is not MODULE.FUNCTION, such as torchtitan.models.llama3.config_registry.'
                         'llama3_8b', 2, plan.export, 'torchtitan', base=base)
        with self.assertRaisesRegex(TypeError, 'a weir.Profile is wanted'):
            plan.export('megatron', profile='profile.json')

    def test_an_order_is_planned_as_it_is(self):
        made = profile()
        named = weir.partition(made, CLUSTER, schedule='1f1b', micro_batches=8)
        order = weir.schedule('1f1b', ranks=2, micro_batches=8)
        order.save('order.json')
        made.save('profile.json')
        for given in order, weir.Schedule.from_csv(order.csv(), '1f1b (given).csv'):  # which has no STEPs
            plan = weir.partition(made, CLUSTER, schedule=given)
            self.assertEqual(plan.document['predicted'], named.document['predicted'])
            self.assertEqual(plan.document['certificate'], named.document['certificate'])
            self.assertEqual(plan.document['schedule']['actions'], order.document['actions'])
            self.assertEqual(plan.json(), weir_says('partition', 'profile.json', '--cluster', CLUSTER,
                                                    '--schedule=./order.json', '-o', '-'))
            plan.check(made)
        self.refuses(re.compile('cannot be had for 4, ranks 2'), 2, weir.partition, made, CLUSTER, schedule=order,
                     micro_batches=4)
        self.refuses(re.compile('^order: its weights are "stash"'), 2, weir.partition, made, CLUSTER,
                     schedule=weir.schedule('pipedream', ranks=2, micro_batches=8))
        self.refuses(re.compile('^weir_partition_options.micro_batches is needed'), 2, weir.partition, made, CLUSTER,
                     schedule='1f1b')

    def test_its_numbers_are_held_against_a_profile(self):
        plan = weir.partition(profile(), CLUSTER, schedule='1f1b', micro_batches=8)
        other = numbers()
        other['layers'][0]['forward_ns'] += 1
        other['source']['sum_ns'] += 1
        self.refuses(re.compile('.'), 1, plan.check, weir.Profile.from_json(json.dumps(other)))

    def test_what_is_wrong_is_a_sentence(self):
        made = profile()
        for sentence, code, options in (
            (re.compile('^rank|^no plan|lacks'), 1, {'memory': '300KiB'}),
            (re.compile('^no schedule|"zb"'), 2, {'schedule': 'zb'}),
            ('micro_batches: 0 is not between 1 and 4294967295', 2, {'micro_batches': 0}),
            ('ranks: 3, but the cluster has 2 devices', 2, {'ranks': 3}),
            (re.compile('^optimizer: "lion" is none of sgd, momentum, adamw, adam, '), 2, {'optimizer': 'lion'}),
            ('shard: "all" is none of none, optimizer, gradients, weights', 2, {'shard': 'all'}),
            ('host: "weights" is none of optimizer, activations', 2, {'host': ['weights']}),
            ('choose: "cuts" is none of replicas, devices, fewer, variants', 2, {'choose': 'cuts'}),
        ):
            with self.subTest(options):
                self.refuses(sentence, code, weir.partition, made, CLUSTER,
                             **{'schedule': '1f1b', 'micro_batches': 4, **options})
        self.refuses(re.compile('cluster'), 2, weir.partition, made, '{}', schedule='1f1b', micro_batches=4)

    def test_a_cluster_is_a_line_or_a_document_or_a_file(self):
        plan = weir.partition(profile(), CLUSTER, schedule='gpipe', micro_batches=4)
        document = plan.document['cluster']
        with open('cluster.json', 'w', encoding='utf-8') as file:
            json.dump(document, file)
        for cluster in (document, json.dumps(document), 'cluster.json'):
            again = weir.partition(profile(), cluster, schedule='gpipe', micro_batches=4)
            self.assertEqual(again.json(), plan.json())

    def test_replicas_can_be_chosen_and_states_be_shared(self):
        plan = weir.partition(profile(2), '4 devices, 16MiB, 10GB/s 10us', schedule='1f1b', micro_batches=8,
                              optimizer='adamw', choose='replicas', shard='optimizer')
        self.assertEqual(sum(len(stage['devices']) for stage in plan.document['stages']), 4)
        self.assertLess(len(plan.document['stages']), 4)
        self.assertEqual(plan.document['storage']['shard'], 'optimizer')

    def test_replicas_devices_and_pins_can_be_given(self):
        made, how = profile(), {'schedule': '1f1b', 'micro_batches': 8}
        made.save('profile.json')

        def plan(**given):
            return weir.partition(made, '4 devices, 16MiB, 10GB/s 10us', **how, **given)
        given = plan(replicas=[2, 1], devices=[3, 0, 1], pins={'layer2': 1, 'layer1': 0})
        self.assertEqual([[[3], [0]], [[1]]], [stage['devices'] for stage in given.document['stages']])
        self.assertEqual(['layer0', 'layer1'], given.document['stages'][0]['layers'])
        self.assertEqual(given.json(), weir_says(
            'partition', 'profile.json', '--cluster=4 devices, 16MiB, 10GB/s 10us', '--schedule=1f1b', '-m8',
            '--replicas=2,1', '--devices=3,0,1', '--pin=layer2=1', '--pin=layer1=0', '-o', '-'))
        given.check(made)
        for sentence, options in (('devices: device 4 is not in the cluster (0 to 3)', {'devices': [4]}),
                                  ('pins: the profile has no layer named "head"', {'pins': {'head': 0}}),
                                  ('replicas: 0 is not between 1 and 4294967295', {'replicas': [1, 0]}),
                                  ('devices: are given, and so there is nothing to choose',
                                   {'devices': [0, 1], 'choose': 'devices'})):
            self.refuses(sentence, 2, plan, **options)

    def test_tied_layers_are_apart_where_the_schedule_flushes(self):
        tied = profile(tied=[[0, 7]], one_owner=[[0, 7]])

        def plan(made=tied, schedule='1f1b', **how):
            return weir.partition(made, CLUSTER, schedule=schedule, micro_batches=4, **how)
        self.assertEqual(plan().json(), plan(tied_apart=True).json())
        self.assertTrue(plan().document['storage']['tied_apart'])
        self.assertEqual(2, len(plan().document['stages']))
        self.refuses(re.compile('^the model can be cut into 1 stage at most, too few for 2 ranks'), 1, plan,
                     tied_apart=False)
        self.refuses(re.compile('^the model can be cut into 1 stage at most'), 1, plan, schedule='pipedream')
        self.refuses(re.compile('^tied layers apart: their gradients are added up at a flush'), 2, plan,
                     schedule='pipedream', tied_apart=True)
        self.assertNotIn('storage', plan(profile()).document)

    def test_the_own_order_of_a_graph_is_kept(self):
        numbers = {'output_bytes': 40000000, 'saved_bytes': 0}
        layers = [{**layer(f'layer{i}', 1), **(numbers if i in (1, 2) else {})} for i in range(6)]
        made = profile(6, layers=layers, edges=[[0, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 5]])
        made.save('profile.json')
        how = {'cluster': '2 devices, 16GiB, 12GB/s 5us', 'schedule': '1f1b', 'micro_batches': 8}
        own = weir.partition(made, own_order=True, **how)
        self.assertIn('order', weir.partition(made, **how).document)
        self.assertNotIn('order', own.document)
        self.assertEqual(own.json(), weir_says('partition', 'profile.json', '--cluster', how['cluster'], '--schedule',
                                               '1f1b', '--micro-batches', '8', '--own-order', '--json'))
        swept = weir.sweep(made, how['cluster'], schedules='1f1b', micro_batches=8, own_order=True)
        self.assertNotIn('order', swept.best.document)

    def test_progress_is_told_in_words_and_its_errors_come_back(self):
        class Enough(Exception):
            pass

        def enough(_):
            raise Enough

        def plan(progress):
            return weir.partition(profile(64), '8 devices, 4MiB, 10GB/s 10us', schedule='interleaved',
                                  micro_batches=32, optimizer='sgd', progress=progress)
        told = []
        plan(told.append)
        self.assertTrue(told and all(re.search('units of work', words) for words in told), told)
        with self.assertRaises(Enough):
            plan(enough)

    def test_glpk_is_found_beside_the_library(self):
        if not os.path.exists(os.path.join(os.environ['WEIR_LIBEXEC'], 'weir-glpk')):
            self.skipTest('weir-glpk is not built here (libglpk-dev)')
        made = profile(4)
        plan = weir.partition(made, CLUSTER, schedule='1f1b', micro_batches=8)
        with mock.patch.dict(os.environ):
            del os.environ['WEIR_LIBEXEC']
            self.assertRegex(plan.second_opinion(made), r'Second opinion \(GLPK, optimal\): .* as we say')

    def test_an_explanation_says_what_binds(self):
        made = profile()
        plan = weir.partition(made, CLUSTER, schedule='1f1b', micro_batches=8)
        explanation = plan.explain(made, budget=1000)
        self.assertEqual(explanation.document['format'], 'weir.explanation')
        self.assertIn('What a change would gain', str(explanation))


class Schedules(Case):
    def test_every_form_is_the_same_order(self):
        made = weir.schedule('zb-h1', ranks=3, micro_batches=4)
        self.assertEqual(weir.Schedule.from_json(made.json()).json(), made.json())
        self.assertEqual(weir.Schedule.from_csv(made.csv()).csv(), made.csv())
        self.assertEqual(made.csv(), weir_says('schedule', 'zb-h1', '--ranks=3', '--micro-batches=4', '--format=csv'))
        self.assertEqual(made.json(), weir_says('schedule', 'zb-h1', '--ranks=3', '--micro-batches=4', '--format=json'))
        self.assertNotIn('SEND', made.csv())
        self.assertIn('0SEND_F0', made.csv(lowered=True))
        self.assertNotIn('\r', made.csv(line_feeds=True))
        self.assertEqual(repr(made), '<weir.Schedule zb-h1: 3 ranks, 3 stages, 4 micro-batches>')

    def test_stages_are_cut_into_segments(self):
        made = weir.schedule('zb-v', ranks=2, micro_batches=4, segments=3, passes=3)
        self.assertEqual(made.json(), weir_says('schedule', 'zb-v', '--ranks=2', '--micro-batches=4', '--segments=3,3',
                                                '--format=json'))

    def test_of_a_plan_it_is_the_order_that_was_planned(self):
        plan = weir.partition(profile(), CLUSTER, schedule='zb-v', micro_batches=4)
        made = plan.schedule()
        self.assertEqual(made.document['actions'], weir.schedule('zb-v', ranks=2, micro_batches=4).document['actions'])
        self.assertEqual(made.document['costs'], [stage['costs'] for stage in plan.document['stages']])
        self.assertEqual(made.simulate(cluster=CLUSTER).document['iteration_ns'],
                         plan.document['predicted']['iteration_ns'])

    def test_gpipes_time_is_the_papers(self):
        for ranks, batches in ((1, 1), (2, 3), (4, 8)):
            run = weir.schedule('gpipe', ranks=ranks, micro_batches=batches).simulate('1us,1us,1us,0us')
            self.assertEqual(run.document['iteration_ns'], 3000 * (batches + ranks - 1))

    def test_check_finds_what_cannot_run(self):
        good = weir.schedule('1f1b', ranks=2, micro_batches=2)
        self.assertTrue(good.check()['ok'])
        for options in ({'sends': 'eager:2'}, {'sends': 'grouped'}, {'receives': 'late', 'sends': 'eager:1'},
                        {'channels': 'shared'}, {'receives': 'timed', 'cost': '1us,1us,1us,1us'}):
            self.assertTrue(good.check(**options)['ok'], options)
        wrong = good.document
        wrong['actions'][0] = wrong['actions'][0].replace('0F0 ', '', 1)
        cannot = weir.Schedule.from_json(json.dumps(wrong))
        result = cannot.check()
        self.assertFalse(result['ok'])
        self.assertEqual(result['faults'][0]['rank'], 0)
        for numbers_of in (lambda: cannot.simulate(cost='1us,1us,1us,0us'), cannot.csv):  # of what cannot run there are none
            self.refuses(re.compile('^cannot run: rank 0, .*0F0'), 2, numbers_of)
        tight = good.check(memory='1KiB', cost='1us,1us,1us,0us', keep=('1KiB', 0))
        self.assertFalse(tight['ok'])
        self.refuses('sends: "all" is none of rendezvous, eager:K, grouped', 2, good.check, sends='all')
        self.refuses('channels: "one" is neither shared nor apart', 2, good.check, channels='one')
        self.refuses('receives: "never" is none of early, late, timed', 2, good.check, receives='never')
        self.refuses('memory: says nothing of a schedule without costs', 2, good.check, memory=1)

    def test_costs_are_asked_for(self):
        made = weir.schedule('1f1b', ranks=2, micro_batches=2)
        self.refuses('the schedule has no costs: give F,I,W,C or a document of them', 2, made.simulate)
        row = {'forward_ns': 1, 'backward_input_ns': 1, 'backward_weight_ns': 1}
        rows = {'format': 'weir.costs', 'version': 1, 'costs': [row] * 3}
        self.refuses('costs: has costs of 3 stages, not of 2', 2, made.simulate, rows)
        self.refuses('costs: takes 4 quantities, F,I,W,C, not 2', 2, made.simulate, '1us,2us')
        self.refuses('costs: overlapped: "2.5" has no unit: write it as a time such as 18522us', 2, made.simulate,
                     '1us,2us,3us,4us', overlapped='2.5')
        self.refuses(re.compile('no schedule|"none"'), 2, weir.schedule, 'none', ranks=2, micro_batches=2)

    def test_a_search_has_a_bound(self):
        found = weir.search(ranks=4, micro_batches=8, cost='10us,12us,8us,1us')
        self.assertTrue(found.check()['ok'])
        self.assertLessEqual(found.bound_ns, found.time_ns)
        self.assertEqual(found.gap, (found.time_ns - found.bound_ns) / found.time_ns)
        self.assertEqual(found.time_ns, found.simulate('10us,12us,8us,1us').document['max_span_ns'])
        self.assertIn('none less than', repr(found))
        self.refuses(re.compile('rank'), 1, weir.search, ranks=2, micro_batches=2, cost='1us,1us,1us,0us',
                     keep=('2KiB', '1KiB'), memory='1KiB')


class Pictures(Case):
    def run_of(self):
        return weir.schedule('1f1b', ranks=2, micro_batches=3).simulate('1us,1us,1us,0us')

    def test_a_simulation_is_drawn_in_four_ways(self):
        run = self.run_of()
        self.assertTrue(run.svg().startswith('<svg'))
        self.assertIn('<html', run.html().lower())
        self.assertIn('traceEvents', json.loads(run.trace()))
        self.assertTrue(run.chart(columns=60).startswith('rank 0 F0'))
        self.assertTrue(run.chart(ascii=True).isascii())
        self.assertIn('\x1b[', run.chart(colours=True))
        self.refuses('columns: 3 is not between 20 and 10000', 2, run.chart, columns=3)
        self.assertIn('makespan', run.text())

    def test_show_prints_a_chart_in_a_terminal(self):
        said = io.StringIO()
        with redirect_stdout(said):
            weir.schedule('1f1b', ranks=2, micro_batches=3).show()
            weir.partition(profile(), CLUSTER, schedule='1f1b', micro_batches=4).show()
        self.assertRegex(said.getvalue(), r'(?s)rank 0 F0.*stage  layers.*rank 0 F')

    def test_show_is_a_picture_in_a_notebook(self):
        shown = []
        shell = types.SimpleNamespace(kernel=object())
        played = {'IPython': types.SimpleNamespace(get_ipython=lambda: shell),
                  'IPython.display': types.SimpleNamespace(SVG=str, display=shown.append)}
        with mock.patch.dict(sys.modules, played):
            self.run_of().show()
        self.assertEqual(len(shown), 1)
        self.assertTrue(shown[0].startswith('<svg'))


class Comparisons(Case):
    """Runs are simulated ones, by traces that Weir itself draws, whose stage 1 is made slow."""

    def run_of(self, plan, slowness=1):
        """The trace's text, with forwards of stage 1 this many times as long."""
        order = plan.schedule().document
        order['costs'][1]['forward_ns'] *= slowness
        return weir.Schedule.from_json(json.dumps(order)).simulate(cluster=CLUSTER).trace()

    def setUp(self):
        self.profile = profile()
        self.plan = weir.partition(self.profile, CLUSTER, schedule='1f1b', micro_batches=8)
        for name, slowness in (('as_planned.json', 1), ('slow.json', 3)):
            with open(name, 'w', encoding='utf-8') as file:
                file.write(self.run_of(self.plan, slowness))

    def test_a_run_as_planned_has_no_causes(self):
        found = weir.compare(self.plan, 'as_planned.json')
        self.assertEqual(found.causes, [])
        document = found.document
        self.assertEqual(document['measured']['iteration_ns'], self.plan.document['predicted']['iteration_ns'])
        self.assertEqual(document['predicted'], document['measured'])

    def test_the_slow_stage_comes_first_and_the_command_says_the_same(self):
        self.plan.save('plan.json')
        found = weir.compare(self.plan, 'slow.json')
        self.assertEqual((found.causes[0]['cause'], found.causes[0]['stage']), ('stage', 1))
        self.assertEqual(found.causes[0]['iteration_ns'], found.document['measured']['iteration_ns'])
        self.assertEqual(found.json(), weir_says('compare', 'plan.json', 'slow.json', '--json'))
        self.assertEqual(found.text(), weir_says('compare', 'plan.json', 'slow.json'))
        self.assertEqual(str(found), found.text())
        self.assertRegex(repr(found), r'<weir.Comparison: .* ms predicted, .* ms measured, mostly by stage>')
        self.assertTrue(any(note.startswith('left out: ') for note in found.notes), found.notes)

    def test_files_are_packed_or_not_and_of_all_ranks_or_of_each(self):
        with open('slow.json', 'rb') as file, gzip.open('slow.json.gz', 'wb') as packed:
            packed.write(file.read())
        with open('slow.json', encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
        for rank in range(2):
            with open(f'rank{rank}.json', 'w', encoding='utf-8') as file:
                json.dump([event for event in events if event['pid'] == rank and event['ph'] in 'XMC'], file)
        whole = weir.compare(self.plan, 'slow.json')
        self.assertEqual(weir.compare(self.plan, pathlib.Path('slow.json.gz')), whole)
        self.assertEqual(weir.compare(self.plan, (f'rank{rank}.json' for rank in range(2)), iteration=0), whole)

    def test_a_schedule_is_given_its_costs(self):
        order = weir.schedule('gpipe', ranks=2, micro_batches=3)
        with open('gpipe.json', 'w', encoding='utf-8') as file:
            file.write(order.simulate('2us,1us,1us,0us').trace())
        found = weir.compare(order, 'gpipe.json', cost='1us,1us,1us,0us')
        self.assertEqual(found.document['predicted']['iteration_ns'], 3000 * 4)
        self.assertEqual({cause['cause'] for cause in found.causes}, {'stage'})
        self.refuses('the schedule has no costs: give F,I,W,C or a document of them', 2, weir.compare, order,
                     'gpipe.json')
        self.refuses('a plan brings its own costs and cluster: leave cost, overlapped, keep and cluster out', 2,
                     weir.compare, self.plan, 'slow.json', cost='1us,1us,1us,0us')

    def test_experts_are_shown_as_counted_and_as_planned(self):
        spec = 'gpt-moe-nano,width=32,heads=4,blocks=2,sequence=32,micro_batch=6'
        with open('text', 'w', encoding='utf-8') as file:
            file.writelines(f'line {i} of a text that evens out the flow\n' for i in range(1200))
        weir_says('profile', spec, '--data', 'text', '--batches', '20', '--rows', '2', '--experts', 'dealt', '--cluster',
                  '2 devices, 1GiB, 5GB/s 2us', '-o', 'experts.json')
        weir_says('partition', 'experts.json', '--cluster', '2 devices, 1GiB, 5GB/s 2us', '--ranks', '1', '--schedule',
                  'gpipe', '--micro-batches', '2', '--variants', 'rows2:dealt', '-o', 'routed.json')
        weir_says('train', spec, '--plan', 'routed.json', '--data', 'text', '--steps', '2', '--out', 'ran')
        plan, made, trace = weir.Plan.load('routed.json'), weir.Profile.load('experts.json'), 'ran/measured.trace.json'
        alone, beside = weir.compare(plan, trace), weir.compare(plan, trace, profile=made)
        self.assertEqual(alone.json(), weir_says('compare', 'routed.json', trace, '--json'))
        self.assertEqual(beside.json(), weir_says('compare', 'routed.json', trace, '--profile', 'experts.json', '--json'))
        self.assertEqual(beside.text(), weir_says('compare', 'routed.json', trace, '--profile', 'experts.json'))
        row, = beside.document['experts']
        self.assertIn('predicted_slowest_milli', row)
        self.assertNotIn('predicted_slowest_milli', alone.document['experts'][0])
        self.refuses('the run counted the routing of experts, which only `weir compare --refine` takes into a profile',
                     2, made.refine, plan, trace)
        self.refuses(re.compile('^the plan was made of the profile [0-9a-f]{32}'), 2, weir.compare, plan, trace,
                     profile=self.profile)
        lacking = weir.compare(plan, 'ran/predicted.trace.json', profile=made)
        self.assertIn('the run has no counts of experts: their routing is not compared', lacking.notes)
        self.refuses('weir_compare_options.profile goes with a plan, and a schedule has no layers', 2, weir.compare,
                     weir.schedule('gpipe', ranks=1, micro_batches=2), trace, cost='1us,1us,1us,0us', profile=made)

    def test_the_next_plan_gives_the_slow_stage_less(self):
        refined = self.profile.refine(self.plan, 'slow.json')
        was, now = (sum(layer['forward_ns'] for layer in made.document['layers'] if layer['name'] in
                        self.plan.document['stages'][1]['layers']) for made in (self.profile, refined))
        self.assertEqual(now, 3 * was)
        again = weir.partition(refined, CLUSTER, schedule='1f1b', micro_batches=8)
        self.assertLess(len(again.document['stages'][1]['layers']), len(self.plan.document['stages'][1]['layers']))
        self.assertEqual(self.profile.json(), profile().json())
        self.refuses(re.compile('^the plan was made of the profile [0-9a-f]{32}, and this is [0-9a-f]{32}$'), 2,
                     refined.refine, self.plan, 'slow.json')
        self.refuses('the comparison is of a schedule, which has no layers: compare a plan with the run', 2,
                     self.profile.refine, self.plan.schedule(), 'slow.json')

    def test_what_cannot_be_compared_is_a_sentence(self):
        shorter = weir.partition(self.profile, CLUSTER, schedule='1f1b', micro_batches=4)
        for sentence, planned, traces, options in (
            ('slow.json: 0F4 on rank 0 is in the measured run only: the two do not do the same work', shorter,
             'slow.json', {}),
            ('nowhere.json: cannot be read: No such file or directory', self.plan, ['nowhere.json'], {}),
            ('weir_compare_options.files is needed: the file of a run, or one for each rank', self.plan, [], {}),
            ('slow.json: has iterations 0 to 0, not 5', self.plan, 'slow.json', {'iteration': 5}),
            ('iteration: -1 is not between 0 and 4294967295', self.plan, 'slow.json', {'iteration': -1}),
        ):
            with self.subTest(sentence):
                self.refuses(sentence, 2, weir.compare, planned, traces, **options)
        with self.assertRaisesRegex(TypeError, 'a weir.Plan or a weir.Schedule is wanted, not 12'):
            weir.compare(12, 'slow.json')

    def test_a_comparison_outlives_the_name_of_its_plan(self):
        found = weir.compare(weir.Plan.from_json(self.plan.json()), 'slow.json')
        gc.collect()
        self.assertEqual(found.json(), weir.compare(self.plan, 'slow.json').json())
        with self.assertRaisesRegex(TypeError, 'a comparison is written, and not read'):
            pickle.dumps(found)


class Sweeps(Case):
    def test_rows_table_and_best_are_of_one_sweep(self):
        told = []
        found = weir.sweep(profile(), CLUSTER, schedules=['1f1b', 'zb-h1'], micro_batches=[2, 8], progress=told.append)
        self.assertEqual([(row['schedule'], row['micro_batches']) for row in found],
                         [('1f1b', 2), ('1f1b', 8), ('zb-h1', 2), ('zb-h1', 8)])
        best = min(found, key=lambda row: row['micro_batch_ns'])
        self.assertTrue(best['best'])
        self.assertEqual(found.best.document['predicted']['iteration_ns'], best['iteration_ns'])
        self.assertIn('zb-h1', found.table())
        self.assertRegex(told[-1], r'^\d of 4 plans$')

    def test_tied_layers_are_apart_in_rows_that_flush(self):
        names = ['1f1b', 'pipedream']
        tied = profile(tied=[[0, 7]], one_owner=[[0, 7]])
        found = weir.sweep(tied, CLUSTER, schedules=names, micro_batches=4)
        self.assertEqual(['planned', 'refused'], [row['outcome'] for row in found])
        self.assertIn('can be cut into 1 stage at most', found[1]['reason'])
        together = weir.sweep(tied, CLUSTER, schedules=names, micro_batches=4, tied_apart=False)
        self.assertEqual(['refused', 'refused'], [row['outcome'] for row in together])
        self.assertNotIn('storage', weir.sweep(profile(), CLUSTER, schedules=names, micro_batches=4).document)

    def test_where_nothing_fits_there_is_no_best(self):
        found = weir.sweep(profile(), CLUSTER, schedules='1f1b', micro_batches=2, memory='100KiB')
        self.assertIsNone(found.best)
        self.assertEqual(found[0]['outcome'], 'does not fit')


if __name__ == '__main__':
    unittest.main()
