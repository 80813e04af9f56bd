# What `weir partition` was asked for once is asked of commands of their own now; the old spelling does the same.
for i in 1 2 3 4 5 6; do
    echo "node$i -- Linear(l$i) -- forward_compute_time=$i.000, backward_compute_time=4.000, activation_size=65536.0, parameter_size=1048576.000"
done > six.txt
for i in 1 2 3 4 5; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done >> six.txt
weir import pipedream six.txt -o six.json > /dev/null
cluster='4 devices, 1GiB, 10GB/s 10us'
weir partition six.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 --optimizer sgd -o plan.json > /dev/null

same() {  # OLD OPTIONS -- COMMAND NEW OPTIONS
    local old=()
    while [ "$1" != -- ]; do old+=("$1"); shift; done
    shift
    rm -f *.svg
    weir partition six.json --cluster "$cluster" "${old[@]}" > old.out 2> old.err; echo $? >> old.out
    [ ! -e picture.svg ] || mv picture.svg old.svg
    weir "$1" six.json --cluster "$cluster" "${@:2}" > new.out 2> new.err; echo $? >> new.out
    [ ! -e old.svg ] || cmp old.svg picture.svg
    cmp old.out new.out && cmp old.err new.err && echo "partition ${old[*]} = ${*}: $(wc -l < new.out) lines, exit $(tail -1 new.out)"
}
request="--schedule 1f1b --micro-batches 8 --optimizer sgd"
same --evaluate plan.json -- price --plan plan.json
same --evaluate plan.json --memory 1MiB -- price --plan plan.json --memory 1MiB
same $request --cuts 2,2,1,1 --recompute 1,0,0,0 --json -- price $request --cuts 2,2,1,1 --recompute 1,0,0,0 --json
same $request --cuts 4,2 --replicas 3,1 -- price $request --cuts 4,2 --replicas 3,1
same $request --keep plan.json --gain 5% -- keep $request --plan plan.json --gain 5%
same $request --noise 5% --draws 5 --seed 3 --robust -- keep $request --noise 5% --draws 5 --seed 3 --robust
same $request --front --resolution 10% --svg picture.svg -- front $request --resolution 10% --svg picture.svg
same $request --front=1,3 --json -- front $request --ranks 1,3 --json
same --model pipedream --straight --json -- bottleneck --model pipedream --straight --json
same --model pipedream --cuts 5,1 --replicas 3,1 -- bottleneck --model pipedream --cuts 5,1 --replicas 3,1
same --model pipedream --evaluate plan.json -- bottleneck --model pipedream --plan plan.json
same --model max-load --cpus 1 -- bottleneck --model max-load --cpus 1

echo "# and takes what its options leave out from the plan"
weir keep six.json --plan plan.json --json 2> /dev/null | cmp - plan.json && echo "the plan"
weir keep six.json --plan plan.json --micro-batches 4 | tail -1
weir price six.json --cluster "$cluster" $request --cuts 3,3 --replicas 1,3 -o replicas.json > /dev/null
weir keep six.json --plan replicas.json | tail -1
weir partition six.json --cluster "$cluster" $request --replicas auto | grep -o 'takes [0-9.]* ms,'
weir keep six.json --plan replicas.json --replicas 1,3 | tail -1
weir keep six.json --plan replicas.json --schedule zb-h1 | tail -1
sed 's/"node6[^"]*"/"other"/' six.json > renamed.json
weir keep renamed.json --plan replicas.json | tail -1

echo "# what is missing is said in the command's own words"
try() { weir "$@" 2>&1 | head -1; }
try price six.json
try price six.json --cuts 6
try price six.json --plan plan.json --cuts 6
try price six.json --plan plan.json --devices 3,2,1,0
try price six.json --plan plan.json --variants auto
try keep six.json
try keep six.json --noise 3%
try keep six.json --plan plan.json --robust
try keep six.json --plan plan.json --noise 3% --robust
try front six.json --cluster "$cluster" $request --ranks 2,1
try front six.json --cluster "$cluster" $request --ranks 1,2 --replicas 1,1
try front six.json --cluster "$cluster" $request --svg - --json
try bottleneck six.json --cluster "$cluster"
try bottleneck --model tps --cluster "$cluster"
try bottleneck six.json --model tps --cluster "$cluster" --schedule 1f1b
try bottleneck six.json --model tps --cluster "$cluster" --chunks 2
