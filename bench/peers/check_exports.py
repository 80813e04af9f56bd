#!/usr/bin/env python3
"""What `weir export` writes, given to the frameworks' own code.

    check_exports.py [--megatron PATH] [--nanotron PATH] [--configs PATH] [BUILD [FORMAT ...]]   (default: build/release, and all)

Plans of a small model, made here by `weir price`, are exported to each format and read by the
framework itself: Megatron-Core's parser of layouts and its configuration, torchtitan's splitting of
a model and placing of stages, a DeepSpeed PipelineModule on as many processes (whose layers count
how often they run), Colossal-AI's distribution of layers, nanotron's build_model(), torchgpipe's
GPipe on the CPU, PyTorch's pipeline() and its loader of CSV. torchtitan-run is torchtitan's trainer:
it trains a small Llama on as many processes, by the config function that was written, and its losses
are those without a pipeline. What they make of it must be the plan.
megatron-lm, torchtitan-config, deepspeed-config and nanotron-config (exported_estimates.py) are plans of estimated
models, swept and partitioned, read by the frameworks' own readers of arguments and settings; --megatron and --nanotron
name their repositories, --configs a folder of config.json to try beside those made here.
A framework that this Python does not find is skipped, and says so; exits with 1 when anything
differs. What was tried: pip install --no-deps megatron-core==0.16.1 torchtitan==0.3.0
deepspeed==0.19.8 colossalai==0.5.0 nanotron==0.4 torchgpipe==0.0.7, what these ask for, and torch
2.15. DeepSpeed and Colossal-AI are built on the spot: DS_BUILD_OPS=0, --no-build-isolation beside
torch; Colossal-AI needs its own transformers==4.51.3, diffusers==0.29.0 and peft==0.13.2.
"""

import argparse
import ast
import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import types
import unittest.mock

import exported_estimates
from exported_estimates import Differs, Exported, load, read_all, same

BLOCKS, PARTS = 6, ('attention', 'mlp')
LAYERS = ['embedding'] + [f'block{b}.{part}' for b in range(BLOCKS) for part in PARTS] + ['head']

CASES = [  # schedule, ranks, micro-batches, layers of each stage, how many of its first run again
    ('1f1b', 3, 8, '5,4,5', None),
    ('1f1b', 2, 4, '3,11', None),
    ('1f1b', 4, 8, '1,6,6,1', None),
    ('gpipe', 3, 6, '5,4,5', None),
    ('interleaved', 2, 4, '3,4,4,3', None),
    ('zb-v', 2, 4, '3,4,4,3', None),
    ('v-half', 2, 4, '5,2,2,5', None),
    ('1f1b', 2, 4, '7,7', '3,2'),
    ('1f1b', 3, 6, '5,4,5', '0,4,1'),
    ('gpipe', 2, 4, '7,7', '7,7'),
]


def write_profile(path):
    def layer(name):
        return {'name': name, 'kind': name.split('.')[-1], 'forward_ns': 1000000, 'backward_input_ns': 1000000,
                'backward_weight_ns': 1000000, 'parameter_bytes': 262144, 'output_bytes': 65536,
                'saved_bytes': 262144, 'input_kept': 'weight', 'held_for_weight_bytes': 65536, 'workspace_bytes': 0,
                'backward_workspace_bytes': 0, 'flops': 0}
    source = {'how': 'estimated', 'device': 'none', 'clock': 'none', 'repeats': 1,
              'sum_ns': 3000000 * len(LAYERS), 'whole_ns': 0, 'backward_split': 'assumed'}
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({'format': 'weir.profile', 'version': 1, 'model': 'small-gpt', 'micro_batch': 2, 'dtype': 'fp32',
                   'source': source, 'layers': [layer(name) for name in LAYERS]}, file)


def write_file(path, text):
    with open(path, 'w', newline='', encoding='utf-8') as file:
        file.write(text)


class Case(Exported):
    """A plan, and what it says."""

    def __init__(self, weir, folder, row):
        self.weir, self.folder = weir, folder
        self.schedule, self.ranks, self.micro_batches, cuts, again = row
        self.name = f'{self.schedule} of {cuts}' + (f', {again} again' if again else '')
        command = [weir, 'price', f'{folder}/profile.json', '--schedule', self.schedule, '--micro-batches',
                   str(self.micro_batches), '--cluster', f'{self.ranks} devices, 1GiB, 10GB/s 1us', '--cuts', cuts,
                   '-o', f'{folder}/plan.json'] + (['--recompute', again] if again else [])
        subprocess.run(command, check=True, capture_output=True)

    @property
    def stages(self):
        return self.plan['stages']

    def blocks(self):
        return [[int(name[5:].split('.')[0]) for name in stage['layers'] if name.endswith('.attention')]
                for stage in self.stages]

    def devices(self):
        return [stage['devices'][0][0] for stage in self.stages]


def check_megatron(case, text):
    layout = importlib.import_module('megatron.core.transformer.pipeline_parallel_layer_layout')
    config = importlib.import_module('megatron.core.transformer.transformer_config')
    sourced = subprocess.run(['bash', '-c', text + 'printf "%s\\n" "${PIPELINE_ARGS[@]}"'], capture_output=True,
                             text=True, check=True).stdout.splitlines()
    given = dict(zip(sourced[::2], sourced[1::2]))
    ranks = int(given['--pipeline-model-parallel-size'])
    parsed = layout.PipelineParallelLayerLayout(given['--pipeline-model-parallel-layout'], ranks)
    parsed.validate_layer_layout(int(given['--num-layers']), None)
    if not case.is_rounded:
        decoders = [[] for _ in case.stages]
        for stage in range(len(case.stages)):
            decoders[stage] = parsed.get_layer_id_list(vp_stage=stage // ranks, pp_rank=stage % ranks) \
                if len(case.stages) == ranks else None
        wanted = [len(blocks) for blocks in case.blocks()]
        same('layers', [parsed.layout[s % ranks][s // ranks].count(layout.LayerType.decoder)
                        for s in range(len(wanted))], wanted)
        if decoders[0] is not None:
            same('numbers of layers', [[int(n) for n in ids] for ids in decoders], case.blocks())
    again = {key[2:].replace('-', '_'): value for key, value in given.items() if key.startswith('--recompute')}
    if 'recompute_num_layers' in again:
        again['recompute_num_layers'] = int(again['recompute_num_layers'])
    if 'recompute_modules' in again:
        again['recompute_modules'] = again['recompute_modules'].split()
    config.TransformerConfig(num_layers=BLOCKS, hidden_size=8, num_attention_heads=2, **again)


def check_torchtitan(case, text):
    configs = importlib.import_module('torchtitan.config.configs')
    pipeline = importlib.import_module('torchtitan.distributed.pipeline_parallel')
    module = importlib.import_module('torchtitan.protocols.module')
    nn = importlib.import_module('torch').nn
    spec = types.SimpleNamespace(model=types.SimpleNamespace(layers=[None] * BLOCKS))
    config = types.SimpleNamespace(parallelism=configs.ParallelismConfig(), training=configs.TrainingConfig(),
                                   activation_checkpoint=0, model_spec=spec)
    given = {}
    exec(text, given)
    given['plan_pipeline'](config)
    same('samples', config.training.local_batch_size, 2 * case.micro_batches)
    parallelism = config.parallelism
    if parallelism.pipeline_parallel_schedule_csv:
        same('the CSV', parallelism.pipeline_parallel_schedule_csv, 'schedule.csv')
    whole = nn.Module()
    whole.tok_embeddings, whole.norm, whole.lm_head = nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)
    whole.layers = module.ModuleDict({str(b): nn.Linear(1, 1) for b in range(BLOCKS)})
    names = []
    for stage, modules in enumerate(parallelism.module_fqns_per_model_part):
        part = pipeline._split_module(whole, modules)
        names.append(sorted({name.rsplit('.', 1)[0] for name, _ in part.named_parameters()}))
        if not case.is_rounded:
            same(f'blocks of stage {stage}', [int(n) for n in part.layers], case.blocks()[stage])
    every = sorted({name.rsplit('.', 1)[0] for name, _ in whole.named_parameters()})
    same('all modules', sorted(sum(names, [])), every)
    for rank in range(case.ranks):
        held = pipeline._get_pp_rank_to_stage_indices_mapping(rank, case.ranks, parallelism.pipeline_parallel_schedule,
                                                              len(case.stages))
        same(f'stages of rank {rank}', sorted(held), [s for s, d in enumerate(case.devices()) if d == rank])


# A rank of torchtitan's own trainer, for three steps. Weights are drawn by their names, so that a split model starts as
# the whole one does. Runs of blocks are counted from the second step on: in the first PyTorch runs stages once more to
# learn shapes. torchtitan 0.3 supports no CPUs: what is replaced here is the type of the device, the monitor of its
# memory, and the kernel of FlexAttention, whose backward PyTorch has for GPUs only.
TITAN_RUN = """
import json, os, sys, types
import torch
import torch._utils

torch._utils._get_available_device_type = lambda: 'cpu'
torch.cpu.current_device = lambda: 0
from torch.nn.attention.flex_attention import create_mask
from torchtitan.components import metrics
from torchtitan.models.common.attention import FlexAttention

idle = metrics.DeviceMemStats(*[0] * len(metrics.DeviceMemStats._fields))
metrics.build_device_memory_monitor = lambda: types.SimpleNamespace(
    device_name='cpu', get_peak_stats=lambda: idle, reset_peak_stats=lambda: None)


def attend(q, k, v, *, block_mask, scale, enable_gqa, **_):
    mask = create_mask(block_mask.mask_mod, len(q), 1, q.shape[2], k.shape[2], device='cpu')
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=enable_gqa), None


FlexAttention._compiled_flex_attn = staticmethod(attend)
from torchtitan.config import ConfigManager

trainer = ConfigManager().parse_args(sys.argv[1:]).build()
held, runs, losses = {}, {}, []
for part in trainer.model_parts:
    for name, value in part.named_parameters():
        name = name.replace('_checkpoint_wrapped_module.', '')
        torch.manual_seed(sum(name.encode()))
        whole = getattr(value, '_local_tensor', value)
        with torch.no_grad():
            whole.copy_(torch.randn(whole.shape) * 0.05 + (whole.dim() == 1))
        held['.'.join(name.split('.')[:2 if name.startswith('layers.') else 1])] = True
for part in trainer.model_parts:
    for name, block in part.layers.named_children():
        inner = getattr(block, '_checkpoint_wrapped_module', block)
        runs[name] = 0
        inner.register_forward_pre_hook(lambda *_, name=name: runs.update({name: runs[name] + (trainer.step > 1)}))
trainer.metrics_processor.should_log = lambda step: True
trainer.metrics_processor.log = lambda step, loss, *_, **__: losses.append(loss)
trainer.train()
schedule = getattr(trainer, 'pp_schedule', None)
with open(f'ran.{os.environ["RANK"]}', 'w') as file:
    json.dump({'held': list(held), 'runs': runs, 'losses': losses, 'schedule': type(schedule).__name__,
               'micro_batches': getattr(schedule, '_n_microbatches', 0)}, file)
trainer.close()
torch.distributed.destroy_process_group()
"""

TITAN_LLAMA = """
from torchtitan.models.llama3 import config_registry


def small_llama():
    config = config_registry.llama3_debugmodel()
    config.hf_assets_path, config.dataloader.dataset_path = 'tokenizer', 'sentences'
    config.training.seq_len, config.training.steps, config.training.local_batch_size = 32, 3, %d
    config.training.mixed_precision_param = 'float32'
    config.training.disable_cuda_graphs, config.activation_checkpoint = True, None
    return config
"""


def write_text(folder):
    """A tokenizer of bytes, and sentences, as torchtitan reads them."""
    tokenizers = importlib.import_module('tokenizers')
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = sorted(split.alphabet()) + ['<|begin_of_text|>', '<|end_of_text|>']
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=[]))
    made.pre_tokenizer = split
    os.makedirs(f'{folder}/tokenizer')
    os.makedirs(f'{folder}/sentences')
    made.save(f'{folder}/tokenizer/tokenizer.json')
    with open(f'{folder}/tokenizer/tokenizer_config.json', 'w', encoding='utf-8') as file:
        json.dump({'bos_token': words[-2], 'eos_token': words[-1]}, file)
    with open(f'{folder}/sentences/train.json', 'w', encoding='utf-8') as file:
        for number in range(400):
            file.write(json.dumps({'text': f'The square of {number} is {number * number}; and so on.'}) + '\n')


def run_titan(folder, ranks, *config):
    """What each rank has held, run and lost."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = str(free.getsockname()[1])
    env = {**os.environ, 'WORLD_SIZE': str(ranks), 'LOCAL_RANK': '0', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port,
           'OMP_NUM_THREADS': '1', 'TORCH_COMPILE_DISABLE': '1', 'HF_DATASETS_CACHE': f'{folder}/cache',
           'HF_HUB_OFFLINE': '1', 'PYTHONDONTWRITEBYTECODE': '1',
           'PYTHONPATH': os.pathsep.join(filter(None, [folder, *sys.path]))}
    logs = [open(f'{folder}/log.{rank}', 'w+', encoding='utf-8') for rank in range(ranks)]
    started = [subprocess.Popen([sys.executable, 'run.py', *config], cwd=folder, env={**env, 'RANK': str(rank)},
                                stdout=log, stderr=subprocess.STDOUT) for rank, log in enumerate(logs)]
    ran = []
    try:
        for rank, process in enumerate(started):
            if process.wait(600):
                logs[rank].seek(0)
                raise Differs(f'rank {rank} ended with {process.returncode}:\n{logs[rank].read()[-4000:]}')
            ran.append(load(f'{folder}/ran.{rank}'))
    finally:
        for process, log in zip(started, logs):
            process.kill()
            log.close()
    return ran


def run_whole(folder, samples):
    """The losses of the model on one rank, of as many samples."""
    path = f'{folder}/whole.{samples}'
    if not os.path.exists(path):
        write_file(path, json.dumps(run_titan(folder, 1, '--module', 'small', '--config', 'small_llama')[0]['losses']))
    return load(path)


def check_torchtitan_run(case, _):
    """By its own trainer, a process for each rank, over gloo: what each holds and runs, and its losses."""
    importlib.import_module('torchtitan.config.configs')
    schedules = importlib.import_module('torch.distributed.pipelining.schedules')
    text, folder = case.export('torchtitan', '--base', 'small.small_llama'), case.folder + '/titan'
    if not os.path.exists(folder):
        write_text(folder)
    samples = 2 * case.micro_batches
    for name, what in (('run', TITAN_RUN), ('small', TITAN_LLAMA % samples), ('pipeline', text)):
        write_file(f'{folder}/{name}.py', what)
    if 'schedule_csv' in text:
        write_file(f'{folder}/schedule.csv', case.export('pytorch-csv'))
    whole = run_whole(folder, samples)
    ran = run_titan(folder, case.ranks, '--module', 'pipeline', '--config', 'planned')
    names = ['tok_embeddings', *(f'layers.{b}' for b in range(BLOCKS)), 'norm', 'lm_head']
    same('all modules', sorted(sum((rank['held'] for rank in ran), [])), sorted(names))
    schedule = re.search('parallel_schedule = "(.*)"', text)[1]
    again = 'FullAC' in text
    for rank, did in enumerate(ran):
        same('micro-batches', did['micro_batches'], case.micro_batches)
        same('schedule', did['schedule'], '_PipelineScheduleRuntime' if 'schedule_csv' in text
             else schedules.get_schedule_class(schedule).__name__)
        blocks = sorted(int(name[7:]) for name in did['held'] if name.startswith('layers.'))
        if not case.is_rounded:
            same(f'blocks of rank {rank}', blocks, sorted(sum((held for held, device in zip(
                case.blocks(), case.devices()) if device == rank), [])))
        runs = 2 * case.micro_batches * (1 + again)
        same(f'runs on rank {rank}', did['runs'], {str(b): runs for b in blocks})
    losses = [did['losses'] for did in ran if min(did['losses']) > 0]
    same('ranks with a loss', len(losses), 1)
    if max(abs(a / b - 1) for a, b in zip(losses[0], whole, strict=True)) > 1e-4:
        raise Differs(f'losses {losses[0]}, of the whole model {whole}')


def counted_layers(torch):
    """Layers of a model, and how often each has run forward so far."""
    runs = [0] * len(LAYERS)

    class Layer(torch.nn.Linear):
        def __init__(self, number):
            super().__init__(4, 4)
            self.number = number

        def forward(self, x):
            runs[self.number] += 1
            return super().forward(x)

    return [Layer(number) for number in range(len(LAYERS))], runs


def run_deepspeed(rank, world, text, path, out):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), DS_ACCELERATOR='cpu')
    torch = importlib.import_module('torch')
    comm = importlib.import_module('deepspeed.comm')
    importlib.import_module('deepspeed.ops').__compatible_ops__.clear()  # or it compiles its own messages for CPUs
    comm.init_distributed('gloo', auto_mpi_discovery=False, init_method=f'file://{path}', rank=rank, world_size=world,
                          verbose=False)
    layers, runs = counted_layers(torch)
    given = {}
    exec(text, given)
    module = given['PlannedPipelineModule'](layers)
    if module.activation_checkpoint_interval > 0:
        module._precompute_checkpointable_values()
    module(torch.ones(2, 4, requires_grad=True)).sum().backward()
    write_file(f'{out}.{rank}', json.dumps([module.parts, runs]))


def check_deepspeed(case, text):
    importlib.import_module('deepspeed.pipe')
    multiprocessing = importlib.import_module('torch.multiprocessing')
    out = f'{case.folder}/deepspeed'
    if os.path.exists(out + '.store'):
        os.remove(out + '.store')
    multiprocessing.start_processes(run_deepspeed, (case.ranks, text, out + '.store', out), nprocs=case.ranks,
                                    start_method='fork')
    for rank, stage in enumerate(case.stages):
        parts, runs = load(f'{out}.{rank}')
        same('parts', parts, [s['first'] for s in case.stages] + [len(LAYERS)])
        if case.is_rounded:
            continue
        again = {LAYERS.index(name) for segment in stage['recompute'] for name in segment}
        here = range(stage['first'], stage['end'])
        same(f'runs on stage {rank}', runs, [(1 + (n in again)) * (n in here) for n in range(len(LAYERS))])


def check_colossalai(case, text):
    plugin_module = importlib.import_module('colossalai.booster.plugin')
    manager_module = importlib.import_module('colossalai.pipeline.stage_manager')
    signature = inspect.signature(plugin_module.HybridParallelPlugin.__init__)
    given = {}
    with unittest.mock.patch.object(plugin_module, 'HybridParallelPlugin',
                                    lambda **options: signature.bind(None, **options).arguments):
        exec(text, given)
    options = given['plugin']
    v, chunks, stages = options['pp_style'] == 'zbv', options['num_model_chunks'], len(case.stages)
    manager = object.__new__(manager_module.PipelineStageManager)  # without process groups: these numbers are all
    manager.num_layers_per_stage, manager.num_model_chunks = options.get('num_layers_per_stage'), chunks
    manager.use_zbv, manager.is_interleave = v, chunks > 1
    manager.pg_mesh, manager.pipeline_axis = types.SimpleNamespace(size=lambda axis: case.ranks), 0
    if manager.num_layers_per_stage is not None:
        same('length of the list', len(manager.num_layers_per_stage), manager.num_stages)
    dealt = manager.distribute_layers(BLOCKS)
    config = options.get('gradient_checkpoint_config')
    for rank in range(case.ranks):
        held = manager.get_stage_index(dealt, stage=rank)
        for chunk, (first, end) in enumerate(held if chunks > 1 else [held]):
            stage = rank + chunk * case.ranks if not (v and chunk) else stages - 1 - rank
            if not case.is_rounded:
                same(f'blocks of stage {stage}', list(range(first, end)), case.blocks()[stage])
            if config and not case.is_rounded:
                again = config.get_num_ckpt_layers(rank, case.ranks, end - first, chunk, chunks)
                same(f'again on stage {stage}', again, len(case.stages[stage]['recompute']))
    if v:
        order = options['scheduler_nodes']
        same('lists of the V', len(order), case.ranks)
        for rank, nodes in enumerate(order):
            same(f'forwards of rank {rank}', sum(node.type == 'F' for node in nodes), 2 * case.micro_batches)


def check_nanotron(case, text):
    """By its build_model(), taken out of its file: the package as released does not import."""
    found = importlib.util.find_spec('nanotron')
    if not found:
        raise ImportError("No module named 'nanotron'")
    with open(os.path.join(os.path.dirname(found.origin), 'models/base.py'), encoding='utf-8') as file:
        tree = ast.parse(file.read())
    function = next(node for node in tree.body if getattr(node, 'name', '') == 'build_model')
    function.returns, function.body[0:1] = None, []
    for argument in function.args.args:
        argument.annotation = None
    parallelism = importlib.import_module('yaml').safe_load(text)['parallelism']
    same('ranks', (parallelism['pp'], parallelism['dp']), (case.ranks, 1))
    found = re.findall(r'llama\.(Embedding|LlamaDecoderLayer|\w+Linear): (\d+)', text)
    costs = {key: int(value) for key, value in found}
    ranks = {}

    class Block:
        def __init__(self, builder, at):
            self.module_builder, self.at = builder, at

        def build_and_set_rank(self, rank):
            ranks[self.at] = rank

    kinds = ['Embedding'] + ['LlamaDecoderLayer'] * BLOCKS + ['norm', 'TensorParallelColumnLinear', 'cast', 'loss']
    model = types.SimpleNamespace(named_modules=lambda: [(str(n), Block(kind, n)) for n, kind in enumerate(kinds)],
                                  get_block_compute_costs=lambda: costs)
    given = {'np': importlib.import_module('numpy'), 'torch': importlib.import_module('torch'), 'PipelineBlock': Block,
             'log_rank': lambda *_, **__: None, 'logger': None, 'logging': types.SimpleNamespace(INFO=0),
             'init_on_device_and_dtype': lambda **_: contextlib.nullcontext()}
    exec(compile(ast.Module([function], []), 'build_model', 'exec'), given)
    context = types.SimpleNamespace(world_pg=None, pp_pg=types.SimpleNamespace(size=lambda: case.ranks))
    given['build_model'](lambda: model, context, None)
    if not case.is_rounded:
        held = [[b for b in range(BLOCKS) if ranks[1 + b] == r] for r in range(case.ranks)]
        same('ranks of layers', held, case.blocks())
    same('rank of the loss', model.output_pp_rank, case.ranks - 1)


def check_torchgpipe(case, text):
    importlib.import_module('torchgpipe')
    torch = importlib.import_module('torch')
    layers, runs = counted_layers(torch)
    devices = ', '.join(str(device) for device in case.devices())
    same('devices', f'devices=[{devices}]' in text, True)
    given = {'model': torch.nn.Sequential(*layers)}
    exec(text.replace(f'[{devices}]', str(['cpu'] * len(case.stages))), given)
    model = given['model']
    same('partitions', [len(part) for part in model.partitions], [len(stage['layers']) for stage in case.stages])
    model(torch.ones(case.micro_batches, 4)).sum().backward()
    again = bool(case.stages[0]['recompute']) if not case.is_rounded else model.checkpoint == 'always'
    same('runs', runs, [case.micro_batches * (1 + again)] * len(LAYERS))


def check_pytorch(case, text):
    torch = importlib.import_module('torch')
    pipelining = importlib.import_module('torch.distributed.pipelining')
    given = {}
    exec(text, given)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.mlp = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.mlp(self.attention(x))

    model = torch.nn.Sequential()
    for name in dict.fromkeys(name.split('.')[0] for name in LAYERS):
        model.add_module(name, Block() if name.startswith('block') else torch.nn.Linear(4, 4))
    pipe = pipelining.pipeline(model, mb_args=(torch.ones(2, 4),), split_spec=given['SPLIT_SPEC'])
    for stage in range(pipe.num_stages):
        held = {name.rsplit('.', 1)[0] for name, _ in pipe.get_stage_module(stage).named_parameters()}
        same(f'modules of stage {stage}', sorted(held), sorted(case.stages[stage]['layers']))
    same('stages', pipe.num_stages, len(case.stages))
    same('ranks', given['RANK_OF_STAGE'], case.devices())
    same('runs again', given.get('RECOMPUTE', []), [s for stage in case.stages for s in stage['recompute']])
    schedules = importlib.import_module('torch.distributed.pipelining.schedules')
    if not hasattr(schedules, given['SCHEDULE']):  # a class that get_schedule_class() does not list
        schedules.get_schedule_class(given['SCHEDULE'])


def check_pytorch_csv(case, text):
    schedules = importlib.import_module('torch.distributed.pipelining.schedules')
    path = f'{case.folder}/schedule.csv'
    write_file(path, text)
    order = object.__new__(schedules.PipelineScheduleMulti)
    order.pipeline_order, order._stages = {}, []
    order.pp_group_size, order._num_stages, order._n_microbatches = case.ranks, len(case.stages), case.micro_batches
    order._load_csv(path, 'compute_only')
    same('ranks', [order.stage_index_to_group_rank[s] for s in range(len(case.stages))], case.devices())


CHECKS = {  # format: what reads it, the package, the function
    'megatron': ('megatron-core', check_megatron), 'torchtitan': ('torchtitan', check_torchtitan),
    'torchtitan-run': ('torchtitan', check_torchtitan_run),
    'deepspeed': ('deepspeed', check_deepspeed), 'colossalai': ('colossalai', check_colossalai),
    'nanotron': ('nanotron', check_nanotron), 'torchgpipe': ('torchgpipe', check_torchgpipe),
    'pytorch': ('torch', check_pytorch), 'pytorch-csv': ('torch', check_pytorch_csv),
}


def check(weir, folder, name):
    package, function = CHECKS[name]
    read, rounded, refused = read_all((Case(weir, folder, row) for row in CASES), name.removesuffix('-run'), function)
    return f'{package} reads {read} plans, {rounded} of them rounded; {refused} cannot be said'


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--megatron')
    parser.add_argument('--nanotron')
    parser.add_argument('--configs')
    parser.add_argument('build', nargs='?', default='build/release')
    parser.add_argument('formats', nargs='*', metavar='FORMAT')
    given = parser.parse_args()
    build = os.path.abspath(given.build)
    os.environ.setdefault('WEIR_LIBEXEC', f'{build}/libexec')
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        write_profile(f'{folder}/profile.json')
        for name in given.formats or [*CHECKS, *exported_estimates.CHECKS]:
            try:
                said = check(f'{build}/bin/weir', folder, name) if name in CHECKS else exported_estimates.check(
                    f'{build}/bin/weir', f'{folder}/estimates', name,
                    {'megatron': given.megatron, 'nanotron': given.nanotron}, given.configs)
            except ImportError as lacks:
                said = f'skipped: {lacks}'
            except Differs as wrong:
                said, failed = f'DIFFERS: {wrong}', True
            print(f'{name:14} {said}', flush=True)
    return int(failed)


if __name__ == '__main__':
    sys.exit(main())
