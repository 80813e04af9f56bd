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
told = {line[0]: line[1].strip() for line in lines}
print('torchtitan:', told['config.parallelism.tensor_parallel_degree'] == str(best['tensor']),
      told['config.parallelism.pipeline_parallel_degree'] == str(best['ranks']))
END
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 16 --memory 1GiB > none.txt; echo "exit $?"
tail -1 none.txt
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 64 --tensor 2 --context 1 --ranks 4 \
    --micro-batch 1 --shard none --schedules 1f1b,gpipe --csv | cut -d, -f1-11
weir sweep --config config.json --device h100-sxm --devices 32 --without 3 --global-batch 32 --schedules 1f1b \
    --price 2.5 --watts 700 | grep 'have work\|billion tokens [ct]' | sed 's/ [0-9.]* kWh/ N kWh/; s/cost [0-9.]*/cost N/'
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
