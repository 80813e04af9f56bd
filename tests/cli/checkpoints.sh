# A run that is ended goes on with the bits of one that was never ended: killed, asked to stop, in one process and in
# several; and a disk that fails does not end it.
model="gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
plan() {  # PLAN SCHEDULE
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule $2 --micro-batches 4 -o $1 >/dev/null
}
plan plan.json 1f1b
plan other.json gpipe
plan drained.json pipedream
train() {  # PLAN ARGUMENTS.. of the same run
    weir train "$model" --data /usr/share/common-licenses --plan "$@"
}
losses() { awk '$1 == "step" { print $2, $4, $5, $6 } /^held-out/' "$@"; }
until_soon() {  # COMMAND.., again and again, for at most two minutes
    local tries
    for ((tries = 0; tries < 2600; tries++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}
has_checkpoint() { ls $1 2>/dev/null | grep -q '^step-[0-9]*$'; }

echo "# whole, and its newest checkpoints"
train plan.json --steps 600 --every 600 --checkpoints whole --save-every 590 --keep 2 >whole.txt; echo "exit $?"
ls whole | sort -V
ls whole/step-600

echo "# killed, at any moment, and gone on with"
weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 600 --checkpoints killed --save-every 1 \
    >killed.txt 2>&1 &
until_soon has_checkpoint killed
kill -STOP $!
train plan.json --steps 600 --checkpoints killed --resume 2>&1; echo "exit $?, while it runs"
kill -9 $!
wait $! 2>/dev/null
train plan.json --steps 600 --every 600 --checkpoints killed --resume >resumed.txt 2>resumed.err; echo "exit $?"
grep -v ' is kept$' resumed.err | sed 's/step-[0-9]*, step [0-9]*/step-N, step N/'
diff -r whole/step-600 killed/step-600 && diff <(losses whole.txt | tail -n 2) <(losses resumed.txt | tail -n 2) && echo 'the same bits'
find killed -name '*.tmp'

echo "# at its end; and what is another run"
train plan.json --steps 600 --checkpoints whole --resume 2>&1; echo "exit $?"
train plan.json --steps 600 --checkpoints whole 2>&1; echo "exit $?"
train plan.json --steps 600 --checkpoints whole --resume --seed 2 2>&1; echo "exit $?"
train plan.json --steps 600 --checkpoints plan.json 2>&1; echo "exit $?"
train plan.json --resume 2>&1 | head -1

echo "# asked to stop, one rank of two; and gone on with by two"
begin() {  # ARGUMENTS.. of both
    for rank in 0 1; do
        WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet weir train "$model" --plan plan.json \
            --data /usr/share/common-licenses --steps 600 --device cpu:queued --checkpoints stopped "$@" \
            >rank$rank.txt 2>rank$rank.err &
        pids[$rank]=$!
    done
}
await() {
    wait ${pids[0]}; echo "exit $?"
    wait ${pids[1]}; echo "exit $?"
}
begin --every 100 --save-every 1
until_soon has_checkpoint stopped
kill -TERM ${pids[1]}
await
grep -v '^messages\| is kept$' rank0.err | sed 's/step [0-9]* of/step N of/; s/step-[0-9]*/step-N/'
cat rank1.err
begin --every 600 --resume
await
grep -v '^messages\| is kept$' rank0.err | sed 's/step [0-9]* of/step N of/; s/step-[0-9]*/step-N/'
diff -r whole/step-600 stopped/step-600 && diff <(losses whole.txt | tail -n 2) <(losses rank0.txt | tail -n 2) && echo 'the same bits'

echo "# asked to stop, with nothing kept"
weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 1000000 >stopped.txt 2>stopped.err &
until_soon grep -q '^step' stopped.txt
kill -TERM $!; wait $! ; echo "exit $?"
sed 's/step [0-9]* of/step N of/' stopped.err

echo "# ranks that do not share a folder"
mkdir -p elsewhere; here=$PWD
for rank in 0 1; do
    (
        [ $rank = 0 ] || cd elsewhere
        WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$here/meet2 timeout -k 5 300 weir train "$model" \
            --plan $here/plan.json --data /usr/share/common-licenses --steps 4 --device cpu:queued --checkpoints apart
        echo "exit $?"
    ) >rank$rank.txt 2>&1 &
done
wait
grep -v '^messages' rank0.txt

echo "# by another plan, for longer"
train other.json --steps 604 --every 604 --checkpoints whole --resume --device cpu:queued,cpu:queued 2>&1 >/dev/null |
    grep -v '^messages\| is kept$' | tr '\n' ' '; echo
ls whole | sort -V

echo "# asked twice within a pass that would last"
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule pipedream --micro-batches 64 \
    -o long.json >/dev/null
weir train "$model" --data /usr/share/common-licenses --plan long.json --steps 1000000 --flush-every 10000 >/dev/null 2>&1 &
caught() { sed -n 's/^SigCgt:\t*//p' /proc/$1/status; }
until (((0x$(caught $!) >> 14) & 1)); do sleep 0.05; done  # TERM: before, it would end by itself
kill -TERM $!; sleep 1.2; kill -TERM $!; wait $! 2>/dev/null; echo "exit $?"
