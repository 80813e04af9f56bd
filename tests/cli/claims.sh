# What is said to be proved is: rows of a sweep over models with branches, certificates that somebody has edited, orders that
# lack an action.
layer() {  # name, ns of F
    cat << END
    {"name": "$1", "kind": "x", "forward_ns": $2, "backward_input_ns": $2, "backward_weight_ns": $2, "parameter_bytes": 256,
     "output_bytes": 256, "saved_bytes": 256, "input_kept": "both", "held_for_weight_bytes": 0, "workspace_bytes": 0,
     "backward_workspace_bytes": 0, "flops": 0}
END
}
# Branches of 1, 2 and 1 ms: in the profile's own order no cut is even.
cat > profile.json << END
{"format": "weir.profile", "version": 1, "model": "branches", "micro_batch": 1, "dtype": "fp32",
 "source": {"how": "estimated", "device": "", "clock": "", "repeats": 1, "sum_ns": 0, "whole_ns": 0, "backward_split": "assumed"},
 "layers": [$(layer in 1000), $(layer a 1000000), $(layer b 2000000), $(layer c 1000000), $(layer out 1000)],
 "edges": [[0, 1], [0, 2], [0, 3], [1, 4], [2, 4], [3, 4]]}
END
asked() { weir "$1" profile.json --cluster "2 devices, 1GiB, 100GB/s 0us" --schedule 1f1b --micro-batches 8 "${@:2}"; }
echo "# a sweep and a partition say the same"
asked partition -o plan.json | tail -1 | grep -o 'An iteration takes [^,]*\|Proved optimal'
asked sweep --csv | cut -d, -f1,6-10,15
echo "# of another schedule it says what the search says"
weir sweep profile.json --cluster "2 devices, 1GiB, 100GB/s 0us" --schedules gpipe,zb-h1 --micro-batches 4,8 --csv | cut -d, -f1,6-10,15
echo "# a layer that is pinned keeps to the profile's own order, and then nothing is proved"
asked partition --pin a=0 | grep -o 'Proved.*\|It is at most.*'

echo "# a certificate that somebody has edited"
weir check plan.json --profile profile.json; echo "exit $?"
weir check plan.json --profile profile.json --prove; echo "exit $?"
asked price --cuts "[3,2]" -o slow.json > /dev/null
sed 's/"lower_bound_ns": .*/"lower_bound_ns": 72026016,/; s/"gap": .*/"gap": 0.000000,/; s/"proved": .*/"proved": true,/' slow.json > forged.json
weir check forged.json --profile profile.json; echo "exit $?"
weir check forged.json --profile profile.json --prove; echo "exit $?"
weir explain forged.json --profile profile.json | sed -n '1,2p'
sed 's/"lower_bound_ns": .*/"lower_bound_ns": 60000000,/; s/"gap": .*/"gap": 0.166968,/' slow.json > bound.json
weir check bound.json --profile profile.json --prove; echo "exit $?"
sed 's/"stopped": ""/"stopped": "interrupted"/' plan.json > contradicts.json
weir check contradicts.json --profile profile.json 2>&1; echo "exit $?"
sed 's/"lower_bound_ns": .*/"lower_bound_ns": 54027049,/' plan.json > above.json
weir explain above.json --profile profile.json 2>&1; echo "exit $?"
weir check plan.json --prove 2>&1 | head -1
weir check plan.json --profile profile.json --budget 5 2>&1 | head -1
echo "# explain says what it has proved itself, in as much work as it has, and no more"
weir explain plan.json --profile profile.json --budget 1 | sed -n '1,2p'

echo "# an order that lacks an action has no numbers"
weir schedule zb-h1 --ranks 2 --micro-batches 4 --format json > order.json
sed 's/ 0W3//' order.json > no-w.json
sed 's/ 1I2 / /; s/ 1W2 / /' order.json > no-b.json
weir schedule zb-h1 --ranks 2 --micro-batches 4 --format csv 2> left-out.txt | sed 's/0W3//' > no-w.csv
weir simulate order.json --cost 2,2,1,0 | head -2
weir simulate order.json --cost 2,2,1,0 --format trace > trace.json
numbers() {  # whatever makes numbers, or another file, of a schedule
    for ask in "simulate --cost 2,2,1,0" "simulate --cost 2,2,1,0 --json" "simulate --cost 2,2,1,0 --format svg" \
        "simulate --cost 2,2,1,0 --format html" "simulate --cost 2,2,1,0 --format trace" "simulate --unit-steps" \
        "schedule" "schedule --format json" "schedule --format csv"; do
        set -- "$1" $ask
        weir "$2" "$1" "${@:3}"; echo "exit $?"
    done
    weir simulate order.json --cost 2,2,1,0 --against "$1"; echo "exit $?"
    weir simulate plan.json --schedule "./$1"; echo "exit $?"
    weir partition profile.json --cluster "2 devices, 1GiB, 100GB/s 0us" --schedule "./$1"; echo "exit $?"
    weir compare "$1" trace.json --cost 2,2,1,0; echo "exit $?"
}
for file in no-w.json no-b.json no-w.csv; do
    weir check $file > found.txt; echo "check: exit $?"
    grep 'is missing' found.txt
    numbers $file 2>&1 | sort | uniq -c
done

echo "# a model without sequences is offered nothing that cuts them"
weir sweep profile.json --cluster "2 devices, 1GiB, 100GB/s 0us" --csv | cut -d, -f1 | sort -u | grep seq
asked sweep --schedules seq1f1b --csv | cut -d, -f7,20-
weir partition profile.json --cluster "2 devices, 1GiB, 100GB/s 0us" --schedule seq1f1b --micro-batches 8 2>&1; echo "exit $?"
sed 's/"version": 1, "model"/"version": 1, "sequences": true, "model"/' profile.json > sequences.json
weir partition sequences.json --cluster "2 devices, 1GiB, 100GB/s 0us" --schedule seq1f1b --micro-batches 8 | grep -c 'An iteration takes'
