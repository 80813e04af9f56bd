"""Ctrl-C ends a long call: with the best so far, or with KeyboardInterrupt where there is nothing yet."""

import json
import os
import signal
import subprocess
import sys
import threading
import unittest

import weir

# A search that would take minutes: its budget is a thousand times the usual one. Each script prints "begun" when the
# search tells of its progress, which is when its parent sends the signal.
BEGIN = '''
import json, sys, weir
from test_documents import numbers
profile = weir.Profile.from_json(json.dumps(numbers(64)))
begun = []
def progress(words):
    if AS_SOON_AS in words and not begun:
        begun.append(words)
        print("begun", flush=True)
def plan(**options):
    return weir.partition(profile, "8 devices, MEMORY, 10GB/s 10us", schedule="interleaved", micro_batches=32,
                          optimizer="sgd", budget=3000000000, progress=progress, **options)
'''


def interrupted(script, as_soon_as, memory='4MiB', signals=1):
    """What a script prints, which is sent SIGINT once its progress says this; its exit code."""
    script = BEGIN.replace('AS_SOON_AS', repr(as_soon_as)).replace('MEMORY', memory) + script
    child = subprocess.Popen([sys.executable, '-c', script], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, 'PYTHONPATH': os.pathsep.join(
                                 [os.path.dirname(os.path.abspath(__file__)), os.environ.get('PYTHONPATH', '')])})
    with child:
        begun = child.stdout.readline()
        for _ in range(signals):
            child.send_signal(signal.SIGINT)
        said = child.stdout.read()
    return begun, said, child.returncode


class Interrupts(unittest.TestCase):
    def test_a_search_that_has_a_plan_returns_it(self):
        begun, said, code = interrupted('print(json.dumps(plan().document["certificate"]))', 'best so far')
        self.assertEqual((begun, code), ('begun\n', 0))
        certificate = json.loads(said)
        self.assertEqual((certificate['stopped'], certificate['proved']), ('interrupted', False))

    def test_a_second_interrupt_changes_nothing(self):
        _, said, code = interrupted('print(plan().document["certificate"]["stopped"])', 'best so far', signals=2)
        self.assertEqual((said, code), ('interrupted\n', 0))

    def test_a_search_that_has_none_raises(self):
        script = ('try:\n    plan()\nexcept KeyboardInterrupt:\n    print("raised")\n')
        _, said, code = interrupted(script, 'units of work', memory='2200KiB')
        self.assertEqual((said, code), ('raised\n', 0))

    def test_a_sweep_returns_the_rows_it_has(self):
        script = '''
rows = weir.sweep(profile, "8 devices, 8MiB, 10GB/s 10us", budget=200000, progress=progress)
print(rows.document["stopped"], any(row["outcome"] == "planned" for row in rows),
      any(row["outcome"] == "not tried" for row in rows), rows.best is not None)'''
        _, said, code = interrupted(script, '3 of ')
        self.assertEqual((said, code), ('interrupted True True True\n', 0))

    def test_a_sweep_over_configurations_returns_the_rows_it_has(self):
        script = '''
from test_estimates import LLAMA
large = {**LLAMA, "num_hidden_layers": 126, "hidden_size": 16384, "num_attention_heads": 128, "intermediate_size": 53248}
found = weir.sweep_configs(large, "h100-sxm", devices=4096, global_batch=2048, progress=progress)
print(found.document["stopped"], any(row["best"] for row in found))
found.best.check(found.profile)'''
        _, said, code = interrupted(script, ' configurations')
        self.assertEqual((said, code), ('interrupted True\n', 0))

    def test_an_order_is_the_best_so_far(self):
        script = '''
rows = [{"forward_ns": 50 + 37 * s % 100, "backward_input_ns": 50 + 53 * s % 100,
         "backward_weight_ns": 50 + 71 * s % 100, "kept_forward_bytes": 100, "kept_weight_bytes": 40}
        for s in range(16)]
costs = {"format": "weir.costs", "version": 1, "latency_ns": 20, "costs": rows}
found = weir.search(ranks=16, micro_batches=32, cost=costs, memory=1000, budget=30000000000, progress=progress)
print(found.stopped, found.check()["ok"], found.bound_ns <= found.time_ns)'''
        _, said, code = interrupted(script, 'units of work')
        self.assertEqual((said, code), ('interrupted True True\n', 0))

    def test_an_explanation_says_what_is_known(self):
        script = '''
made = weir.partition(profile, "8 devices, 8MiB, 10GB/s 10us", schedule="1f1b", micro_batches=32, budget=1000)
print(made.explain(profile, budget=3000000000, progress=progress).document["stopped"])'''
        _, said, code = interrupted(script, 'planned anew')
        self.assertEqual((said, code), ('interrupted\n', 0))


class Threads(unittest.TestCase):
    def test_other_threads_run_while_a_plan_is_searched_for(self):
        from test_documents import numbers
        profile = weir.Profile.from_json(json.dumps(numbers(64)))
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
        thread = threading.Thread(target=count)
        seen = []
        thread.start()
        try:
            weir.partition(profile, '8 devices, 8MiB, 10GB/s 10us', schedule='interleaved', micro_batches=32,
                           progress=lambda words: seen.append(counted[0]))
        finally:
            done.set()
            thread.join()
        self.assertTrue(seen and seen[0] > 0 and counted[0] > seen[0], seen)

    def test_threads_plan_at_once_and_alike(self):
        from test_documents import numbers
        profile = weir.Profile.from_json(json.dumps(numbers()))
        plans = []

        def plan():
            plans.append(weir.partition(profile, '2 devices, 16MiB, 10GB/s 10us', schedule='zb-h1',
                                        micro_batches=8).json())
        threads = [threading.Thread(target=plan) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(plans), 4)
        self.assertEqual(len(set(plans)), 1)


if __name__ == '__main__':
    unittest.main()
