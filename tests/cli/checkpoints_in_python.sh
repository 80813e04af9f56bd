# Others read what checkpoints consist of.
python=${WEIR_PYTHON:-python3}
"$python" -c 'import safetensors' 2>/dev/null || { echo '# skip: no Python package safetensors'; exit 77; }
for model in gpt-nano,width=16,blocks=1,heads=2,sequence=8,micro_batch=2 gpt-nano,tied,width=16,blocks=1,heads=2,sequence=8,micro_batch=2; do
    for optimizer in adamw adamw-master; do
        weir profile "$model" $([ $optimizer = adamw ] || echo --device cpu:bf16) -o profile.json >/dev/null
        weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 --tied apart \
            --optimizer $optimizer -o plan.json >/dev/null
        rm -rf kept
        weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 1 --checkpoints kept \
            $([ $optimizer = adamw ] || echo --device cpu:bf16) >/dev/null
        "$python" - <<'PYTHON'
import glob
import safetensors
for path in sorted(glob.glob('kept/step-1/*.safetensors')):
    with open(path, 'rb') as file:
        tensors = safetensors.deserialize(file.read())
    print(*sorted(f'{name} {data["dtype"]} {data["shape"]}' for name, data in tensors)[:7:2], sep='\n')
PYTHON
    done
done
