# A plan in the words of other frameworks, to the byte: as it is, rounded and priced, refused.
layer() {
    cat <<END
    {"name": "$1", "kind": "$2", "forward_ns": $3, "backward_input_ns": $3, "backward_weight_ns": $4,
     "parameter_bytes": $5, "output_bytes": 262144, "saved_bytes": $6, "input_kept": "weight",
     "held_for_weight_bytes": 262144, "workspace_bytes": 0, "backward_workspace_bytes": 65536, "flops": 0}
END
}
{
    echo '{"format": "weir.profile", "version": 1, "model": "small-gpt", "micro_batch": 4, "dtype": "fp32",'
    echo '"source": {"how": "estimated", "device": "none", "clock": "none", "repeats": 1, "sum_ns": 47300000,'
    echo '"whole_ns": 0, "backward_split": "assumed"}, "layers": ['
    layer embedding embedding 100000 100000 196608 2048; echo ,
    for block in 0 1 2 3 4 5; do
        layer block$block.attention attention 1000000 900000 266240 1048576; echo ,
        layer block$block.mlp mlp 1500000 1500000 528384 1048576; echo ,
    done
    layer head head 900000 800000 132096 532480
    echo ']}'
} > profile.json
exec 2>&1
cluster() { echo "$1 devices, $2, 10GB/s 20us"; }
# NAME, a schedule, devices, memory of each, micro-batches, and what else is asked: the best plan, or one by hand
plan() { weir partition profile.json --schedule $2 --cluster "$(cluster $3 $4)" --micro-batches $5 -o $1.json > /dev/null; }
by_hand() { weir price profile.json --schedule $2 --cluster "$(cluster $3 $4)" --micro-batches $5 "${@:6}" -o $1.json > /dev/null; }

echo "# whole blocks"
by_hand whole 1f1b 3 64MiB 8 --cuts 5,4,5
for format in megatron torchtitan deepspeed colossalai nanotron pytorch pytorch-csv; do
    echo "## $format"
    weir export $format whole.json | tr -d '\r'
done
echo "## torchgpipe"
by_hand gpipe gpipe 3 64MiB 8 --cuts 5,4,5
weir export torchgpipe gpipe.json --profile profile.json

echo "# several stages per rank, and orders that frameworks have no name for"
by_hand interleaved interleaved 2 64MiB 8 --cuts 3,4,4,3
weir export megatron interleaved.json --profile profile.json
weir export colossalai interleaved.json --profile profile.json
by_hand groups interleaved 4 64MiB 10 --cuts 1,2,2,2,2,2,2,1
weir export megatron groups.json --profile profile.json
by_hand v v-half 2 64MiB 8 --cuts 3,4,4,3
weir export torchtitan v.json
weir export pytorch v.json

echo "# little memory: what a plan runs again, as near as they have it"
plan little 1f1b 2 16MiB 8
weir export pytorch little.json
for format in megatron torchtitan deepspeed colossalai nanotron; do
    echo "## $format"
    weir export $format little.json --profile profile.json
done
echo "## megatron, without the profile"
weir export megatron little.json; echo $?

echo "# a cut in a block"
by_hand inside 1f1b 2 64MiB 8 --cuts 6,8
weir export megatron inside.json; echo $?
weir export megatron inside.json --profile profile.json
weir export deepspeed inside.json > /dev/null; echo $?
echo "# units by hand"
weir export deepspeed whole.json --units 1,2,2,2,2,2,2,1 | grep PARTS
weir export megatron whole.json --units 3,2,2,2,4,1 | grep -- --
weir export megatron whole.json --units 1,2,3; echo $?
weir export pytorch-csv whole.json --units 1,2; echo $?

echo "# torchtitan's config function"
weir export torchtitan little.json --profile profile.json --base my.configs.small_gpt | grep -v '^#'
weir export torchtitan whole.json --base small_gpt; echo $?
weir export deepspeed whole.json --base my.configs.small_gpt; echo $?

echo "# no"
plan pipedream pipedream 2 64MiB 8
weir export megatron pipedream.json; echo $?
plan chimera chimera 2 64MiB 8
for format in torchtitan pytorch pytorch-csv; do weir export $format chimera.json; echo $?; done
by_hand replicas 1f1b 3 64MiB 8 --cuts 5,9 --replicas 1,2
weir export colossalai replicas.json; echo $?
weir export jax whole.json; echo $?
sed 's/"micro_batch": 4/"micro_batch": 2/' profile.json > other.json
weir export megatron whole.json --profile other.json; echo $?
weir export megatron; echo $?

echo "# a file"
weir export megatron whole.json -o args.sh && bash -c '. ./args.sh; printf "%s\n" "${PIPELINE_ARGS[@]}"'
echo "# what was estimated leaves as it was estimated"
cat > config.json <<'JSON'
{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 4096, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
 "rope_theta": 500000.0, "hidden_act": "silu"}
JSON
weir estimate config.json --device h100-sxm --tensor 4 --sequence-parallel --context 2 --data 8 --shard optimizer \
    --products fp8 --recompute-tensors norms --whole-blocks -o estimated.json
weir partition estimated.json --cluster '2 devices, 60GiB, 50GB/s 5us' --schedule 1f1b --micro-batches 8 \
    --optimizer adamw-master -o estimated.plan.json > /dev/null
for format in megatron torchtitan pytorch; do weir export $format estimated.plan.json --profile estimated.json 2> /dev/null; done
echo "# planned in a framework's words, nothing is rounded"
weir estimate config.json --device h100-sxm --sequence 8192 -o little.json
for framework in any megatron torchtitan; do
    weir partition little.json --cluster '2 devices, 24GiB, 50GB/s 5us' --schedule 1f1b --micro-batches 8 \
        --optimizer adamw-master --for $framework -o little.plan.json | grep -o 'Proved optimal.*'
    weir export megatron little.plan.json --profile little.json 2>&1 | grep -c '^# So it takes'
    grep '"for"' little.plan.json
    weir check little.plan.json --profile little.json --prove | tail -1
done
weir partition little.json --cluster '2 devices, 24GiB, 50GB/s 5us' --schedule zb-h1 --micro-batches 8 --for megatron; echo $?
