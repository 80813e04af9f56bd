# Each command has a page for man, with its options, lists and examples; man, groff and mandoc find nothing to warn of.
python3 "$ROOT/tools/make-man" --weir "$WEIR_BUILD/bin/weir" man
commands=$(weir --help | awk '/^  [a-z]/ { print $1 }')
for command in $commands 'schedule search'; do
    page=man/weir-${command// /-}.1
    sed 's/\\f.//g; s/\\-/-/g' "$page" > plain.txt
    weir $command --help | grep -oE -- ' --[a-z-]+(=[^ ]+)?' | sort -u | while read -r option; do
        grep -qF -- "$option" plain.txt || echo "$page: $option is missing"
    done
    weir $command --help | sed -n '/^Examples*:/,$s/^  //p' | while read -r example; do
        grep -qF -- "${example//\\/\\e}" plain.txt || echo "$page: missing: $example"
    done
    grep -q "^weir-${command// /-} " <(sed 's/\\//g' man/weir.1) || grep -q "weir\\\\-${command// /\\\\-} (1)" man/weir.1 ||
        echo "weir.1: does not name $command"
done
sed -n '/^.SH "EXIT STATUS"/,/^.SH EXAMPLES/p' man/weir-partition.1
ls man | wc -l
weir --help | grep -c '^  [a-z]'

checkers=
for checker in man groff mandoc; do
    command -v $checker > /dev/null && checkers+=" $checker"
done
for page in man/*.1; do
    for checker in $checkers; do
        case $checker in
        man) LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 > /dev/null ;;
        groff) groff -man -ww -z -Tutf8 "$page" 2>&1 ;;
        mandoc) mandoc -Tlint -Wwarning "$page" ;;
        esac
    done
done
[ -n "$checkers" ] || { echo "# skip: no man, groff or mandoc here to hold the pages against"; exit 77; }
