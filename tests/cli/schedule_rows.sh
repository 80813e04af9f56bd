# `weir schedule` prints a row per rank, and refuses in a sentence what it cannot generate.
weir schedule 1f1b --ranks 2 --micro-batches 3
weir schedule gpipe --ranks 2 --micro-batches 2
(weir schedule zigzag --ranks 2 --micro-batches 3 2>&1; echo "exit $?") | sed 's/1f1b, .*)/1f1b, ...)/'
weir schedule 1f1b --ranks 0 --micro-batches 3 2>&1 | head -1
weir schedul 2>&1; echo "exit $?"
weir schedule seq1f1b --ranks 2 --micro-batches 2 --splits 2
weir schedule pipedream --replicas 2,1 --micro-batches 3
weir schedule pipedream --replicas 2,x --micro-batches 3 2>&1 | head -1
weir schedule dualpipev --ranks 2 --micro-batches 3 2>&1; echo "exit $?"
