# `weir schedule search` prints the best order, a bound and the gap; what it writes can run.
search="weir schedule search --ranks 3 --micro-batches 4 --cost 3us,4us,2us,1us --keep 100B,60B --memory 300B"
$search
$search --json | weir check - | head -1
$search --json | grep notes
$search --objective makespan | sed -n 2,4p
weir schedule search --ranks 3 --micro-batches 4 --cost 3us,4us,2us,1us --keep 100B,60B --memory 99B 2>&1; echo "exit $?"
weir schedule search --ranks 3 --micro-batches 4 2>&1 | head -1
