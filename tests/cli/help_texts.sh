# Every command's help has an example, fits into 79 columns and mostly on a screen, and no line of an example or a list
# was broken in two by argp.
for command in $(weir --help | awk '/^  [a-z]/ { print $1 }') 'schedule search'; do
    weir $command --help | awk -v command="$command" '
        length($0) > 79 { print command ": too long: " $0 }
        /^(Formats|Schedules|Examples?):$/ { examples = /^Ex/; list = !examples; next }
        !NF { list = 0 }
        list && !/^  / { print command ": broken: " $0 }
        examples && NF && !/^  / { print command ": broken: " $0 }
        END {
            if (!examples) print command ": no example"
            if (NR >= 50 && command !~ /^(schedule|simulate|train)$/) print command ": " NR " lines"
        }'
done
weir simulate --help | awk '/^Bubbles/ { bubbles = 1 } bubbles && NF == 0 { exit } bubbles'
echo "# what a plan can be asked is in groups"
for command in partition price keep front bottleneck; do
    echo "$command: $(weir $command --help | grep -E '^ [A-Z].*:$' | tr '\n' ' ')"
done
