# `weir help COMMAND`, -h and -? of every command are its --help, on standard output with exit code 0.
for command in $(weir -h | awk '/^  [a-z]/ { print $1 }') 'schedule search'; do
    weir $command --help > asked.txt 2> said.txt || echo "$command --help: exit $?"
    grep -q "^Usage: weir $command " asked.txt || echo "$command: not its help"
    for way in "help $command" "$command -h" "$command -?"; do
        weir $way 2>> said.txt | cmp asked.txt - || echo "$way: differs"
    done
    weir $command --usage 2>> said.txt | grep -q "Usage: weir $command " || echo "$command: no --usage"
    cat said.txt
done
for way in help 'help help' -h '-?'; do
    weir $way | cmp - <(weir --help) || echo "weir $way: differs"
done

echo "# refused"
weir help nothing 2>&1; echo "exit $?"
weir help model profile 2>&1; echo "exit $?"
weir help schedule find 2>&1; echo "exit $?"
weir nothing -h 2>&1; echo "exit $?"
weir model -x 2>&1; echo "exit $?"
