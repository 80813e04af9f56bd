# `weir partition` still takes the options of price, keep, front and bottleneck; two that do not go together are refused in
# one sentence, none is without effect.
{
    echo "node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000"
    for i in 2 3 4 5 6; do
        echo "node$i -- Linear(l$i) -- forward_compute_time=$i.000, backward_compute_time=4.000, activation_size=65536.0, parameter_size=1048576.000"
    done
    for i in 1 2 3 4 5; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done
} > six.txt
weir import pipedream six.txt -o six.json > /dev/null
on() { weir partition six.json --cluster '4 devices, 1GiB, 10GB/s 10us' "$@"; }
plan() { on --schedule 1f1b --micro-batches 8 --optimizer sgd "$@"; }
plan -o plan.json > /dev/null
refuse() {  # the first line alone: argp adds where help is
    "$@" > out 2> said
    echo "exit $?: $(head -1 said)"
    [ ! -s out ] || echo "something on standard output"
}

echo "# of a plan that is given"
for more in '--keep plan.json' '--noise 3%' '--variants auto' --second-opinion; do
    refuse plan --cuts 2,2,1,1 $more
done
refuse plan --evaluate plan.json --noise 3%
refuse plan --evaluate plan.json --devices 3,2,1,0
refuse plan --evaluate plan.json --replicas 2,2
refuse plan --cuts 2,2,2 --replicas 2,2

echo "# of a front"
refuse plan --front --svg - --json
refuse plan --front --svg - -o front.json
refuse plan --front=1,2 --replicas 1,1
refuse plan --front --noise 3%
ls front.json 2>&1

echo "# of another planner's model"
refuse on --model pipedream --pin node1=0
refuse on --model pipedream --cuts 3,3 --recompute 1,1
refuse on --model pipedream --cuts 3,3 --replicas auto
refuse on --model max-load --activation-traffic
refuse on --model tps --cpus 1
refuse weir partition six.json --cluster '4 devices, 1GiB, 10GB/s 10us' --model pipedream --evaluate six.json

echo "# pins that deny each other"
refuse plan --pin node3=0 --pin node3=1

echo "# counts with replicas, and with devices"
plan --replicas 3,1 --devices 3,1,2,0 --json > found.json
cuts=$(sed -n 's/.*"end": \([0-9]*\),/\1/p' found.json | head -1)
plan --cuts $cuts,$((6 - cuts)) --replicas 3,1 --devices 3,1,2,0 --json | cmp - found.json && echo "the plan that was found"
plan --cuts 3,3 --devices 3,1 --json | grep '"devices": \[\['

echo "# more bytes than are ever counted"
{
    for i in 1 2 3 4; do
        echo "node$i -- Linear(l$i) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=562949953421312.0, parameter_size=0.000"
    done
    for i in 1 2 3; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done
} > vast.txt
weir import pipedream vast.txt -o vast.json > /dev/null
for schedule in gpipe 1f1b interleaved zb-v; do
    weir partition vast.json --cluster '2 devices, 16GiB, 1000TB/s 0us' --schedule $schedule --micro-batches 16384 \
        > out 2> said
    echo "exit $?: $(head -1 said)"
done

echo "# actions beyond what can be timed are counted before anything is made of them"
many=(--schedule 1f1b --micro-batches 1000000)
refuse on "${many[@]}"
refuse weir front six.json --cluster '4 devices, 1GiB, 10GB/s 10us' "${many[@]}"
refuse weir price six.json --cuts '[2,2,2]' --cluster '3 devices, 1GiB, 10GB/s 10us' "${many[@]}"
refuse weir keep six.json --plan plan.json "${many[@]}"
