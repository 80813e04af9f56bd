#!/bin/sh
# How long `weir sweep --config` takes, and what it finds, for Llama-like models of 70B and 405B on H100s.
#
#     bench/sweep_configs.sh
set -eu
PATH=$(realpath "${WEIR_BUILD:-build/release}")/bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
write() { # NAME, LAYERS, HIDDEN, HEADS, FFN
    printf '{"model_type": "llama", "num_hidden_layers": %s, "hidden_size": %s, "num_attention_heads": %s, ' "$2" "$3" "$4"
    printf '"num_key_value_heads": 8, "intermediate_size": %s, "vocab_size": 128256, ' "$5"
    printf '"max_position_embeddings": 8192}\n'
}
write 70b 80 8192 64 28672 >"$folder/70b.json"
write 405b 126 16384 128 53248 >"$folder/405b.json"
while read -r model devices batch; do
    began=$(date +%s%N)
    weir sweep --config "$folder/$model.json" --device h100-sxm --devices "$devices" --global-batch "$batch" \
        >"$folder/said.txt"
    ended=$(date +%s%N)
    echo "$model on $devices: $(((ended - began) / 1000000)) ms"
    grep -A 3 '^Of \|^Best' "$folder/said.txt"
done <<END
70b 64 512
70b 1024 1024
405b 4096 2048
END
