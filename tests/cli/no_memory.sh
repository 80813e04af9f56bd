# Whatever allocation fails, a command prints all that it prints with more memory, or the sentence that there is none.
cc=$(command -v cc || command -v gcc || command -v clang) || { echo '# skip: no C compiler'; exit 77; }
if nm -D "$(command -v weir)" | grep -q '__asan_init\|__tsan_init'; then
    echo '# skip: sanitizers bring an allocator of their own'
    exit 77
fi
"$cc" -shared -fPIC -O1 -I "$ROOT" -o failing.so "$ROOT/tests/cli/failing_malloc.c" || exit 1
weir profile gpt-nano,width=32,blocks=1,heads=2,sequence=32 -o profile.json > /dev/null
cluster=(--cluster '2 devices, 1GiB, 10GB/s 20us')
weir partition profile.json "${cluster[@]}" --micro-batches 4 --schedule 1f1b -o plan.json > /dev/null
weir schedule zb-v --ranks 2 --micro-batches 3 --format json -o schedule.json
trials=${WEIR_SOAK:+400}
trials=${trials:-12}

try() {
    WEIR_FAIL_SAYS=$PWD/count LD_PRELOAD=$PWD/failing.so "$@" > all 2> all.err
    local code=$? all=$(cat count) step at got
    step=$(((all + trials - 1) / trials))
    # Twice: one allocation fails, or all from there on. The last ones write what was found.
    for ((at = 0; at < all; at += at + trials < all ? step : 1)); do
        for count in 1 1000000000; do
            WEIR_FAIL_FROM=$at WEIR_FAIL_COUNT=$count LD_PRELOAD=$PWD/failing.so "$@" > out 2> err
            got=$?
            if [ $got = 3 ] && grep -qi 'no memory\|cannot allocate memory' err; then
                continue
            elif [ $got != $code ] || ! cmp -s out all || ! cmp -s err all.err; then
                echo "$* without allocation $at of $all ($count): exit $got"
                diff all out | head -3
                head -3 err
            fi
        done
    done
    echo "$2: tried"
}
try weir partition profile.json "${cluster[@]}" --micro-batches 4 --schedule 1f1b
try weir partition profile.json "${cluster[@]}" --micro-batches 4 --schedule zb-v --json
try weir price profile.json --plan plan.json
try weir explain plan.json --profile profile.json
try weir check plan.json
try weir check schedule.json --lower all
try weir check schedule.json --json
try weir simulate plan.json
try weir simulate plan.json --against plan.json --format html
try weir schedule 1f1b --ranks 2 --micro-batches 3
try weir model gpt-nano
try weir profile --lint profile.json
try weir bottleneck profile.json "${cluster[@]}" --model max-load
try weir front profile.json "${cluster[@]}" --micro-batches 4 --schedule 1f1b
