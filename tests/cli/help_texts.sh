# Every command's help has an example, fits into 79 columns, and no line of an example was broken in two by argp.
for command in $(weir --help | awk '/^  [a-z]/ { print $1 }') 'schedule search'; do
    weir $command --help | awk -v command="$command" '
        length($0) > 79 { print command ": too long: " $0 }
        /^Examples?:$/ { examples = 1; next }
        examples && NF && !/^  / { print command ": broken: " $0 }
        END { if (!examples) print command ": no example" }'
done
weir simulate --help | awk '/^Bubbles/ { bubbles = 1 } bubbles && NF == 0 { exit } bubbles'
