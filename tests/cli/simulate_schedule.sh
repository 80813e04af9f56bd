# `weir simulate` says what a schedule takes: in words, as its document, as SVG, as a trace.
exec 2>&1
weir schedule 1f1b --ranks 4 --micro-batches 8 --format json > 1f1b.json
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --keep 1MiB,0B
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --json
# The first row of the zero-bubble paper's table, to the microsecond.
weir schedule 1f1b --ranks 8 --micro-batches 24 --format json |
    weir simulate - --cost 18522us,18086us,9337us,601us --json | grep max_span
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --format svg -o chart.svg && grep -c '<title>' chart.svg
weir simulate 1f1b.json --cost 1us,1us,1us,1us --format trace -o trace.json && grep -c '"ph":"X"' trace.json
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --ascii | tail -6
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --color always --width 40 | tail -6 | sed "s/\x1b/ESC/g"
weir simulate 1f1b.json --cost 1us,1us,1us,0ns --color sometimes --width 40
# Its own costs, and a cluster's links: 2 nodes share one slow link in each direction.
awk '/^```json$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/docs/formats/schedule.md" > own.json
weir simulate own.json | head -4
weir simulate own.json --cluster "2 devices, 1GiB, 8192MB/s 100ns" | head -4
