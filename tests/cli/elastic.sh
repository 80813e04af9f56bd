# Four ranks, of which one is killed; three go on; a fourth comes; and the loss is that of a run that nobody has left,
# also by the one log that all epochs write. Members say why they wait, and what they leave.
model="gpt-nano,width=16,blocks=4,heads=2,sequence=16,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null 2>&1
weir partition profile.json --cluster '4 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null
steps=${WEIR_ELASTIC_STEPS:-2500}
plan=plan.json
train() { exec weir train "$model" --data /usr/share/common-licenses --plan $plan --steps $steps --device cpu:queued "$@"; }
member() { train --save-every 20 --elastic profile.json --log $1.jsonl --checkpoints "$@"; }
newest() { ls "$1" 2>/dev/null | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -1; }
epoch() { sed -n 's/^  "epoch": \([0-9]*\),$/\1/p' "$1/elastic/epoch.json" 2>/dev/null; }
ranks() { grep -c '"member"' "$1/elastic/epoch.json"; }
wait_for() {  # a checkpoint behind that step, in that epoch or a later one
    for _ in $(seq 1200); do
        [ "$(epoch $1)" ] && [ "$(epoch $1)" -ge $3 ] && [ "$(newest $1)" ] && [ "$(newest $1)" -gt $2 ] && return
        sleep 0.05
    done
    echo "$1: nothing behind step $2 in epoch $3"
}
losses() { awk '$1 == "step" { last[$2] = $6 } END { for (step in last) print step, last[step] }' "$@" | sort -n; }

(train) >whole.txt 2>&1
losses whole.txt >whole.losses

try() {  # FOLDER, and who is killed: a member, or the process of its rank
    pids=()
    for i in 1 2 3 4; do
        (member $1) >$1-$i.txt 2>&1 & pids+=($!)
    done
    wait_for $1 0 1
    echo "epoch $(epoch $1), $(ranks $1) ranks"
    killed=${pids[1]}
    [ $2 = member ] || killed=$(cat /proc/$killed/task/$killed/children)
    kill -9 $killed
    wait ${pids[1]} 2>/dev/null; echo "killed: exit $?"
    wait_for $1 $(newest $1) 2
    echo "epoch $(epoch $1), $(ranks $1) ranks"
    (member $1) >$1-5.txt 2>&1 & pids[1]=$!
    wait_for $1 $(newest $1) 3
    echo "epoch $(epoch $1), $(ranks $1) ranks"
    for i in 0 1 2 3; do wait ${pids[i]}; echo "exit $?"; done
    echo "at its end: step $(newest $1)"
    losses $1-*.txt >$1.losses
    # Sums in another order, of other plans, are other ones in their last digits; another batch would be another loss.
    join whole.losses $1.losses | awk '{ if ($2 - $3 > most) most = $2 - $3; if ($3 - $2 > most) most = $3 - $2 }
        END { print NR, "losses", most < 0.02 ? "as of a whole run" : "apart by " most }'
    python3 -c '
import json, sys
steps, begins = {}, 0
for line in map(json.loads, open(sys.argv[1])):
    if line["event"] == "begin":
        begins += 1
        steps = {step: loss for step, loss in steps.items() if step <= line["step"]}
    if line["event"] == "step":
        steps[line["step"]] = line["loss"]
shown = {int(step): float(loss) for step, loss in map(str.split, open(sys.argv[2]))}
apart = [step for step in shown if abs(steps.get(step, 9) - shown[step]) > 0.00006]
print("and so they are in the log" if begins > 2 and not apart else (begins, apart))' $1.jsonl $1.losses
    ls $1/elastic | grep -c member
}
try one member
try other rank
grep -h 'this rank was killed' other-2.txt

echo '# too few'
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 8 -o two.json >/dev/null
plan=two.json steps=60
(member few --least 2) >few.txt 2>&1 & first=$!
for _ in $(seq 600); do grep -q waiting few.txt && break; sleep 0.05; done
(member few) >few-2.txt 2>&1 & second=$!
wait $first; echo "exit $?"
wait $second; echo "exit $?"
grep -h 'waiting\|^weir: epoch' few.txt
echo '# asked to leave; and the plan for those who stay keeps its states as the plan before did'
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us, host 1GiB 2000GB/s' --schedule 1f1b --micro-batches 8 \
    --host optimizer --step-rate 50GB/s -o host.json >/dev/null
plan=host.json steps=100000
(member left) >left-1.txt 2>&1 & first=$!
(member left) >left-2.txt 2>&1 & second=$!
wait_for left 0 1
(member left) >left-3.txt 2>&1 & third=$!  # for whom there is no plan
for _ in $(seq 600); do grep -q 'under way' left-3.txt && break; sleep 0.05; done
leave() { sed -n 's/^weir: \(.*this member .*\)/\1/p' $1 | sed "s/step-[0-9]*/step-N/"; }
kill -TERM $third; wait $third; echo "exit $?"
leave left-3.txt
kill -TERM $first; wait $first; echo "exit $?"
leave left-1.txt
wait_for left $(newest left) 2
echo "$(ranks left) rank"
grep -hE '"(optimizer_on_host|step_bytes_per_second)"' left/elastic/$(sed -n 's/^  "plan": "\(.*\)",\{0,1\}$/\1/p' left/elastic/epoch.json)
kill -TERM $second; wait $second; echo "exit $?"
leave left-2.txt
echo '# some of those that the plan is for'
plan=plan.json steps=60
(member some) >some.txt 2>&1; echo "exit $?"
grep -h "^weir: .*there: the run\|^weir: epoch" some.txt

echo '# what cannot be'
weir train "$model" --data D --plan plan.json --elastic profile.json 2>&1 | head -1
weir train "$model" --data D --plan plan.json --least 2 2>&1 | head -1
weir train "$model" --data D --plan plan.json --checkpoints kept --save-every 1 --elastic plan.json 2>&1; echo "exit $?"
WEIR_RANK=0 WEIR_RANKS=2 WEIR_RENDEZVOUS=meet weir train "$model" --data D --plan plan.json --checkpoints kept \
    --save-every 1 --elastic profile.json 2>&1; echo "exit $?"
weir partition profile.json --cluster '4 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 8 --ranks 4 --replicas 2,2 \
    -o replicas.json >/dev/null
weir train "$model" --data D --plan replicas.json --checkpoints kept --save-every 1 --elastic profile.json 2>&1; echo "exit $?"
