#!/bin/sh
# How smooth the page of a large run is: the time of a frame, while it zooms from the whole run (64 ranks, 256
# micro-batches, 49,152 actions) to a few of its actions and back, in Chromium without a GPU. Then the same for two runs
# above each other.
set -eu
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "there is no Chromium here: no frames are measured"
    exit 0
fi
weir=${WEIR_BUILD:-build/release}/bin/weir
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cost="--cost 10us,12us,8us,2us --keep 4MiB,1MiB"
for schedule in zb-h1 1f1b; do
    "$weir" schedule $schedule --ranks 64 --micro-batches 256 --format json >"$folder/$schedule.json"
done
# shellcheck disable=SC2086 # $cost is words
"$weir" simulate "$folder/zb-h1.json" $cost --format html -o "$folder/one.html"
# shellcheck disable=SC2086
"$weir" simulate "$folder/zb-h1.json" $cost --against "$folder/1f1b.json" --format html -o "$folder/two.html"
for page in one two; do
    frames=$(HOME=$folder XDG_CONFIG_HOME=$folder "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$folder/user" --window-size=1600,1000 --virtual-time-budget=60000 \
        --dump-dom "file://$folder/$page.html#light&frames=200" 2>/dev/null | grep -o 'data-frames="[^"]*"' || true)
    echo "$page: $(wc -c <"$folder/$page.html") bytes, a frame: ${frames:-nothing was drawn}"
done
