#!/usr/bin/env bash
# Exchanges beside the computation of another micro-batch: what each schedule gains in simulations, for exchanges of
# 0.3 of the computation (three segments to a stage), then bench_overlap, whose head says what it measures. The latter
# has real-time priority if that is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
costs=$(mktemp)
trap 'rm -f "$costs"' EXIT
time_of() {  # SCHEDULE RANKS PASSES
    {
        printf '{ "format": "weir.costs", "version": 1, "costs": ['
        stages=$("$build/bin/weir" schedule $1 --ranks $2 --micro-batches $((4 * $2)) --segments 3 --format json |
            sed -n 's/^  "stages": \([0-9]*\),/\1/p')
        for ((s = 0; s < stages; s++)); do
            printf '%s{ "forward_ns": 40, "backward_ns": 80, "backward_input_ns": 40, "backward_weight_ns": 40' \
                "$([ $s = 0 ] || echo ,)"
            printf ', "exchange_ns": %d }' $((s % 3 < 2 ? 27 : 0))
        done
        printf '] }\n'
    } >"$costs"
    "$build/bin/weir" simulate $1 --ranks $2 --micro-batches $((4 * $2)) --segments 3,$3 --cost "$costs" --json |
        sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p'
}
echo "| schedule | ranks | two passes in turns | three |"
echo "|---|---|---|---|"
for schedule in 1f1b interleaved zb-h1 zb-h2 zb-v dualpipe dualpipev; do
    for ranks in 4 8; do
        in_turn=$(time_of $schedule $ranks 1)
        awk -v name=$schedule -v ranks=$ranks -v one=$in_turn -v two=$(time_of $schedule $ranks 2) \
            -v three=$(time_of $schedule $ranks 3) \
            'BEGIN { printf "| `%s` | %d | %.2f | %.2f |\n", name, ranks, one / two, one / three }'
    done
done
# Threads that sleep are to wake up on time, beside whatever else the machine does.
first=$(command -v chrt || true)
[ -n "$first" ] && chrt -f 1 true 2>/dev/null && first="$first -f 1" || first=
$first "$build/bench/bench_overlap" 4 2 3
