# A rank in each of several processes, whose devices talk to each other: every schedule has the bits of
# a sequential run; a rank that is killed ends the others, by name.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null

plan() {  # PLAN DEVICES SCHEDULE
    weir partition profile.json --cluster "$2 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 8 -o $1 >/dev/null
}
together() {  # RANKS COMMAND.., each rank with the variables that launchers set; 124 for one that does not end
    local ranks=$1 codes="" rank
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "$@" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do
        [ "$job" != "${lonely-}" ] || continue
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}

for schedule in gpipe 1f1b pipedream interleaved zb-h1 zb-v chimera dualpipev; do
    plan plan.json 2 $schedule
    echo "$schedule: $(together 2 weir verify plan.json --device cpu:queued), $(tail -qn 1 rank0.txt rank1.txt)"
done
plan plan.json 4 1f1b
echo "4 ranks: $(together 4 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"

# By the variables of torchrun, and what is wrong with them.
export MASTER_ADDR=127.0.0.1
WORLD_SIZE=2 RANK=0 weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
WORLD_SIZE=4 RANK=4 weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"

unset MASTER_ADDR

# One rank of two, alone: it says whom it waits for (looked at in the end). A plan is no place to meet, and stays.
WEIR_RANK=1 WEIR_RANKS=4 WEIR_RENDEZVOUS=lonely timeout 300 weir verify plan.json --device cpu:queued 2>lonely.err &
lonely=$!
cp plan.json foreign.json
WEIR_RANK=0 WEIR_RANKS=4 WEIR_RENDEZVOUS=foreign.json weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
WEIR_RANK=1 WEIR_RANKS=4 WEIR_RENDEZVOUS=foreign.json weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
cmp plan.json foreign.json

# On several machines, an address needs a secret.
WORLD_SIZE=4 RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node7 \
    weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"

# Without communicators.
together 4 weir verify plan.json --device cpu
grep -h -o 'device cpu has nothing.*' rank0.txt

# Training: rank 0 speaks, allocated is what was planned, on all ranks.
plan plan.json 2 1f1b
together 2 weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 4 --device cpu:queued
grep -c '^step' rank0.txt
awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' rank0.txt
wc -c <rank1.txt

# Killed in the middle: the others end, and name it. Who does not end is killed, too (137).
plan plan.json 4 1f1b
until_soon() {  # COMMAND.., again and again, for at most two minutes
    local tries
    for ((tries = 0; tries < 2400; tries++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}
has_ended() { ! kill -0 $1; }
(
    for rank in 0 1 2 3; do
        WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet weir train "$model" --plan plan.json \
            --data /usr/share/common-licenses --steps 1000000 --device cpu:queued --out ends >killed$rank.txt 2>killed$rank.err &
        pids[$rank]=$!
    done
    until_soon grep -q "^step" killed0.txt
    kill -9 ${pids[2]}
    for rank in 0 1 3; do
        until_soon has_ended ${pids[$rank]} || kill -9 ${pids[$rank]}
        wait ${pids[$rank]}
        echo "exit $?"
    done
) 2>/dev/null
for rank in 0 1 3; do
    sed -n 's/process [0-9]* on .*)/process N on HOST)/; $p' killed$rank.err
done
# What it says of its last actions is how the trace ends.
python3 - ends/failed.rank0.trace.json killed0.err <<'PYTHON'
import json, sys
spans = sorted((event['ts'], event['name']) for event in json.load(open(sys.argv[1]))['traceEvents'] if event['ph'] == 'X')
said = [name for line in open(sys.argv[2]) if 'last actions:' in line for name in line.split()[5:]]
print('as was said:', [name for _, name in spans][-8:] == said or (spans[-8:], said))
PYTHON

until_soon grep -q 'waits for' lonely.err
kill $lonely
sed 's/since .*/since TIME and for TIME more/; 1q' lonely.err
