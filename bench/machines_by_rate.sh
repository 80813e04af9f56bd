#!/bin/bash
# Two machines, played by namespaces of this one, by the rate of the link between them: what `weir profile --links` finds,
# and with that the iterations of bench_machines against the simulated ones. Takes two minutes, root, tc and Open MPI.
#
#     bench/machines_by_rate.sh [COMMAND..]      before each rank's: `chrt -r 1` where others use the cores, too
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
