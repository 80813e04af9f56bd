# tools/house holds the rooms to what their SConscripts name: in this build, and in one whose rooms name less.
set -eu
"$ROOT/tools/house" "$WEIR_BUILD" >house.txt
grep -c '^Circles of files' house.txt

mkdir other
for folder in "$WEIR_BUILD"/*; do ln -s "$folder" other; done
rm other/rooms.json
sed '/"exports": {/,/\]/{/"partitioner",/d}' "$WEIR_BUILD/rooms.json" >other/rooms.json
"$ROOT/tools/house" other 2>other.txt >house.txt || echo "exit $?"
grep -o -m 1 'is of partitioner/, which exports/SConscript does not name in `uses`' other.txt
python3 - "$WEIR_BUILD/rooms.json" other/rooms.json <<'END'
import json, sys
rooms = json.load(open(sys.argv[1]))
rooms['schedules']['folders'].reverse()
json.dump(rooms, open(sys.argv[2], 'w'))
END
"$ROOT/tools/house" other 2>other.txt >house.txt || echo "exit $?"
grep -o -m 1 'comes behind schedules/compare/ in the folders of schedules/SConscript' other.txt
