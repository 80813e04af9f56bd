# Options of partition, price, keep, front and bottleneck that do not go together are refused in one sentence; none is
# without effect.
{
    echo "node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000"
    for i in 2 3 4 5 6; do
        echo "node$i -- Linear(l$i) -- forward_compute_time=$i.000, backward_compute_time=4.000, activation_size=65536.0, parameter_size=1048576.000"
    done
    for i in 1 2 3 4 5; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done
} > six.txt
weir import pipedream six.txt -o six.json > /dev/null
cluster='4 devices, 1GiB, 10GB/s 10us'
request='--schedule 1f1b --micro-batches 8 --optimizer sgd'
on() { weir partition six.json --cluster "$cluster" "$@"; }
plan() { on $request "$@"; }
price() { weir price six.json --cluster "$cluster" $request "$@"; }
plan -o plan.json > /dev/null
refuse() {  # the first line alone: argp adds where help is
    "$@" > out 2> said
    echo "exit $?: $(head -1 said)"
    [ ! -s out ] || echo "something on standard output"
}
of() { refuse weir $1 six.json --cluster "$cluster" "${@:2}"; }  # COMMAND OPTIONS..

echo "# options of other commands"
for more in '--cuts 2,2,1,1' '--keep plan.json' '--noise 3%' '--front' '--model pipedream'; do
    refuse plan $more
done
refuse plan --for megatron --second-opinion

echo "# of a plan that is given"
of price $request --cuts 2,2,1,1 --variants auto
of partition $request --schedule zb-v --variants auto
of price $request --plan plan.json --devices 3,2,1,0
of price $request --plan plan.json --replicas 2,2
of price $request --cuts 2,2,2 --replicas 2,2

echo "# of a front"
of front $request --svg - --json
of front $request --svg - -o front.json
of front $request --ranks 1,2 --replicas 1,1
ls front.json 2>&1

echo "# of another planner's model"
of bottleneck --model pipedream --pin node1=0
of bottleneck --model pipedream --cuts 3,3 --recompute 1,1
of bottleneck --model pipedream --cuts 3,3 --replicas auto
of bottleneck --model max-load --activation-traffic
of bottleneck --model tps --cpus 1
of bottleneck --model pipedream --plan six.json

echo "# pins that deny each other"
refuse plan --pin node3=0 --pin node3=1

echo "# counts with replicas, and with devices"
plan --replicas 3,1 --devices 3,1,2,0 --json > found.json
cuts=$(sed -n 's/.*"end": \([0-9]*\),/\1/p' found.json | head -1)
price --cuts $cuts,$((6 - cuts)) --replicas 3,1 --devices 3,1,2,0 --json | cmp - found.json && echo "the plan that was found"
price --cuts 3,3 --devices 3,1 --json | grep '"devices": \[\['

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
