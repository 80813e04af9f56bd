# Plans that were made by hand get our prices: as counts, as a document, as a plan that was changed; what is wrong with them is one sentence.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
END
weir import pipedream small.txt -o profile.json > /dev/null
price() { weir price profile.json "$@"; }
at=(--cluster '2 devices, 16MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --optimizer sgd)
request() { price "${at[@]}" "$@"; }
exec 2>&1

# What the table says is tested elsewhere.
distance() { "$@" | tail -1; }

echo "# counts"
request --cuts "[3,1]" --recompute "[2,0]" | grep -E 'runs again|node|slower'
distance request --cuts 2,2
request --cuts 3,1 --json > hand.json; grep -A8 '"certificate"' hand.json
request --cuts 3,1 --memory 4400KiB > /dev/null; echo "exit $?"

echo "# a plan of ours, and one that was changed"
weir partition profile.json "${at[@]}" -o plan.json > /dev/null
price --plan plan.json --json | cmp - plan.json && echo "the same bytes"
distance price --plan plan.json
distance price --plan plan.json --micro-batches 4
sed 's/"kept_bytes": [0-9]*/"kept_bytes": 1/; s/"iteration_ns": [0-9]*/"iteration_ns": 7/' plan.json > changed.json
price --plan changed.json > changed.out; echo "exit $?"

echo "# a document by hand"
echo '{"stages": [{"layers": ["node1.Input", "node2.Linear"], "recompute": [["node1.Input", "node2.Linear"]]}, {"layers": 2}]}' > hand.json
distance request --plan hand.json
price --plan hand.json; echo "exit $?"
price --plan hand.json --cluster '2 devices, 16MiB, 10GB/s 10us'; echo "exit $?"

echo "# mistakes"
try() { "$@" | tail -1; echo "exit ${PIPESTATUS[0]}"; }
try request --cuts 2,1
try request --cuts 2,1,1
try request --cuts 2,2 --recompute 3,0
try request --recompute 1,1
try request --cuts 2,2 --plan plan.json
try price --cuts 2,2
sed 's/"node4[^"]*"/"node5"/' plan.json > unknown.json
try price --plan unknown.json
weir import pipedream <(sed 's/forward_compute_time=2.0/forward_compute_time=9.0/' small.txt) -o other.json > /dev/null
try weir price other.json --plan plan.json
weir import pipedream <(sed 's/node4/last/' small.txt) -o other.json > /dev/null
try weir price other.json --plan plan.json

echo "# beside the best with replicas where it has some, and devices where they are not the first"
three() { weir ${command:-price} profile.json --cluster '4 devices, 16MiB, 10GB/s 10us' --ranks 3 --schedule 1f1b --micro-batches 8 --optimizer sgd "$@"; }
echo '{"stages": [{"layers": 3, "devices": [0, 1]}, {"layers": 1, "devices": [2]}]}' > replicas.json
distance three --plan replicas.json
echo '{"stages": [{"layers": 3, "devices": [0]}, {"layers": 1, "devices": [1, 2]}]}' > worse.json
distance three --plan worse.json
echo '{"stages": [{"layers": 3, "devices": [3]}, {"layers": 1, "devices": [1]}]}' > moved.json
distance three --ranks 2 --plan moved.json
command=partition three --replicas auto --json | sed -n 's/.*"iteration_ns": //p'

echo "# with layers that are pinned"
distance request --cuts 2,2 --pin node3=1
request --cuts 2,2 --pin node3=0; echo "exit $?"
price --plan plan.json --pin node1=1; echo "exit $?"
distance three --plan worse.json --pin node4=1
