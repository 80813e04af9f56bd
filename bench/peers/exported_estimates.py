"""Plans of estimated models, swept and partitioned, given to the frameworks' own readers of arguments and settings.

What check_exports.py takes from here: Case, the cases, and a function for each framework: Megatron-LM's parse_args(),
validate_args() and TransformerConfig (its repository, of which pip has only the core), torchtitan's Trainer.Config and
ParallelDims, DeepSpeed's DeepSpeedConfig, and of nanotron (its repository), which does not import without GPU parts,
the classes that its YAML is read into. A machine with GPUs and Transformer Engine is made believe, nothing else.
Each has to come to the degrees, batches, layers and choices that were asked for.
"""

import ast
import dataclasses
import enum
import importlib
import json
import logging
import os
import re
import subprocess
import sys
import types
import typing
import unittest.mock

LLAMA = {'model_type': 'llama', 'num_hidden_layers': 8, 'hidden_size': 4096, 'num_attention_heads': 32,
         'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 128256, 'max_position_embeddings': 32768,
         'rope_theta': 500000.0, 'hidden_act': 'silu'}
GPT = {'model_type': 'gpt2', 'n_layer': 8, 'n_embd': 2048, 'n_head': 16, 'n_positions': 4096, 'vocab_size': 50304,
       'activation_function': 'gelu_new'}
MIXTRAL = {**LLAMA, 'model_type': 'mixtral', 'num_local_experts': 8, 'num_experts_per_tok': 2, 'vocab_size': 32000}
QWEN = {**LLAMA, 'model_type': 'qwen3_moe', 'num_experts': 128, 'num_experts_per_tok': 8, 'moe_intermediate_size': 768,
        'hidden_size': 2048, 'num_key_value_heads': 4, 'intermediate_size': 6144, 'vocab_size': 151936}
DEEPSEEK = {'model_type': 'deepseek_v3', 'num_hidden_layers': 8, 'hidden_size': 4096, 'num_attention_heads': 32,
            'intermediate_size': 8192, 'vocab_size': 129280, 'max_position_embeddings': 4096, 'q_lora_rank': 1536,
            'kv_lora_rank': 512, 'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64, 'v_head_dim': 128,
            'n_routed_experts': 64, 'num_experts_per_tok': 8, 'moe_intermediate_size': 1024, 'n_shared_experts': 1,
            'rope_theta': 10000, 'hidden_act': 'silu'}

SWEPT = [  # a name, the model, options of `weir sweep --config`
    ('dense', LLAMA, '--devices 16 --global-batch 64 --sequence 8192'),
    ('dense in fp8', LLAMA, '--devices 16 --global-batch 64 --sequence 8192 --products fp8 --tensor 2 --ranks 2'),
    ('long sequences', LLAMA, '--devices 32 --global-batch 32 --sequence 32768 --context 4 --tensor 2'),
    ('FSDP', LLAMA, '--devices 16 --global-batch 64 --sequence 8192 --shard weights --ranks 1'),
    ('FSDP with tensor', LLAMA, '--devices 16 --global-batch 64 --sequence 8192 --shard weights --ranks 1 --tensor 4'),
    ('interleaved', LLAMA, '--devices 16 --global-batch 64 --sequence 8192 --ranks 4 --chunks 2 --schedules interleaved'),
    ('uneven', {**LLAMA, 'num_hidden_layers': 7}, '--devices 12 --global-batch 60 --sequence 8192 --ranks 3'),
    ('pipelines inside', GPT, '--devices 16 --global-batch 64 --ranks 4 --placement tp-cp-ep-pp-dp --recompute-tensors norms'),
    ('Mixtral', MIXTRAL, '--devices 16 --global-batch 64 --sequence 4096 --expert 4 --shard optimizer'),
    ('Qwen3 in fp8', QWEN, '--devices 16 --global-batch 64 --sequence 4096 --expert 8 --products fp8 --graphs --shard optimizer'),
    ('DeepSeek', DEEPSEEK, '--devices 32 --global-batch 64 --expert 8 --ranks 4 --chunks 2 --schedules interleaved'
     ' --products fp8 --dispatch once --hidden-experts --recompute-tensors norms,latent --shard optimizer'),
    ('scores again', GPT, '--devices 16 --global-batch 64 --tensor 4 --attention recomputed --loss fused --shard optimizer'),
]

PARTITIONED = [  # a name, the model, options of `weir estimate`, and of `weir partition`
    ('dense', LLAMA, '--tensor 2 --sequence-parallel --data 4 --shard optimizer --sequence 8192', '4 1f1b 8'),
    ('dense with cuts in blocks', LLAMA, '--tensor 2 --data 4 --sequence 8192', '3 1f1b 8 parts'),
    ('dense in fp4', LLAMA, '--products fp4 --data 4 --sequence 8192 --device b200', '2 1f1b 8'),
    ('mxfp8', LLAMA, '--products fp8 --data 4 --sequence 8192 --compiled --device b200', '2 1f1b 8'),
    ('context', LLAMA, '--context 8 --data 2 --sequence 32768', '2 1f1b 4'),
    ('gradients in shares', LLAMA, '--data 8 --shard gradients --sequence 8192', '1 1f1b 4'),
    ('interleaved', LLAMA, '--tensor 4 --sequence-parallel --overlap all --sequence 8192 --graphs', '2 interleaved 8'),
    ('little memory', LLAMA, '--data 2 --sequence 8192', '2 1f1b 8 tight'),
    ('GPT', GPT, '--tensor 2 --attention plain --dtype fp16 --loss plain', '2 1f1b 8'),
    ('Mixtral', MIXTRAL, '--expert 8 --data 8 --sequence 4096 --shard optimizer', '2 1f1b 8'),
    ('like NeMo', LLAMA, '--like nemo --tensor 2 --data 8 --shard optimizer --within 4 --sequence 8192', '2 1f1b 8'),
    ('like Megatron-Bridge', QWEN, '--like bridge --expert 8 --data 8 --shard optimizer --sequence 4096',
     '2 interleaved 8'),
    ('like torchtitan', LLAMA, '--like torchtitan --data 8 --shard weights --within 4 --sequence 8192', '1 1f1b 4'),
    ('Qwen3', QWEN, '--expert 8 --data 8 --tensor 2 --sequence-parallel --sequence 4096 --recompute-tensors activations', '2 1f1b 8'),
    ('DeepSeek', DEEPSEEK, '--expert 8 --data 8 --products fp8 --recompute-tensors norms,activations,latent --dispatch once'
     ' --hidden-experts --graphs --shard optimizer', '2 interleaved 8'),
]


class Differs(Exception):
    pass


def same(what, got, wanted):
    if got != wanted:
        raise Differs(f'{what}: {got}, not {wanted}')


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


class Exported:
    """A plan in a folder, with its profile."""

    def export(self, name, *options):
        """The text; or None, where the format has no way to say it. What the framework runs is then in self.plan."""
        ended = subprocess.run([self.weir, 'export', name, f'{self.folder}/plan.json', '--profile',
                                f'{self.folder}/profile.json', *options], capture_output=True, text=True,
                               check=False)
        if ended.returncode == 1:
            return None
        if ended.returncode:
            raise SystemExit(f'{self.name}: {ended.stderr}')
        self.plan, self.is_rounded = load(f'{self.folder}/plan.json'), 'So it takes ' in ended.stderr
        return ended.stdout


def read_all(cases, name, function):
    """How many plans were read, and how many of them rounded; how many the format cannot say."""
    read = rounded = refused = 0
    for case in cases:
        text = case.export(name)
        if text is None:
            refused += 1
            continue
        try:
            function(case, text)
        except Differs as wrong:
            raise Differs(f'{case.name}: {wrong}') from wrong
        read, rounded = read + 1, rounded + case.is_rounded
    return read, rounded, refused


class Case(Exported):
    """A plan and its profile, and what was asked for."""

    def __init__(self, weir, folder, row, kind):
        self.weir, self.folder, self.name = weir, folder, f'{kind}: {row[0]}'
        self.config = f'{folder}/config.json'
        if isinstance(row[1], str):
            self.config = row[1]
        else:
            with open(self.config, 'w', encoding='utf-8') as file:
                json.dump(row[1], file)
        (self.sweep if kind == 'swept' else self.partition)(*row[2:])
        self.profile = load(f'{folder}/profile.json')
        self.how = {'tensor': 1, 'context': 1, 'expert': 1, 'data': 1, 'apart': 1, **self.profile['estimate']}
        self.model = self.how['model']

    def run(self, *command):
        ended = subprocess.run([self.weir, *command], capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f'{self.name}: {" ".join(command)}: {ended.stderr}')

    def sweep(self, options):
        device = [] if '--device ' in options else ['--device', 'h100-sxm']
        self.run('sweep', '--config', self.config, *device, *options.split(), '--budget', '2000', '--schedules',
                 'interleaved' if 'interleaved' in options else '1f1b', '--plan', f'{self.folder}/plan.json',
                 '--profile', f'{self.folder}/profile.json')

    def partition(self, options, pipeline):
        device = [] if '--device ' in options else ['--device', 'h100-sxm']
        ranks, schedule, micro_batches, *rest = pipeline.split()
        whole = [] if 'parts' in rest else ['--whole-blocks']
        self.run('estimate', self.config, *device, *options.split(), *whole, '-o', f'{self.folder}/profile.json')
        self.run('partition', f'{self.folder}/profile.json', '--cluster',
                 f'{ranks} devices, {32 if "tight" in rest else 40000}GiB, 50GB/s 5us', '--schedule', schedule,
                 '--micro-batches', micro_batches, '--optimizer', 'adamw-master', '-o', f'{self.folder}/plan.json')

    def batch(self):
        return self.profile['micro_batch'] * self.plan['schedule']['micro_batches'] * self.how['data']

    def devices(self):
        return self.how['tensor'] * self.how['context'] * self.how['data'] * self.plan['schedule']['ranks']

    def blocks(self):
        return [len({name.split('.')[0] for name in stage['layers'] if name.startswith('block')})
                for stage in self.plan['stages']]


def cases(weir, folder, configs):
    """Each with its own folder; with `configs`, of every model there that is estimated."""
    rows = [(row, 'swept') for row in SWEPT] + [(row, 'partitioned') for row in PARTITIONED]
    for name in sorted(os.listdir(configs)) if configs else []:
        path = os.path.join(configs, name)
        tried = subprocess.run([weir, 'estimate', path, '--device', 'h100-sxm', '--sequence', '4096'],
                               capture_output=True, check=False)
        if tried.returncode == 0:
            rows.append(((name, path, '--devices 1024 --global-batch 1024 --sequence 4096 --tensor 8 --ranks 1,2,4,8'
                          ' --micro-batch 1 --shard optimizer'), 'swept'))
            rows.append(((name, path, '--tensor 8 --sequence-parallel --data 2 --sequence 4096', '2 1f1b 8'),
                         'partitioned'))
    for number, (row, kind) in enumerate(rows):
        os.makedirs(f'{folder}/{number}', exist_ok=True)
        yield Case(weir, f'{folder}/{number}', row, kind)


# --- Megatron-LM ------------------------------------------------------------------------------


def sourced(text):
    """The environment that the file sets, and its arguments."""
    script = text + '\nenv -0; printf -- "--\\0"; printf "%s\\0" "${PIPELINE_ARGS[@]}"'
    kept = {key: value for key, value in os.environ.items() if not key.startswith('CUDA_')}
    told = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=True, env=kept).stdout
    words = told.split('\0')[:-1]
    at = words.index('--')
    return dict(word.split('=', 1) for word in words[:at] if word.startswith('CUDA_')), words[at + 1:]


def load_megatron(path):
    """Its arguments.py, on a Hopper with Transformer Engine."""
    if not path:
        raise ImportError("--megatron names no repository of Megatron-LM")
    if path not in sys.path:
        sys.path.insert(0, path)
    if not hasattr(typing, 'override'):  # before Python 3.12
        typing.override = lambda function: function
    arguments = importlib.import_module('megatron.training.arguments')
    config = importlib.import_module('megatron.core.transformer.transformer_config')
    rope = importlib.import_module('megatron.core.models.common.embeddings.rope_utils')
    importlib.import_module('torch').cuda.get_device_capability = lambda *_: (9, 0)
    for module in (arguments, config):
        module.is_te_min_version = lambda *_, **__: True
    arguments.get_device_arch_version = lambda: 9
    rope.fused_apply_rotary_pos_emb = rope.fused_apply_rotary_pos_emb or (lambda *_: None)
    return arguments


def check_megatron_choices(case, args, config):
    how, again = case.how, set(case.how.get('again', []))
    products = how.get('products')
    same('fp8', args.fp8, {'fp8': 'e4m3' if 'b200' in case.profile['source']['device'] else 'hybrid'}.get(products))
    same('fp4', args.fp4, 'e2m1' if products == 'fp4' else None)
    same('dtype', (args.bf16, args.fp16), (case.profile['dtype'] == 'bf16', case.profile['dtype'] == 'fp16'))
    same('dispatch', args.moe_token_dispatcher_type if 'experts' in case.model else None,
         None if 'experts' not in case.model else 'flex' if how['dispatch'] == 'once' and how['expert'] > 1 else 'alltoall')
    same('loss', args.cross_entropy_loss_fusion, how['loss'] == 'fused')
    same('shares', (bool(args.use_distributed_optimizer), args.use_megatron_fsdp),
         (how['shard'] != 'none', how['shard'] in ('gradients', 'weights')))
    same('sequence parallel', args.sequence_parallel, bool(how.get('sequence_parallel')) and how['tensor'] > 1)
    if config.recompute_granularity != 'full':
        modules = set(config.recompute_modules) if config.recompute_granularity else set()
        same('parts again', modules - {'mlp'}, {'layernorm'} & {'layernorm' for _ in again & {'norms'}}
             | {'moe_act' for _ in again & {'activations'} if 'experts' in case.model}
             | {'mla_up_proj' for _ in again & {'latent'}} | {'core_attn' for _ in {how['attention']} & {'again'}})
        if how.get('hidden_experts'):
            same('hidden experts', args.overlap_moe_expert_parallel_comm, True)
    if how.get('graphs'):
        same('graphs', args.cuda_graph_impl == 'none', False)


def check_megatron_lm(case, text, path):
    arguments = load_megatron(path)
    environment, words = sourced(text)
    words += '--mock-data --tokenizer-type NullTokenizer --lr 1e-4 --train-iters 20'.split()
    world = re.search(r'# Of (\d+) devices', text)[1]
    same('devices', int(world), case.devices())
    os.environ.pop('CUDA_DEVICE_MAX_CONNECTIONS', None)
    with unittest.mock.patch.dict(os.environ, {**environment, 'WORLD_SIZE': world, 'RANK': '0', 'LOCAL_RANK': '0'}), \
            unittest.mock.patch.object(sys, 'argv', ['pretrain_gpt.py', *words]), open(os.devnull, 'w',
                                                                                      encoding='utf-8') as nothing, \
            unittest.mock.patch.object(sys, 'stdout', nothing):
        try:
            args = arguments.parse_args()
            arguments.validate_args(args)
            config = arguments.core_transformer_config_from_args(args)
        except SystemExit as ended:
            raise Differs(f'its parser ends with {ended.code}') from ended
        except (AssertionError, ValueError, RuntimeError, TypeError) as wrong:
            raise Differs(f'{type(wrong).__name__}: {wrong}') from wrong
    how = case.how
    same('degrees', (args.tensor_model_parallel_size, args.context_parallel_size, args.expert_model_parallel_size,
                     args.pipeline_model_parallel_size, args.data_parallel_size),
         (how['tensor'], how['context'], how['expert'], case.plan['schedule']['ranks'], how['data']))
    same('batch', (args.micro_batch_size, args.global_batch_size), (case.profile['micro_batch'], case.batch()))
    same('sequence', args.seq_length, how['sequence'])
    same('chunks', args.virtual_pipeline_model_parallel_size or 1, case.plan['schedule']['chunks'])
    layout, kind = config.pipeline_model_parallel_layout, importlib.import_module('megatron.core.transformer.enums')
    ranks = case.plan['schedule']['ranks']
    if not case.is_rounded:
        same('layers', [layout.layout[s % ranks][s // ranks].count(kind.LayerType.decoder)
                        for s in range(len(case.plan['stages']))], case.blocks())
    model = case.model
    same('model', (config.num_layers, config.hidden_size, config.ffn_hidden_size, config.num_attention_heads,
                   config.num_moe_experts or 0, args.vocab_size),
         (model['layers'], model['hidden'], model['ffn'], model['heads'], model.get('experts', 0), model['vocabulary']))
    check_megatron_choices(case, args, config)


# --- torchtitan -------------------------------------------------------------------------------


class Converted:
    """What a converter of torchtitan's makes of a model, without the GPU that it looks for."""

    made = []

    def __init__(self, name):
        self.name = name

    def convert(self, model):
        Converted.made.append(self.name)
        return model


def check_torchtitan_config(case, text, _):
    trainer = importlib.import_module('torchtitan.trainer').Trainer
    dims = importlib.import_module('torchtitan.distributed.parallel_dims').ParallelDims
    quantization = importlib.import_module('torchtitan.components.quantization')
    model = types.SimpleNamespace(layers=[None] * case.model['layers'], dim=case.model['hidden'],
                                  vocab_size=case.model['vocabulary'], traverse=lambda *_: [])
    config = trainer.Config()
    config.model_spec = types.SimpleNamespace(model=model)
    given, Converted.made = {}, []
    with contextlib_of_converters(quantization):
        exec(text, given)
        given['plan_pipeline'](config)
    try:
        config.__post_init__()
        config.parallelism.__post_init__()
        config.compile.__post_init__()
        held = dims.from_config(config.parallelism, case.devices())
    except (AssertionError, ValueError, TypeError) as wrong:
        raise Differs(f'{type(wrong).__name__}: {wrong}') from wrong
    how = case.how
    same('degrees', (held.tp, held.cp, held.ep, held.pp, held.dp_replicate * held.dp_shard),
         (how['tensor'], how['context'], how['expert'], case.plan['schedule']['ranks'], how['data']))
    same('experts share', held.dp_shard * held.cp * held.tp % held.ep, 0)
    same('batch', config.training.global_batch_size, case.batch())
    whole = case.plan['schedule']['ranks'] * case.plan['schedule']['chunks'] == 1
    same('local batch', config.training.local_batch_size,
         case.profile['micro_batch'] * (1 if whole else case.plan['schedule']['micro_batches']))
    same('sequence', config.training.seq_len, how['sequence'])
    same('compiled', config.compile.enable, bool(how.get('compiled')))
    same('shares', held.dp_shard > 1 or how['data'] == 1, how['shard'] != 'none' or how['data'] == 1
         or how['expert'] > how['tensor'] * how['context'])
    narrow = {'fp8': 'MXFP8' if 'b200' in case.profile['source']['device'] else 'Float8', 'fp4': 'NVFP4'}
    wanted = narrow.get(how.get('products'))
    same('products', Converted.made[:1], [f'{wanted}LinearConverter'] if wanted else [])
    parts = config.parallelism.module_fqns_per_model_part
    if not case.is_rounded:
        same('layers', [sum(name.startswith('layers.') for name in part) for part in parts], case.blocks())


def contextlib_of_converters(quantization):
    """Their settings are theirs; what would be built looks for a GPU and torchao."""
    stack = importlib.import_module('contextlib').ExitStack()
    for name in ('Float8LinearConverter', 'Float8GroupedExpertsConverter', 'MXFP8LinearConverter',
                 'MXFP8GroupedExpertsConverter', 'NVFP4LinearConverter'):
        kind = getattr(quantization, name)
        stack.enter_context(unittest.mock.patch.object(kind.Config, 'build', lambda _, name=name: Converted(name)))
    return stack


# --- DeepSpeed --------------------------------------------------------------------------------


def check_deepspeed_config(case, text, _):
    os.environ.setdefault('DS_ACCELERATOR', 'cpu')
    importlib.import_module('deepspeed.pipe')
    config = importlib.import_module('deepspeed.runtime.config')
    given = {}
    exec(text, given)
    mpu = types.SimpleNamespace(get_data_parallel_world_size=lambda: case.how['data'])
    with unittest.mock.patch.object(config.dist, 'get_rank', lambda *_: 0), \
            unittest.mock.patch.object(config.dist, 'get_world_size', lambda *_: case.devices()):
        read = config.DeepSpeedConfig(given['DEEPSPEED_CONFIG'], mpu=mpu)
    same('batch', (read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps, read.train_batch_size),
         (case.profile['micro_batch'], case.plan['schedule']['micro_batches'], case.batch()))
    stages = ['none', 'optimizer', 'gradients', 'weights']
    wanted = stages.index(case.how['shard'])
    same('stage', read.zero_config.stage, wanted if case.plan['schedule']['ranks'] == 1 else min(wanted, 1))
    same('layers', given['PlannedPipelineModule'].PARTS,
         [stage['first'] for stage in case.plan['stages']] + [case.plan['stages'][-1]['end']])


# --- nanotron ---------------------------------------------------------------------------------


def load_nanotron(path):
    """What its YAML is read into, taken out of its files, for the package wants kernels of a GPU."""
    if not path:
        raise ImportError('--nanotron names no repository of nanotron')
    wanted = {'config/parallelism_config.py': ['ParallelismArgs'],
              'config/config.py': ['TokensArgs', 'OptimizerArgs', 'ModelArgs'],
              'config/utils_config.py': ['cast_str_to_pipeline_engine', 'cast_str_to_torch_dtype', 'str_to_dtype'],
              'parallel/tensor_parallel/enum.py': ['TensorParallelLinearMode']}

    class Engine:
        pass

    names = {'dataclass': dataclasses.dataclass, 'Enum': enum.Enum, 'auto': enum.auto,
             'torch': importlib.import_module('torch'), 'PipelineEngine': Engine, 'AllForwardAllBackwardPipelineEngine': type('afab', (Engine,), {}),
             'OneForwardOneBackwardPipelineEngine': type('1f1b', (Engine,), {}), **vars(typing)}
    for part in ('enum', 'utils_config', 'parallelism_config', 'config.py'):
        file = next(name for name in wanted if part in name and (part != 'config.py' or name.endswith('/config.py')))
        with open(os.path.join(path, 'src/nanotron', file), encoding='utf-8') as source:
            tree = ast.parse(source.read())
        found = [node for node in tree.body if getattr(node, 'name', None) in wanted[file]
                 or (isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', None) in wanted[file])]
        same(f'names of {file}', len(found), len(wanted[file]))
        future = ast.ImportFrom('__future__', [ast.alias('annotations')], 0)
        exec(compile(ast.fix_missing_locations(ast.Module([future, *found], [])), file, 'exec'), names)
    return names


def check_nanotron_config(case, text, path):
    names = load_nanotron(path)
    read = importlib.import_module('yaml').safe_load(text)
    kinds = {'parallelism': 'ParallelismArgs', 'tokens': 'TokensArgs', 'optimizer': 'OptimizerArgs',
             'model': 'ModelArgs'}
    for section, kind in kinds.items():
        known = {field.name for field in dataclasses.fields(names[kind])}
        same(f'unknown keys of {section}', sorted(set(read.get(section, {})) - known), [])
    same('unknown sections', sorted(set(read) - set(kinds)), [])
    parallelism = names['ParallelismArgs'](**read['parallelism'])
    degrees = [case.how[name] for name in ('tensor', 'context', 'expert', 'data')]
    same('degrees', [parallelism.tp, parallelism.context_parallel_size, parallelism.expert_parallel_size, parallelism.dp],
         degrees)
    same('ranks', parallelism.pp, case.plan['schedule']['ranks'])
    engine = type(parallelism.pp_engine).__name__
    same('schedule', engine, {'gpipe': 'afab'}.get(case.plan['schedule']['name'], case.plan['schedule']['name']))
    sequence_parallel = parallelism.tp_mode.name == 'REDUCE_SCATTER'
    same('sequence parallel', sequence_parallel, case.how.get('sequence_parallel', False))
    tokens = read['tokens']
    same('batch', tokens['micro_batch_size'] * tokens['batch_accumulation_per_replica'] * parallelism.dp, case.batch())
    same('sequence', tokens['sequence_length'], case.how['sequence'])
    same('zero', read['optimizer']['zero_stage'], int(case.how['shard'] != 'none'))
    types_of = {'bf16': 'torch.bfloat16', 'fp16': 'torch.float16'}
    same('dtype', str(names['cast_str_to_torch_dtype'](read['model']['dtype'])), types_of[case.profile['dtype']])


CHECKS = {'megatron-lm': ('megatron', 'Megatron-LM', check_megatron_lm),
          'torchtitan-config': ('torchtitan', 'torchtitan', check_torchtitan_config),
          'deepspeed-config': ('deepspeed', 'DeepSpeed', check_deepspeed_config),
          'nanotron-config': ('nanotron', 'nanotron', check_nanotron_config)}


def check(weir, folder, name, paths, configs):
    format_name, package, function = CHECKS[name]
    path = paths.get(format_name)
    if name == 'megatron-lm':
        load_megatron(path)
    if name == 'nanotron-config':
        load_nanotron(path)
    importlib.import_module({'torchtitan': 'torchtitan', 'deepspeed': 'deepspeed'}.get(format_name, 'torch'))
    logging.disable(logging.WARNING)
    read, rounded, refused = read_all(cases(weir, folder, configs), format_name,
                                      lambda case, text: function(case, text, path))
    return f'{package} takes {read} plans of estimates, {rounded} of them rounded; {refused} cannot be said'
