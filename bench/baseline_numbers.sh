#!/bin/sh
# Runs bench_baselines and puts what it says into docs/numbers.md, between its two marks.
#
#     bench/baseline_numbers.sh build/release/bench/bench_baselines
set -e
cd "$(dirname "$0")/.."
program=${1:-build/release/bench/bench_baselines}
page=docs/numbers.md
said=$(mktemp)
new=$(mktemp)
trap 'rm -f "$said" "$new"' EXIT
"$program" > "$said"
if grep -q '^skipped' "$said"; then
    cat "$said" >&2
    exit 1
fi
awk -v said="$said" '
    /<!-- end of baselines -->/ { inside = 0 }
    !inside { print }
    /<!-- baselines/ {
        inside = 1
        while ((getline line < said) > 0)
            print line
    }' "$page" > "$new"
cat "$new" > "$page"
