# GLPK's opinion stands below the plan; without GLPK there is a sentence that says so.
if [ ! -x "$WEIR_LIBEXEC/weir-glpk" ]; then
    echo '# skip: weir-glpk is not built here (libglpk-dev)'
    exit 77
fi
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
ask() { weir partition profile.json --cluster '2 devices, 16MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --second-opinion 2>&1; }
ask | tail -2
mkdir elsewhere
cp "$(command -v weir)" elsewhere/weir
WEIR_LIBEXEC=/nonexistent elsewhere/weir partition profile.json --cluster '2 devices, 16MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --second-opinion 2>&1 > /dev/null; echo "exit $?"
echo "# standard output is for the document alone"
weir partition profile.json --cluster '2 devices, 16MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --second-opinion --json 2> said | tail -1
head -c 14 said; echo
weir partition profile.json --cluster '2 devices, 16MiB, 10GB/s 10us' --schedule zb-v --micro-batches 8 --second-opinion 2>&1 > /dev/null; echo "exit $?"
