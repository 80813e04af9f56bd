# A layout that is stated is judged, beside the best plan on the same devices.
cat > config.json <<'END'
{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}
END
exec 2>&1
stated() { weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 32 --budget 2000 "$@"; }
stated --tensor 2 --ranks 4 --recompute full > judged.txt; echo "exit $?"
sed -E 's/[0-9.]+ ([num]?s|[KMG]iB|%)/N \1/g; s/[0-9.]+ (tokens|TFLOP)/N \1/g' judged.txt | grep -v "^The best\|(planned" | sed 's/  */ /g'
grep -c "^The best plan on the same devices takes" judged.txt
stated --tensor 2 --ranks 4 --chunks 2 --recompute 1 --like torchtitan --json > judged.json; echo "exit $?"
python3 - <<'END'
import json
judged = json.load(open('judged.json'))
print(judged['like'], judged['shard'], judged['schedule'], judged['data'], judged['micro_batches'], judged['fits'],
      abs(judged['iteration_ns'] - sum(ns for key, ns in judged['time'].items() if key != 'rank')) <= 10,
      judged['best']['iteration_ns'] <= judged['iteration_ns'])
END
# Fewer micro-batches than ranks are answered, and what does not fit is told.
stated --tensor 1 --ranks 8 --micro-batch 16 --recompute none --json | grep '"micro_batches"' | head -1
weir sweep --config config.json --device a100-40 --devices 1 --global-batch 1 --recompute none --sequence 8192 | grep -o "it does not fit"
stated --tensor 2 --ranks 4 --recompute none --memory 2GiB | grep -o "it does not fit\|No plan on the same devices fits"; echo "exit ${PIPESTATUS[0]}"
stated --tensor 2 --ranks 4 --layout 'Et*2|(t*2|)*2t*2L' --json | grep -c given_out
stated --tensor 2 --ranks 4 --blocks 1,2,3,2 --recompute selective --gradients 2 --within 1 --json | grep -c given_out
stated --tensor 2 --ranks 4 --blocks 1,2,3 --recompute none; echo "exit $?"
stated --tensor 2,4 --ranks 4 --recompute none; echo "exit $?"
stated --tensor 3 --ranks 4 --recompute none; echo "exit $?"
stated --tensor 2 --ranks 4 --micro-batch 3 --recompute none; echo "exit $?"
stated --tensor 2 --ranks 4 --recompute half; echo "exit $?"
stated --tensor 2 --ranks 4 --schedules 1f1b,zb-h1 --recompute full; echo "exit $?"
stated --like nmeo --recompute full | head -1
# What asks for something of a plan is refused, and writes nothing.
for words in '--plan p' '--profile p' '--svg p' --csv '--megatron p' '--torchtitan p' '--for megatron' '--without 1' \
    '--slow 8:80%' '--price 2' '--watts 700' '--optimizer sgd'; do
    stated --tensor 2 --ranks 4 --recompute full $words | head -1
done
[ -e p ] || echo "nothing written"
# Fine-tuning is judged, and not planned.
stated --tensor 2 --ranks 4 --recompute none --lora 16 | grep -c "it fits\|^The best"
stated --tensor 2 --ranks 4 --recompute none --frozen embedding,head --lengths 2048:50%,8192:50% --json | grep -c given_out
stated --lora 16; echo "exit $?"
stated --tensor 2 --ranks 4 --recompute none --lora 16 --products fp8; echo "exit $?"
weir estimate config.json --device h100-sxm --frozen head -o p.json; echo "exit $?"
# Over weeks, with failures: of one choice, or of all about broken devices.
weeks() { stated --tensor 2 --ranks 4 --recompute none "$@"; }
weeks --mtbf 10h --checkpoint-rate 10GB/s --restart 5min | grep -c "^Over weeks, with a failure every 10 h 0 min\|^Goodput is 9[0-9]"
weeks --mtbf 10h --checkpoint-rate 10GB/s --repair 10h --json | python3 -c '
import json, sys
weeks = json.load(sys.stdin)["weeks"]
choices = weeks["choices"]
print([(choice["elastic"], choice["spares"]) for choice in choices], 0.49 < choices[0]["waiting"] < 0.51,
      choices[weeks["best"]]["paid"] == max(choice["paid"] for choice in choices))'
weeks --mtbf 10h --checkpoint-rate 10GB/s --repair 10h --spares 2 --json | grep -c '"spares": 2'
weeks --mtbf 10h; echo "exit $?"
weeks --spares 2 --repair 1h; echo "exit $?"
weeks --mtbf 10h --checkpoint-rate 1GB/s --spares 2; echo "exit $?"
weeks --mtbf 10 --checkpoint-rate 1GB/s; echo "exit $?"
weeks --mtbf 1h --checkpoint-rate 1GB/s --checkpoint 0B; echo "exit $?"
weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 32 --tensor 2 --ranks 4 --recompute none --mtbf 1h \
    --checkpoint-rate 1GB/s --repair 1h --elastic; echo "exit $?"
weir sweep --config config.json --device h100-sxm --devices 16 --global-batch 32 --mtbf 10h --checkpoint-rate 1GB/s; echo "exit $?"
