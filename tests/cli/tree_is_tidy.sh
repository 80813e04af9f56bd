# What holds of the tree as a whole: names of sources are unique, every folder has a page about
# itself, the folders of partitioner/ use each other one way, libraries say nothing of the command's
# options, every format's page is in the index, links between pages lead somewhere, and no document
# that somebody tried a command with was left in the root.
set -eu
links=$PWD/links
cd "$ROOT"
faults=0
fault() {
    echo "$1"
    faults=$((faults + 1))
}

sources=$(find . -path ./build -prune -o -path './.*' -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print)
for name in $(printf '%s\n' "$sources" | sed 's|.*/||' | sort | uniq -d); do
    fault "two files are called $name: $(printf '%s\n' "$sources" | grep "/$name$" | tr '\n' ' ')"
done

for script in */SConscript tools/run-tests; do  # rooms, cli, bench, tests, examples; and the tools
    [ -f "${script%/*}/README.md" ] || fault "${script%/*}/ has no README.md"
done

for stray in $(git ls-files 2> /dev/null | grep -v / | grep -E '\.(json|svg|txt)$|^[^.]?$'); do
    fault "$stray is no part of the tree"
done

# Which of the partitioner's folders use which; files outside of them are below, but for plan_search, which dispatches, and
# target_search, which asks that for each target.
if ! grep -o '#include "partitioner/[^"]*"' -r partitioner --include='*.[ch]' |
    sed 's|:#include "| |; s|"$||; s|partitioner/||g' | awk '
        function part(file) { return file ~ /^(plan|target)_search\./ ? "plan_search" : file ~ /\// ? substr(file, 1, index(file, "/") - 1) : "." }
        part($1) != part($2) { print part($1), part($2) }' | tsort > /dev/null 2> "$links"; then
    fault "folders of partitioner/ use each other in a circle: $(cat "$links")"
fi

# What a library says it also says to Python, where there are no options; but for tables that only the command prints,
# which say what to ask it for, and for plans by hand, which only it takes.
tables='explain/(nearest|what_if)|sweep/plan_front_table|evaluate/handmade'
grep -rnE '^[^/]*"[^"]*--[a-z]' common profiler schedules partitioner runtime --include='*.c' |
    grep -vE "^partitioner/($tables)\.c:" > "$links" || true
[ ! -s "$links" ] || fault "sentences of a library name options of the command: $(cat "$links")"

for page in docs/formats/*.md; do
    name=${page##*/}
    [ "$name" = README.md ] || grep -q "($name)" docs/formats/README.md || fault "docs/formats/README.md does not list $name"
done

for page in *.md */README.md docs/*.md docs/*/*.md; do
    [ -f "$page" ] || continue
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page links to $link, which is not there"
    done
done >"$links"
if [ -s "$links" ]; then
    fault "$(cat "$links")"
fi
[ "$faults" -eq 0 ]
