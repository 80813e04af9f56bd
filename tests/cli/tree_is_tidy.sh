# What holds of the tree as a whole: names of sources are unique, every folder has a
# page about itself, every format's page is in the index, links between pages lead somewhere, and no document that
# somebody tried a command with was left in the root.
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
