# Layers anywhere on devices of unlike speeds, by GLPK; what it is not for is refused.
if [ ! -x "$WEIR_LIBEXEC/weir-glpk" ]; then
    echo '# skip: weir-glpk is not built here (libglpk-dev)'
    exit 77
fi
cat > small.txt <<'END'
node1 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000.0, parameter_size=1048576.000
node2 -- Linear(b) -- forward_compute_time=4.000, backward_compute_time=8.000, activation_size=1000.0, parameter_size=1048576.000
node3 -- Linear(c) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
END
weir import pipedream small.txt -o profile.json > /dev/null
weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model max-load --scattered
weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model pipedream --scattered; echo "exit $?"
weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model max-load --scattered --json; echo "exit $?"
weir bottleneck profile.json --cluster '2 devices, 1B, 1GB/s 0us' --model max-load --scattered; echo "exit $?"

echo "# Ctrl-C ends the solver too, and the contiguous plan that it began with is left"
mkdir ended
printf '#!/bin/sh\nkill -INT $$\n' > ended/weir-glpk
chmod +x ended/weir-glpk
WEIR_LIBEXEC=$PWD/ended weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model max-load --scattered; echo "exit $?"

echo "# a signal to weir alone ends a solver that does not listen, too"
mkdir deaf
printf '#!/bin/sh\ntrap "" TERM INT\n: > began\nexec sleep 1000\n' > deaf/weir-glpk
chmod +x deaf/weir-glpk
WEIR_LIBEXEC=$PWD/deaf weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model max-load --scattered > alone.txt 2>&1 &
while [ ! -e began ]; do sleep 0.05; done
kill -INT $!
wait $!; echo "exit $?"
tail -1 alone.txt

echo "# and so does the deadline"
WEIR_LIBEXEC=$PWD/deaf weir bottleneck profile.json --cluster '2 devices, 16MiB, 1GB/s 0us' --model max-load --scattered --deadline 100ms | tail -1
