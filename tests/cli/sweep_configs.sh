# From a configuration and a number of devices to a plan, its profile, and what Megatron-Core and torchtitan are told.
cat > config.json <<'END'
{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}
END
exec 2>&1
weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 32 --memory 12GiB --jobs 1 > one.txt
echo "exit $?"
weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 32 --memory 12GiB --jobs 3 | cmp - one.txt \
    && echo "the same by three threads"
grep -c "^\* *[0-9]" one.txt
weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 32 --memory 12GiB --plan plan.json \
    --profile profile.json --megatron megatron.sh --torchtitan torchtitan.py --json > sweep.json && echo "made"
weir check plan.json --profile profile.json | tail -1
python3 - <<'END'
import json
sweep, plan = json.load(open('sweep.json')), json.load(open('plan.json'))
best = next(row for row in sweep['rows'] if row['best'])
print('the plan is of the best:', best['iteration_ns'] == plan['predicted']['iteration_ns'] + best['between_ns'],
      best['ranks'] == plan['schedule']['ranks'], best['schedule'] == plan['schedule']['name'])
print('all devices:', all(row['tensor'] * row['context'] * row['ranks'] * row['data'] == 16 for row in sweep['rows']))
print('all sequences:', all(row['data'] * row['micro_batch'] * row['micro_batches'] == 32 for row in sweep['rows']))
print('within memory:', all(row['peak_bytes'] <= 12 << 30 for row in sweep['rows']))
print('bounded:', all(row['lower_bound_ns'] <= row['iteration_ns'] for row in sweep['rows'] if row['iteration_ns']))
words = open('megatron.sh').read().split()
told = {word: words[i + 1] for i, word in enumerate(words) if word.startswith('--')}
print('megatron:', told['--tensor-model-parallel-size'] == str(best['tensor']),
      told['--pipeline-model-parallel-size'] == str(best['ranks']), told['--global-batch-size'] == '32',
      told['--micro-batch-size'] == str(best['micro_batch']), told['--seq-length'] == '8192')
lines = [line.split(' = ') for line in open('torchtitan.py') if ' = ' in line]
told = {line[0].strip(): line[1].strip() for line in lines}
print('torchtitan:', told['config.parallelism.tensor_parallel_degree'] == str(best['tensor']),
      told['config.parallelism.pipeline_parallel_degree'] == str(best['ranks']))
END
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 16 --memory 1GiB > none.txt; echo "exit $?"
tail -1 none.txt
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 64 --tensor 2 --context 1 --ranks 4 \
    --micro-batch 1 --shard none --schedules 1f1b,gpipe --csv | cut -d, -f1-12

# Nodes of four with a slow network between them: pipelines within nodes, and the arguments that say so.
cat > slow.json <<'END'
{"format": "weir.device", "version": 1, "name": "slow", "memory_bytes": 12884901888, "reserved_bytes": 0,
 "memory_bytes_per_second": 3350000000000, "memory_permille": 500, "multiprocessors": 132, "kernel_ns": 3000,
 "host_ns": 80000, "sustained_permille": 805,
 "products": [{"dtype": "bf16", "gigaflops": 989000, "permille": 780, "wave_permille": 200, "kernel_ns": 3100}],
 "fused_attention": {"forward_permille": 720, "backward_permille": 580},
 "flash_attention": {"forward_permille": 250, "backward_permille": 200},
 "levels": [{"size": 4, "latency_ns": 7000, "bytes_per_second": 450000000000, "permille": 800, "message_permille": 800},
            {"size": 64, "latency_ns": 30000, "bytes_per_second": 500000000, "permille": 700, "message_permille": 700}]}
END
on_slow() { weir sweep --config config.json --device ./slow.json --devices 16 --overlap backward --global-batch 512 --schedules 1f1b "$@"; }
on_slow --for any --megatron inside.sh --json > inside.json
on_slow | grep "^Devices stand"
on_slow --placement tp-cp-ep-dp-pp --megatron outside.sh --json > outside.json
grep -c -e --use-tp-pp-dp-mapping inside.sh outside.sh
on_slow --torchtitan titan.py --csv | cut -d, -f6 | sort -u
on_slow --placement tp-cp-ep-pp-dp --ranks 2 --torchtitan placed.py > placed.txt; grep -c "pipeline outermost" placed.py
on_slow --placement dp-pp | head -1
python3 - <<'END'
import json
best = [next(row for row in json.load(open(name))['rows'] if row['best']) for name in ('inside.json', 'outside.json')]
print('inside:', best[0]['placement'], best[0]['ranks'] > 1, best[0]['iteration_ns'] < best[1]['iteration_ns'])
END
cat > experts.json <<'END'
{"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16,
 "num_key_value_heads": 8, "intermediate_size": 7168, "vocab_size": 32000, "num_local_experts": 8,
 "num_experts_per_tok": 2, "max_position_embeddings": 4096}
END
weir sweep --config experts.json --device h100-sxm --devices 16 --global-batch 64 --tensor 2 --context 1 --ranks 2 \
    --expert 2,4 --placement tp-cp-ep-pp-dp --shard optimizer --micro-batch 1 --megatron experts.sh --csv \
    | cut -d, -f1-6 | sort -u
grep -e expert- -e mapping experts.sh

# Of layers that see a window and layers that see all: no plan is quicker than the bound that stands for both.
sed 's/mixtral/gpt_oss/; s/"num_hidden_layers": 4/"num_hidden_layers": 8/' experts.json > oss.json
weir sweep --config oss.json --device h100-sxm --devices 16 --global-batch 64 --schedules 1f1b,interleaved,zb-v \
    --tensor 1 --json > oss.sweep.json
python3 - <<'END'
import json
rows = [row for row in json.load(open('oss.sweep.json'))['rows'] if row['iteration_ns']]
print('windows:', len(rows) > 4, sorted({row['schedule'] for row in rows if row['chunks'] > 1}),
      all(row['lower_bound_ns'] <= row['iteration_ns'] for row in rows))
END

# Slow devices: the last rank has them, and less to do; or they are better left out, which is what --without takes.
slow() { weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 64 --memory 20GiB --schedules 1f1b "$@"; }
slow --slow 2:80% --plan plan.json --json > slow.json; slow --slow 2:80% | grep -o "^With.*an iteration takes\|: let them.*part"
slow --slow 2:20% | grep -o ": leave them out, 2 in all"
slow --without 2 --json > without.json
python3 - <<'END'
import json
slow, without, plan = (json.load(open(name)) for name in ('slow.json', 'without.json', 'plan.json'))
print('left out:', slow['slow']['left_out_ns'] == next(row['iteration_ns'] for row in without['rows'] if row['best']))
stages = [len(stage['layers']) for stage in plan['stages']]
print('slow:', [device['speed_permille'] for device in plan['cluster']['devices']], 'with less:', stages[-1] < stages[0] - 2)
END
slow --slow 2 | head -1
slow --slow 2:33.33% | head -1
slow --slow 16:50%; echo "exit $?"

weir sweep --config config.json --device h100-sxm --devices 32 --without 3 --global-batch 32 --schedules 1f1b \
    --price 2.5 --watts 700 > priced.txt; grep -o "price/10^9 *kWh/10^9t" priced.txt
python3 - <<'END'
lines = open('priced.txt').readlines()
best = next(line for line in lines if line.startswith('*')).split()
print('columns:', [line.split()[4].rstrip(',') in best for line in lines if 'billion tokens' in line])
END
grep 'have work\|billion tokens [ct]' priced.txt | sed 's/ [0-9.]* kWh/ N kWh/; s/cost [0-9.]*/cost N/'
weir sweep --config config.json --device h100-sxm --devices 8 --without 8 --global-batch 64; echo "exit $?"
weir sweep --config config.json --devices 8 --global-batch 64 | head -1
weir sweep --config config.json --device h100-sxm --devices 8 | head -1
weir sweep profile.json --config config.json --device h100-sxm --devices 8 --global-batch 8 | head -1
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 64 --micro-batches 8 | head -1
weir sweep --config=config.json --device h100-sxm --devices 8 --global-batch 64 --deadline 0s | head -1
weir sweep --config=config.json --device h100-sxm --devices 8 --global-batch 64 --schedules 1f1b,pipedream; echo "exit $?"
weir sweep --config config.json --device h100-sxm --devices 7 --global-batch 5 --ranks 7; echo "exit $?"
weir sweep --config none.json --device h100-sxm --devices 8 --global-batch 64; echo "exit $?"
weir sweep --config config.json --device h101 --devices 8 --global-batch 64; echo "exit $?"

# Of a parameter plans hold what the framework holds, and say so.
for like in megatron nemo deepspeed; do
    weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 64 --ranks 4 --tensor 1 --like $like --plan like.json \
        --profile like.profile.json > /dev/null
    echo $like: $(grep bytes_per_parameter like.json | head -1 | tr -d ' ') $(weir check like.json --profile like.profile.json --prove | grep -c 'give')
    weir partition like.profile.json --cluster '4 devices, 80GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 --optimizer adamw-master \
        -o like.json > /dev/null && grep bytes_per_parameter like.json
    python3 - <<'END'
import json
plan = json.load(open('like.json'))
parts = [stage['memory'] for stage in plan['stages']]
print(*(sum(part[name] for part in parts) / sum(part['weights_bytes'] for part in parts) for name in ('gradients_bytes', 'optimizer_bytes')))
END
done
weir partition like.profile.json --cluster '4 devices, 80GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 -o - | grep -c bytes_per_parameter
