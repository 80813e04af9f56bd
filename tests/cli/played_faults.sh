# The played GPU finds what is wrong: each fault of tests/weir_cuda/played/faults.py, planted in the plug-in's own code,
# ends a run that is good without it. So a fault of that kind in device/cuda does not pass the tests that use it.
set -u
played=$WEIR_BUILD/tests/weir_cuda/played
if [ ! -e "$played/weir-cuda.so" ]; then
    echo '# skip: the GPU part is not built here, so it cannot be played (scons cuda=yes says what it lacks)'
    exit 77
fi
unset PLAYED_SEED PLAYED_MEMORY PLAYED_GPUS PLAYED_FAIL PLAYED_CUDNN PLAYED_COUNTS
model=gpt-nano,width=32,blocks=3,heads=2,sequence=16,micro_batch=2
weir profile $model --repeats 20 -o cpu.json > profiled.txt 2>&1
plan() {
    weir partition cpu.json --cluster '4 devices, 1GiB, 10GB/s 5us' --schedule 1f1b --micro-batches 4 -o $1.json \
        "${@:2}" > planned.txt
}
plan 1f1b --ranks 3
plan replicas --replicas 2,1 --shard optimizer

kernels() { "$WEIR_BUILD/tests/device/compare_kernels" $1 1 small; }
queues() { "$played/test_played_queues" "$WEIR_PLUGINS"; }
layers() { "$WEIR_BUILD/tests/models/compare_layers" $1 1 small; }
verify() { timeout -k 5 120 weir verify $1.json --device $2 --steps 2; }
processes() {
    local rank code=0 jobs=()
    rm -f meet
    for rank in 0 1 2; do
        WEIR_RANK=$rank WEIR_RANKS=3 WEIR_RENDEZVOUS=$PWD/meet \
            timeout -k 5 120 weir verify $1.json --device $2:0 --steps 2 2>&1 &
        jobs+=($!)
    done
    for rank in 0 1 2; do
        wait ${jobs[$rank]} || code=$?
    done
    return $code
}
# Whether it ends well: by several seeds, since what is wrong need not show in each order.
ends_well() {  # SEEDS COMMAND..
    local seed
    for ((seed = 1; seed <= $1; seed++)); do
        PLAYED_SEED=$seed "${@:2}" > said.txt 2>&1 < /dev/null || return 1
    done
}

grep STALE "$played/faults/list.txt"
grep -v STALE "$played/faults/list.txt" | cut -d' ' -f 2- | sort -u | while read -r -a trial; do
    WEIR_PLUGINS=$played ends_well 1 "${trial[@]}" && echo "${trial[*]}: good" || { cat said.txt; echo "${trial[*]}: not good"; }
done
while read -r fault trial; do
    WEIR_PLUGINS=$played/faults/$fault ends_well 3 $trial && echo "$fault: NOT FOUND by $trial" || echo "$fault: found by $trial"
done < <(grep -v STALE "$played/faults/list.txt")
