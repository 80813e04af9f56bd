# A disk that is full, at whatever megabyte, or fails to sync: it is said at once, the run goes on to its end, and the
# checkpoint before is there to go on from.
cc=$(command -v cc || command -v gcc || command -v clang) || { echo '# skip: no C compiler'; exit 77; }
if nm -D "$(command -v weir)" | grep -q '__asan_init\|__tsan_init'; then
    echo '# skip: sanitizers stand in for write() themselves'
    exit 77
fi
"$cc" -shared -fPIC -O1 -D_GNU_SOURCE -o failing.so "$ROOT/tests/cli/failing_disk.c" -ldl || exit 1
model="gpt-nano,width=64,blocks=4,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 -o plan.json >/dev/null
train() {
    weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 3 --checkpoints kept "$@"
}
try() {  # VARIABLE=VALUE STEPS-THAT-FAIL
    local code steps newest
    rm -rf kept
    env LD_PRELOAD=$PWD/failing.so "$1" weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 3 \
        --checkpoints kept --save-every 1 >out 2>err
    code=$?
    steps=$(grep -c '^step' out)
    newest=$(ls kept | grep '^step-[0-9]*$' | sort -V | tail -1)
    # What is there can be gone on from.
    train --resume >resumed 2>resumed.err
    echo "$1: exit $code, $steps steps, $(grep -c '^weir: checkpoint of step' err) failed, newest ${newest:-none};" \
        "gone on: exit $?, $(sed -n 's/^weir: //; s/, step.*//; 1p' resumed.err)$(find kept -name '*.tmp')"
}
try WEIR_DISK_BYTES=0
for megabyte in ${WEIR_SOAK:+1 2 3 5 6} 4 7; do
    try WEIR_DISK_BYTES=$((megabyte << 20))
done | tail -n 2
try WEIR_DISK_SYNC=30
cat err | sed 's/[^ ]*\(safetensors\|tmp\|step-[0-9]*\)\(:\| \)/FILE\2/'
