# price, keep, front and bottleneck: what they take from a plan, and what they say is missing.
for i in 1 2 3 4 5 6; do
    echo "node$i -- Linear(l$i) -- forward_compute_time=$i.000, backward_compute_time=4.000, activation_size=65536.0, parameter_size=1048576.000"
done > six.txt
for i in 1 2 3 4 5; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done >> six.txt
weir import pipedream six.txt -o six.json > /dev/null
cluster='4 devices, 1GiB, 10GB/s 10us'
weir partition six.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 --optimizer sgd -o plan.json > /dev/null

request="--schedule 1f1b --micro-batches 8 --optimizer sgd"

echo "# what the options leave out is taken from the plan"
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
