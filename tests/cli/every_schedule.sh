# Every schedule down the whole road: planned for two devices, run, and held against
# what one processor computes. One that only goes forward trains nothing.
weir profile "gpt-nano,width=16,blocks=3,heads=2,sequence=64,micro_batch=4" -o profile.json >/dev/null
for schedule in gpipe 1f1b pipedream vertical pipedream-2bw interleaved looped-bfs zb-h1 zb-h2 interleaved-zb \
    zb-v v-half v-min chimera dualpipe dualpipev hanayo seq1f1b forward-only; do
    weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule $schedule --micro-batches 8 \
        -o plan.json >/dev/null
    echo "$schedule: $(weir verify plan.json 2>&1 | tail -1)"
done
weir train "gpt-nano,width=16,blocks=3,heads=2,sequence=64,micro_batch=4" --plan plan.json \
    --data /usr/share/common-licenses 2>&1 || echo "exit $?"
