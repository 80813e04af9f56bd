# Layers of experts that are cut where their devices exchange rows. Each exchange is a message from a rank to itself,
# beside which another pass computes, with the bits of a sequential run.
exec 2>&1
small=width=32,heads=4,sequence=32,micro_batch=5,dropout=0.1,exchange
profile() {  # PROFILE MODEL OPTIONS..
    weir profile "$2" "${@:3}" -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1
}
plan() {  # PLAN PROFILE SCHEDULE RANKS VARIANT OPTIONS..
    rm -f $1
    weir partition $2 --cluster "16 devices, ${memory:-1GiB}, 5GB/s 2us" --schedule $3 --ranks $4 --micro-batches 4 \
        --variants $5 -o $1 "${@:6}" >plan.txt || cat plan.txt
}
# PLAN PROFILE SCHEDULE RANKS SEGMENTS STAGES VARIANT OPTIONS..
plan_cut() {
    local i list=$7
    for ((i = 1; i < $6; i++)); do list=$list,$7; done
    weir schedule $3 --ranks $4 --micro-batches 4 --segments $5 --format json -o order.json
    plan $1 $2 order.json $4 $list "${@:8}"
}
run() { weir verify "$@" 2>&1 | tail -n 1 | sed 's/: pipeline and.*//'; }

for row in 1.25:blocks dropless:dealt 1:0+1+1+0+1+1+0+0/1+0+0+0+0+0+0+1 dropless:0+*+1+0+1+*+0+1; do
    IFS=: read -r capacity places <<<$row
    echo "# capacity $capacity, experts $places"
    profile two.json gpt-moe-nano,blocks=4,$small,capacity=$capacity --rows 2 --experts $places
    for schedule in gpipe 1f1b zb-h1 zb-h2 dualpipe chimera; do
        plan_cut plan.json two.json $schedule 2 3 6 rows2:$places
        echo "$schedule: $(run plan.json)"
    done
done

echo "# four layers of experts"
profile four.json gpt-moe-nano,blocks=8,$small,shared=1,router=deepseek,groups=4/2,swiglu --rows 4 --experts dealt
for schedule in interleaved zb-v v-min dualpipev hanayo; do
    plan_cut plan.json four.json $schedule 2 3 12 rows4:dealt
    echo "$schedule: $(run plan.json)"
done
plan_cut plan.json four.json zb-h1 2 5,3 10 rows4:dealt
echo "two layers of experts to a stage, three passes in turns: $(run plan.json) $(run plan.json --batch 17)"
plan plan.json four.json interleaved 2 rows4:dealt,rows4:dealt,rows4:dealt,rows4:dealt
echo "exchanged within their stages: $(run plan.json)"

echo "# clipped, recomputed, and by devices of their own"
plan_cut plan.json two.json dualpipe 2 3 6 "rows2:$places"
echo "clipped: $(run plan.json --clip 0.1)"
memory=2350KiB plan_cut again.json two.json gpipe 2 3 6 "rows2:$places"
grep -q '\["block' again.json && echo "layers that are recomputed: $(run again.json)"
profile 16bit.json gpt-moe-nano,blocks=4,$small --device cpu:bf16 --rows 2 --experts dealt
plan_cut half.json 16bit.json zb-h1 2 3 6 rows2:dealt --optimizer adamw-master
echo "in bf16 and fp16: $(run half.json --device cpu:bf16) $(run half.json --device cpu:fp16)"
queues=cpu:queued,cpu:queued
echo "on queues that run ahead: $(run plan.json --device cpu:queued), on one for each: $(run plan.json --device $queues,$queues)"
together() {  # PROCESSES COMMAND..
    for ((rank = 0; rank < $1; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$1 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    wait
}
together 4 weir verify plan.json --device cpu:queued
echo "in processes: $(tail -n 1 rank0.txt | sed 's/: pipeline and.*//')"
echo "# a member that is killed ends all others, by its name, wherever rows are exchanged"
until_soon() { local tries; for ((tries = 0; tries < 2400; tries++)); do "$@" && return; sleep 0.05; done; false; }
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
(
    profile killed.json gpt-moe-nano,blocks=4,$small --rows 2 --experts dealt
    plan_cut segments.json killed.json zb-h1 2 3 6 rows2:dealt
    plan within.json killed.json zb-h1 2 rows2:dealt,rows2:dealt
    for plan in segments within; do
        for rank in 0 1 2 3; do
            WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet weir train \
                gpt-moe-nano,blocks=4,$small --plan $plan.json --data text --steps 1000000 --device cpu:queued \
                >killed$rank.txt 2>killed$rank.err &
            pids[$rank]=$!
        done
        until_soon grep -q "^step" killed0.txt
        kill -9 ${pids[3]}
        for rank in 0 1 2; do
            wait ${pids[$rank]}
            echo "exit $?, $(tail -n 1 killed$rank.err | sed 's/process [0-9]* on .*)/process N on HOST)/')"
        done
    done
) 2>/dev/null

# Where there are no such parts, nothing is said.
played=$WEIR_BUILD/tests/weir_cuda/played
profile tiny.json gpt-moe-nano,blocks=2,width=16,heads=2,sequence=8,micro_batch=2,exchange --rows 2 --experts dealt
plan_cut tiny.plan tiny.json gpipe 1 3 3 rows2:dealt
for device in cuda cuda:0,cuda:1; do
    [ ! -e $played/weir-cuda.so ] || PLAYED_GPUS=2 WEIR_PLUGINS=$played run tiny.plan --device $device | grep -v '^equal'
done

echo "# trained to the same bits by another order, as planned"
model=gpt-moe-nano,blocks=4,$small,capacity=dropless
profile one.json $model --rows 2 --experts blocks,dealt
train() {  # FOLDER
    weir train $model --plan $1.json --data text --steps 6 --checkpoints $1 --save-every 3 --resume >$1.txt 2>$1.err ||
        cat $1.err
    awk -v name=$1 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
}
plan_cut turns.json one.json 1f1b 2 3 6 rows2:blocks
plan_cut resumed.json one.json zb-h1 2 3 6 rows2:dealt
plan within.json one.json 1f1b 2 rows2:dealt,rows2:dealt
train turns
sed -n '/experts in the last/,$p' turns.txt | sed 's/[0-9][0-9]*\.[0-9][0-9]*/N/g; s/  */ /g'
train within
mkdir resumed && cp -r turns/step-3 resumed
train resumed
for folder in within resumed; do
    diff -r -x manifest.json turns/step-6 $folder/step-6 && echo "$folder: the same bits"
done

echo "# refused"
plan_cut plan.json four.json 1f1b 2 3 6 rows4:dealt
plan plan.json one.json tables-ahead 1 rows2:dealt,rows2:dealt
weir profile $model --rows 2 --experts dealt --most-rows 400; echo "exit $?"
exit 0
