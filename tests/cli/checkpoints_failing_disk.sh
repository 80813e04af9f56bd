# A disk that is full, at whatever megabyte, or fails at any call: it is said at once, the run goes on to its end, and the
# checkpoint before is there to go on from. A run that is killed before any call leaves one, too. Who goes on ends with the
# bits of a run whose disk was sound. WEIR_SOAK=1 tries every megabyte and every call.
cc=$(command -v cc || command -v gcc || command -v clang) || { echo '# skip: no C compiler'; exit 77; }
if nm -D "$(command -v weir)" | grep -q '__asan_init\|__tsan_init'; then
    echo '# skip: sanitizers stand in for write() themselves'
    exit 77
fi
"$cc" -shared -fPIC -O1 -D_GNU_SOURCE -o failing.so "$ROOT/tests/cli/failing_disk.c" -ldl || exit 1
model="gpt-nano,width=64,blocks=4,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 -o plan.json >/dev/null
train() {  # FOLDER ARGUMENTS..
    local folder=$1
    shift
    weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 3 --save-every 1 --checkpoints "$folder" "$@"
}
train whole --keep 3 >/dev/null || exit 1
newest() { ls kept | grep '^step-[0-9]*$' | sort -V | tail -1; }
try() {  # VARIABLE=VALUE..: what came of it is in `came`, and what is wrong about it is printed
    local code steps left
    rm -rf kept
    { (export LD_PRELOAD=$PWD/failing.so "$@"; exec weir train "$model" --data /usr/share/common-licenses --plan plan.json \
        --steps 3 --save-every 1 --checkpoints kept) >out 2>err; } 2>/dev/null  # the shell says who was killed
    code=$?
    steps=$(grep -c '^step' out) left=$(newest 2>/dev/null)
    came="exit $code, $steps steps, $(grep -c '^weir: checkpoint of step' err) failed, newest ${left:-none};"
    case "$code $steps $left" in
    '0 3 step-3' | '137 '*) ;;
    '3 3 '*) grep -q 'No space left on device\|Input/output error' err || echo "$*: nothing is said: $came" ;;
    *) grep -q "^weir: kept: .*\(No space left on device\|Input/output error\)" err || echo "$*: $came" ;;
    esac
    # What is there can be gone on from.
    train kept --resume >resumed 2>resumed.err
    code=$? left=$(find kept -name '*.tmp')
    came+=" gone on: exit $code, $(sed -n 's/^weir: //; s/, step.*//; 1p' resumed.err)"
    [ $code = 0 ] && ! grep 'left out' resumed.err && [ "$left" = '' ] && diff -r whole/step-3 kept/step-3 || echo "$*: $came $left"
}

bytes=$(find whole -type f -name '*.*' -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
for ((megabyte = 0; megabyte << 20 < bytes; megabyte++)); do
    case $megabyte in
    0 | 4 | 7) try WEIR_DISK_BYTES=$((megabyte << 20)); echo "$megabyte MiB: $came" ;;
    *) [ "${WEIR_SOAK:-}" = '' ] || try WEIR_DISK_BYTES=$((megabyte << 20)) ;;
    esac
done

try WEIR_DISK_SAYS=$PWD/calls
calls=$(cat calls)
[ "$calls" -gt 200 ] || echo "only $calls calls are counted"
[ "${WEIR_SOAK:-}" ] && apart=1 || apart=$((calls / 6))
for ((call = 0; call < calls; call += apart)); do
    try WEIR_DISK_CALL=$call WEIR_DISK_TROUBLE=28  # ENOSPC
    try WEIR_DISK_CALL=$call WEIR_DISK_TROUBLE=5   # EIO
    try WEIR_DISK_CALL=$call
done
echo "tried: calls that fail, and ends before them"
