# A configuration of Hugging Face becomes a profile that the planner takes; what cannot be is a sentence.
cat > config.json <<'END'
{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}
END
exec 2>&1
weir estimate config.json --device h100-sxm --tensor 2 --sequence-parallel -o profile.json && echo "made"
weir estimate config.json --device h100-sxm --tensor 2 --sequence-parallel -o - | cmp - profile.json && echo "the same"
weir partition profile.json --cluster '2 devices, 80GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 \
    --optimizer adamw-master --json -o plan.json > /dev/null && weir check plan.json --profile profile.json | tail -1
weir estimate config.json --device h100-sxm --tensor 2 --sequence-parallel --explain | sed 's/[0-9.]* [num]*s/T/g' | head -1
weir estimate config.json --device h100-sxm --json | grep -c '"kind"'
weir estimate config.json --device h100-sxm --variants 2,4 -o variants.json
weir partition variants.json --cluster '8 devices, 14GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 --variants auto \
    --optimizer adamw-master -o variants.plan.json > /dev/null && weir check variants.plan.json --profile variants.json | tail -1
grep -o '"variant": "tensor[0-9]"' variants.plan.json | sort -u
weir estimate config.json --device h100-sxm --variants 2,4 --sequence-parallel -o shares.json
weir partition shares.json --cluster '4 devices, 60GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 --variants tensor2sp,tensor2sp \
    --optimizer adamw-master -o shares.plan.json > /dev/null && weir check shares.plan.json --profile shares.json | tail -1
grep -o '"variant": "tensor[0-9]sp"' shares.plan.json
sed 's/"llama"/"mixtral"/; s/"num_hidden/"num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden/' config.json > mixtral.json
weir estimate mixtral.json --device h100-sxm --micro-batch 2 --variants 2,context2,expert2,tensor2sp+expert2 -o degrees.json
plan() { weir partition degrees.json --cluster '4 devices, 200GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 \
    --optimizer adamw-master --variants "$1" -o degrees.plan.json > /dev/null; }
for variant in context2 expert2; do
    plan $variant,$variant && weir check degrees.plan.json --profile degrees.json | tail -1
    grep -o "\"variant\": \"$variant\"" degrees.plan.json
done
plan context2,expert2; echo "exit $?"
plan tensor2,context2; echo "exit $?"
plan auto && grep -o '"variant": "[a-z0-9+]*"' degrees.plan.json
weir estimate mixtral.json --device h100-sxm --variants all -o - | grep -o '"name": "[tce][enox][a-z]*[0-9][a-z]*"' | sort -u
weir estimate mixtral.json --device h100-sxm --variants expert2; echo "exit $?"
weir estimate config.json --device h100-sxm --variants context2,experts2 | head -1
weir estimate config.json --device h100-sxm --variants 3; echo "exit $?"
weir estimate config.json --device h100-sxm --tensor 2 --variants 4; echo "exit $?"
cp config.json other.json
sed -i 's/"llama"/"gpt9"/' other.json
weir estimate other.json --device h100-sxm; echo "exit $?"
weir estimate config.json --device h101; echo "exit $?"
weir estimate config.json --device none.json; echo "exit $?"
weir estimate config.json --device h100-sxm --tensor 3; echo "exit $?"
weir estimate config.json --device h100-sxm --expert 2; echo "exit $?"
weir estimate config.json --device a100-80 --products fp8; echo "exit $?"
weir estimate config.json --device a100-80 --recompute-tensors norms,activations -o again.json && weir estimate config.json --device a100-80 -o kept.json
for each in kept again; do grep -m 2 '"saved_bytes"' $each.json | tail -1; done
weir estimate config.json --device a100-80 --recompute-tensors norms,all; echo "exit $?"
weir estimate config.json --device a100-80 --recompute-tensors latent; echo "exit $?"
weir estimate config.json --device a100-80 --dtype int8; echo "exit $?"
weir estimate config.json | head -1
# Layers that see a window, and one that sees all: two costs of attention in the profile.
cat > oss.json <<'END'
{"model_type": "gpt_oss", "num_hidden_layers": 3, "hidden_size": 2880, "num_attention_heads": 64,
 "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "num_local_experts": 32,
 "num_experts_per_tok": 4, "max_position_embeddings": 8192, "sliding_window": 128,
 "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
END
weir estimate oss.json --device h100-sxm --explain | grep -o "^[a-z]*  *[0-9][0-9]* "
weir estimate oss.json --device h100-sxm --tensor 2 --sequence-parallel -o oss.profile.json
python3 - <<'END'
import json
layers = {layer['name']: layer for layer in json.load(open('oss.profile.json'))['layers']}
times = [layers[f'block{i}.attention']['forward_ns'] for i in range(3)]
print('windows:', times[0] == times[2] < times[1], {layers[f'block{i}.attention']['kind'] for i in range(3)})
END
sed 's/, "sliding_attention"\]/]/' oss.json > two.json; weir estimate two.json --device h100-sxm; echo "exit $?"
sed 's/full_att/some_att/' oss.json > some.json; weir estimate some.json --device h100-sxm; echo "exit $?"
weir estimate --list; echo "exit $?"
# What nobody says is as a framework has it.
weir estimate config.json --device h100-sxm --tensor 2 --like torchtitan --explain | sed -n '2,3p'
weir estimate config.json --device h100-sxm --like deepsped; echo "exit $?"
hidden() { weir estimate config.json --device h100-sxm --tensor 2 --json "$@" | grep -c '"hidden_ns": [1-9]'; }
hidden --like torchtitan; hidden --like torchtitan --overlap all
weir estimate config.json --device v100-32 --dtype fp16 --attention flash; echo "exit $?"
weir estimate config.json --device h100-sxm --gradients 3; echo "exit $?"
# What predicts a token further on is a layer behind the blocks, which may be left out.
sed 's/"vocab_size"/"num_nextn_predict_layers": 1, "vocab_size"/' config.json > further.json
weir estimate further.json --device h100-sxm --explain | grep -o '^mtp  *1 '
weir estimate further.json --device h100-sxm --whole-blocks -o further.profile.json
weir estimate further.json --device h100-sxm --whole-blocks --without-mtp -o without.profile.json
sed 's/layers": 1,/layers": null,/' further.json > none.json; weir estimate none.json --device h100-sxm --whole-blocks -o none.profile.json
cmp without.profile.json none.profile.json && grep -c '"predicted"' none.profile.json further.profile.json
plan_further() { weir $1 further.profile.json --cluster '4 devices, 80GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 \
    --optimizer adamw-master "${@:2}" -o further.plan.json > /dev/null; }
plan_further partition --for megatron && weir export megatron further.plan.json --profile further.profile.json | grep 'mtp\|layout\|num-layers [0-9]'
plan_further price --cuts 3,2,4,2 && weir export megatron further.plan.json --profile further.profile.json | grep 'layout'
weir export torchtitan further.plan.json --profile further.profile.json; echo "exit $?"
judge() { weir sweep --config further.json --device h100-sxm --devices 4 --global-batch 8 --ranks 4 --micro-batch 1 --recompute none "$@"; }
judge --layout 'Et|t|t|tmL' | sed -n 1p; judge --layout 'Et|t|t|tL'; echo "exit $?"
judge --layout 'Et|t|t|tL' --without-mtp | sed -n 1p; judge --layout 'Et|t|t|tmL' --without-mtp; echo "exit $?"
plan_further partition --for torchtitan; echo "exit $?"
weir sweep --config further.json --device h100-sxm --devices 8 --global-batch 8 --torchtitan job.py; echo "exit $?"
# Text models within others, and layers that recur: what the user should know is on stderr.
cat > seeing.json <<'END'
{"model_type": "llava", "text_config": {"model_type": "llama", "num_hidden_layers": 2, "attn_gate": "all"}}
END
weir estimate seeing.json --device h100-sxm --sequence 2048 --explain | head -1
cat > hybrid.json <<'END'
{"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-ME", "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 21504, "vocab_size": 131072, "mamba_num_heads": 128,
 "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128,
 "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1856, "n_shared_experts": 1,
 "moe_shared_expert_intermediate_size": 3712, "time_step_limit": [0.0, Infinity]}
END
weir estimate hybrid.json --device h100-sxm --sequence 8192 --explain | grep -o "^[a-z]*  *[0-9][0-9]* "
weir estimate hybrid.json --device h100-sxm --sequence 8192 --tensor 2 --context 2 --whole-blocks -o hybrid.profile.json
grep -o '"name": "[^"]*"' hybrid.profile.json | tr '\n' ' '; echo; grep -c no_cut_after hybrid.profile.json
weir partition hybrid.profile.json --cluster '4 devices, 80GiB, 450GB/s 5us' --schedule 1f1b --micro-batches 8 \
    --optimizer adamw-master -o hybrid.plan.json > /dev/null && weir check hybrid.plan.json --profile hybrid.profile.json | tail -1
weir export megatron hybrid.plan.json --profile hybrid.profile.json; echo "exit $?"
weir estimate hybrid.json --device h100-sxm --sequence 8192 --context 256; echo "exit $?"
weir sweep --config hybrid.json --device h100-sxm --devices 4 --sequence 8192 --global-batch 8 --tensor 2 --ranks 2 --blocks 3,4 \
    --recompute full | sed -n 2,3p
# Experts that compute nothing have matrices in their class, which is said.
echo '{"model_type": "longcat_flash", "num_layers": 2, "vocab_size": 1000}' >idle.json
weir estimate idle.json --device h100-sxm --sequence 4096 --json 2>&1 >/dev/null | grep zero_expert_num
weir estimate config.json --device h100 2>&1 >short.txt; weir estimate config.json --device h100-sxm >long.txt; cmp short.txt long.txt
