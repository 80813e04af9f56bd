# `weir keep` stays with a plan unless a new one gains enough; --noise says what it loses when times vary; both the same every time.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=1.000, backward_compute_time=1.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.100, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(c) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node5 -- Linear(d) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
	node4 -- node5
END
weir import pipedream small.txt -o profile.json > /dev/null
at=(--cluster '2 devices, 16MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --optimizer sgd)
plan() { weir partition "$@" "${at[@]}"; }
keep() { weir keep "$@" "${at[@]}"; }
exec 2>&1
last() { tail -1; }

echo "# kept as it is"
plan profile.json -o plan.json > /dev/null
keep profile.json --plan plan.json | last
keep profile.json --plan plan.json --json 2> said | cmp - plan.json && cat said

echo "# another measurement, and the best cut moves"
weir import pipedream <(sed '/^node2/s/forward_compute_time=1/forward_compute_time=5/' small.txt) -o other.json > /dev/null
plan other.json -o new.json > /dev/null
keep other.json --plan plan.json --gain 50% -o kept.json | last
layers() { sed -n 's/^ *"layers": //p' "$1" | tr '\n' ' '; echo; }
layers plan.json; layers kept.json; layers new.json
keep other.json --plan plan.json --gain 3% | last
keep other.json --plan kept.json --gain 50% --json 2> /dev/null | cmp - kept.json && echo "the same bytes"

echo "# what cannot be kept"
keep profile.json --plan new.json --gain 90% --memory 7MiB | last
weir import pipedream <(sed 's/Linear(d)/x/; s/node5/last/' small.txt) -o renamed.json > /dev/null
keep renamed.json --plan plan.json | last
keep profile.json --plan plan.json --memory 1MiB 2>&1 | head -1 | cut -c 1-18
keep profile.json --plan nowhere.json; echo "exit $?"

echo "# noise, where two cuts are nearly as good"
weir import pipedream <(sed '/^node2/s/forward_compute_time=1.0/forward_compute_time=4.5/' small.txt) -o tie.json > /dev/null
keep tie.json --noise 3% --draws 40 | last
keep tie.json --noise 3% --draws 40 --seed 2 --gain 3% | last
keep tie.json --noise 3% --draws 40 --robust --json 2> said > first.json
keep tie.json --noise 3% --draws 40 --robust --json 2> /dev/null | cmp - first.json && cat said
weir check first.json --profile tie.json

echo "# noise of layers that were measured: as they were measured to, or as much as is asked for"
measured() { python3 -c "
import json
profile = json.load(open('tie.json'))
for layer in profile['layers'][:$1]:
    layer['spread'] = {'forward': [int(layer['forward_ns'] * share) for share in (.99, 1, 1.02)]}
json.dump(profile, open('measured.json', 'w'))"; }
measured 5
for noise in 3% 10% spread; do keep measured.json --noise $noise --draws 20 | last; done
measured 2
for noise in spread spread,3%; do keep measured.json --noise $noise --draws 20 | last; done

echo "# usage"
keep profile.json --noise spread; echo "exit $?"
try() { keep profile.json "$@" | head -1; }
try --noise 3
try --noise spread,x
try --noise spreads
try --draws 5
try --gain 2%
try --plan plan.json --gain x
try --plan plan.json --noise 3% --robust
