# Dropless experts on two devices with less room than they may need at worst: planned with less memory, run to the same
# bits while there is room, and ended before an update without it; gone on with from there by a plan with more.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=6,capacity=dropless
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
plan() {  # NAME VARIANT OPTIONS OF WEIR PROFILE..
    weir profile $small --rows 2 --experts dealt -o $1.json "${@:3}" >/dev/null || return
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1.json  # a busy machine's would not be trusted, which is said
    rm -f $1.plan
    weir partition $1.json --cluster "4 devices, 1GiB, 5GB/s 2us" --schedule ${schedule:-1f1b} --micro-batches 4 \
        --variants $2,$2 --ranks 2 -o $1.plan >plan.txt || cat plan.txt
}
train() {  # FOLDER PLAN OPTIONS..
    weir train $small --plan $2 --data text --steps 8 --rate 0.01 --checkpoints $1 --keep 9 "${@:3}" >$1.txt 2>$1.err
}
room() {  # of the first layer of experts, in a profile
    python3 - $1 <<'END'
import json, sys
layer = next(one for one in json.load(open(sys.argv[1]))['layers'] if one['name'] == 'block1.experts')
variant = next(one for one in layer['variants'] if one['name'].startswith('rows2:dealt'))
print(sum(value for key, value in variant.items() if key.endswith('_bytes')))
END
}
numbers() { sed 's/[0-9][0-9]*/N/g'; }

plan whole rows2:dealt
train whole whole.plan; echo "exit $?"

# Of 384 choices a device has 192 if all is even. Looks for a number of rows that is too small, but not at first.
least=192 most=383
while ((most - least > 1)); do
    rows=$(((least + most) / 2))
    plan some rows2:dealt:$rows --most-rows $rows 2>/dev/null && rm -rf some && train some some.plan; code=$?
    if ((code == 0)); then most=$rows; elif [ -e some/step-[1-7] ]; then break; else least=$rows; fi
done
(($(room some.json) < $(room whole.json))) && echo "less memory is planned"
echo "exit $code, $(ls some | wc -l) checkpoint"; numbers <some.err | grep -v 'is kept$'
step=$(ls some | sed 's/step-//')
cp -r some more
train more whole.plan --resume; echo "exit $?"
diff -r -x manifest.json whole/step-8 more/step-8 && echo "the same bits as with room from the beginning"
train until whole.plan --steps $step; echo "exit $?"
diff -r -x manifest.json until/step-$step some/step-$step && echo "the bits from before the update"

plan roomy rows2:dealt:383 --most-rows 383
train wild roomy.plan --rate 100,to:100 ||
    echo "gradients that are no numbers end it: $(grep -cE 'no numbers? any more|no update was made' wild.err)"

echo "# in processes"
for ((rank = 0; rank < 4; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir train $small --plan some.plan \
        --data text --steps 8 --rate 0.01 --checkpoints apart --device cpu:queued >rank$rank.txt 2>&1 &
    jobs[rank]=$!
done
for job in ${jobs[*]}; do wait $job; echo "exit $?"; done
grep 'no update' rank3.txt | numbers
diff -r -x manifest.json some/step-$step apart/step-$step && echo "the same bits"

echo "# refused"
weir profile $small --rows 2 --experts dealt --most-rows 193 | numbers; echo "exit ${PIPESTATUS[0]}"
schedule=pipedream plan stash rows2:dealt:$rows --most-rows $rows
train stash stash.plan; echo "exit $?"; cat stash.err
weir profile $small --rows 2 --experts dealt --most-rows 100; echo "exit $?"
weir profile ${small/dropless/2} --rows 2 --experts dealt --most-rows 200; echo "exit $?"
weir profile $small --most-rows 200 2>&1 | sed -n 1p; echo "exit ${PIPESTATUS[0]}"
