# `weir import pipedream` makes a profile, and says in one sentence, with file and
# line and exit code 2, what is wrong with a file that is none.
exec 2>&1
node() { # NAME DESCRIPTION FORWARD BACKWARD ACTIVATION PARAMETERS
    echo "$1 -- $2 -- forward_compute_time=$3, backward_compute_time=$4, activation_size=$5, parameter_size=$6"
}
edge() { printf '\t%s -- %s\n' "$1" "$2"; }

{ node node1 Input0 0.000 0.000 64.0 0.000; node node2 'Linear(4, 4)' 1.000 2.001 64.0 80.000
  edge node1 node2; } > good.graph.txt
weir import pipedream good.graph.txt -o profile.json; echo "exit $?"
weir import pipedream good.graph.txt | cmp - profile.json
weir import pipedream --micro-batch 128 - < good.graph.txt | grep micro_batch
cat profile.json
weir profile --lint profile.json; echo "exit $?"

try() { weir import pipedream "$1" -o none.json; echo "exit $?"; }
: > empty.txt; try empty.txt
mkdir folder; try folder
try nowhere.txt
head -c 90 good.graph.txt > truncated.txt; try truncated.txt
printf '\177ELF\002\001\000\000' > binary.txt; try binary.txt
node node1 ReLU -1.000 2.000 64.0 0.000 > negative.txt; try negative.txt
node node1 ReLU nan 2.000 64.0 0.000 > nan.txt; try nan.txt
echo 'node1 -- ReLU -- forward_compute_time=1.000' > missing.txt; try missing.txt
{ node node1 A 1.000 2.000 64.0 0.000; node node1 B 1.000 2.000 64.0 0.000; } > repeated.txt; try repeated.txt
{ node node1 A 1.000 2.000 64.0 0.000; edge node1 node7; } > unknown.txt; try unknown.txt
{ node node1 A 1.000 2.000 64.0 0.000; node node2 B 1.000 2.000 64.0 0.000; edge node1 node2; edge node2 node1
} > cycle.txt; try cycle.txt
{ node node1 A 1.000 2.000 64.0 0.000; node node2 B 1.000 2.000 64.0 0.000; echo 'node1 -- node2'
} > indentation.txt; try indentation.txt
echo '{"layers": []}' > json.txt; try json.txt
test -e none.json && echo "a refused file left a profile"
weir import caffe good.graph.txt; echo "exit $?"
weir import pipedream good.graph.txt --cluster-output c.json; echo "exit $?"
exit 0
