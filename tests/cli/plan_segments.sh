# `weir partition --segments` cuts a schedule where devices exchange rows of experts: a plan as by the file of that
# order. Then what its other commands say of it, and what is refused.
exec 2>&1
numbers() {  # NS OUTPUT_BYTES
    echo "\"forward_ns\": $1, \"backward_input_ns\": $1, \"backward_weight_ns\": $1, \"backward_ns\": $((2 * $1)),"
    echo "\"recompute_ns\": $1, \"parameter_bytes\": 4096, \"output_bytes\": $2, \"saved_bytes\": 8192,"
    echo "\"input_kept\": \"both\", \"flops\": 0, \"held_for_weight_bytes\": 4096, \"workspace_bytes\": 0, \"backward_workspace_bytes\": 0"
}
layer() {  # NAME KIND NS OUTPUT_BYTES EXCHANGE_NS
    echo "{\"name\": \"$1\", \"kind\": \"$2\", $(numbers $3 $4), \"variants\": [{\"name\": \"rows2:dealt\", \"devices\": 2,"
    echo "\"shares_output\": true, \"communication_ns\": $5, $(numbers $(($3 / 2)) $(($4 / 2)))}]}"
}
profile() {  # BLOCKS
    cat <<END
{"format": "weir.profile", "version": 1, "model": "made-up,exchange", "micro_batch": 1, "dtype": "fp32",
 "source": {"how": "estimated", "device": "", "clock": "", "repeats": 1, "sum_ns": 0, "whole_ns": 0, "backward_split": "assumed"},
 "layers": [$(
    for ((i = 0; i < $1; i++)); do
        layer block$i.attention attention $((400000 + 100000 * i)) 4096 0 && echo ,
        layer block$i.router router 100000 12288 0 && echo ,
        layer block$i.experts products 600000 12288 150000 && echo ,
        layer block$i.combine combine 60000 4096 150000 && echo ,
    done
    layer head head 300000 4096 0
 )]}
END
}
profile 4 >four.json
profile 3 >three.json
v=rows2:dealt
cluster=(--cluster "8 devices, 1GiB, 10GB/s 1us")
plan() { weir partition "$1" "${cluster[@]}" --micro-batches ${batches:-8} "${@:2}"; }
last() { grep -o 'An iteration takes [^,]*\|Proved optimal' | tr '\n' ' '; echo; }
times() {  # N VARIANT: it, N times, with commas
    local all=$2
    for ((i = 1; i < $1; i++)); do all=$all,$2; done
    echo $all
}

echo "# as by the file of the order, and beside exchanges within stages"
for row in gpipe:4:3:4 1f1b:2:5:2 zb-h1:4:3:4 dualpipe:4:3:4 chimera:2:5:2 zb-v:2:3:4 interleaved:2:3:4 dualpipev:2:3:4; do
    IFS=: read -r schedule ranks segments stages <<<$row
    weir schedule $schedule --ranks $ranks --micro-batches 8 --segments $segments --format json -o order.json
    plan four.json --schedule order.json --ranks $ranks --variants $(times $((stages * segments)) $v) -o file.plan | last
    plan four.json --schedule $schedule --ranks $ranks --variants $(times $stages $v) --segments auto --json | cmp - file.plan
    plan four.json --schedule $schedule --ranks $ranks --variants $(times $stages $v) --segments $segments --json | cmp - file.plan
    echo "$schedule: $segments segments; within: $(plan four.json --schedule $schedule --ranks $ranks --variants $(times $stages $v) | last)"
done
at=(--schedule 1f1b --ranks 2 --variants $v,$v)
echo "one, two and three passes in turns:"
for open in 1 2 3; do plan four.json "${at[@]}" --segments auto,$open | last; done
echo "not cut, by other devices, from a file, and of tables:"
plan four.json "${at[@]}" --segments 1 --json | cmp - <(plan four.json "${at[@]}" --json)
plan four.json "${at[@]}" --segments auto --devices 3,2,1,0 | grep -E '^ +[0-9]+ +block.*rows2'
plan four.json --schedule interleaved --ranks 2 --variants $v,$v,$v,$v --segments auto --devices 4,5,3,2 |
    sed -nE 's/^ +[0-9]+ +(block[01]\.experts +[0-9][,-][0-9]) .*/\1/p'
plan four.json --schedule 1f1b --ranks 2 --segments 5 -o whole.plan | last
weir schedule 1f1b --ranks 2 --micro-batches 8 --format json -o plain.json
plan four.json --schedule plain.json --variants $v,$v --segments auto | last
sed 's/"products"/"exchange"/; s/"combine"/"mlp"/' three.json >tables.json
plan tables.json --schedule gpipe --ranks 1 --variants $v --segments auto | grep -E '^ +[0-9]+ +block.*rows2'

echo "# what other commands say of it"
plan four.json "${at[@]}" --segments auto -o plan.json | grep -E '^ +[0-9]+ +block'
weir check plan.json --profile four.json --prove
weir price four.json --plan plan.json | tail -n 1
weir keep four.json --plan plan.json | tail -n 1
weir explain plan.json --profile four.json | sed -n '/^Small steps/,/^$/p'
weir front four.json "${cluster[@]}" "${at[@]}" --micro-batches 8 --segments auto --ranks 2 | grep -c proved
weir simulate plan.json --width 100 | grep -E '^time|exchanges'
plan four.json --schedule interleaved --ranks 2 --variants $v,$v,$v,$v -o chunks.plan | last
weir keep four.json --plan chunks.plan | tail -n 1

echo "# refused"
refuse() { "$@" 2>&1 | sed -n 1p; echo "exit ${PIPESTATUS[0]}"; }
refuse plan four.json "${at[@]}" --segments 3
refuse plan three.json "${at[@]}" --segments auto
refuse plan three.json --schedule 1f1b --ranks 3 --variants $v,$v --segments auto
refuse plan four.json "${at[@]}" --segments automatic
refuse plan four.json "${at[@]}" --segments auto,0
refuse plan four.json --schedule pipedream --ranks 2 --segments auto
refuse plan four.json --schedule order.json --ranks 2 --segments auto
refuse plan four.json --schedule 1f1b --ranks 2 --segments auto --replicas 1,1
sed 's/"products"/"mlp"/; s/"combine"/"mlp"/; s/made-up,exchange/made-up/' three.json >dense.json
refuse plan dense.json "${at[@]}" --segments auto
refuse weir bottleneck four.json "${cluster[@]}" --model tps --segments auto
