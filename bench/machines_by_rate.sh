#!/bin/bash
# Two machines, simulated by network namespaces of this one, for several rates of the link between them. It compares
# what `weir profile --links` finds, and, with these links, the iterations of bench_machines with the simulated ones.
# Takes two minutes, and needs root, tc and Open MPI.
#
#     bench/machines_by_rate.sh [COMMAND..]      prefix of each rank's command: `chrt -r 1` if other work uses the cores
set -eu
ROOT=$(realpath "$(dirname "$0")/..") build=$(realpath "${WEIR_BUILD:-build/release}")
export PATH=$build/bin:$PATH WEIR_LIBEXEC=${WEIR_LIBEXEC:-$build/libexec}
folder=$(mktemp -d)
cd "$folder"
. "$ROOT/tools/two-machines"
machines_start || { echo "$machines_lack" >&2; exit 3; }
trap 'kill $(cat left.pid right.pid); rm -rf "$folder"' EXIT
number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" cluster.json; }
for rate in '10gbit 1mb' '1gbit 256kb' '100mbit 32kb'; do
    machines_rate $rate
    echo "$rate at once"
    on_both "$@" weir profile --links --memory 1GiB -o cluster.json
    on_both "$@" "$build/bench/bench_machines" "$(number latency_ns | awk '{ print $1 / 1e3 }')" \
        "$(number bytes_per_second | awk '{ print $1 / 1e6 }')"
done
