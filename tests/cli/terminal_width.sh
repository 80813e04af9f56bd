# On a terminal sentences are broken at its width, and charts and tables keep to it where they can; documents and files
# stay as they are. Without UTF-8 in the locale, charts are ASCII, and nothing else changes.
# What a command prints on a terminal so wide; standard error, where progress is shown, only if SAID.
at_terminal() {
    python3 - "$@" <<'PYTHON'
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 25, int(sys.argv[1]), 0, 0))
    if not os.environ.get('SAID'):
        os.dup2(os.open('/dev/null', os.O_WRONLY), 2)
    os.execvp(sys.argv[2], sys.argv[2:])
said = b''
try:
    while more := os.read(terminal, 65536):
        said += more
except OSError:
    pass  # the child has closed its side
sys.stdout.buffer.write(said.replace(b'\r\n', b'\n'))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PYTHON
}
unset COLUMNS
export NO_COLOR=1

cat > small.txt <<'FILE'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
FILE
weir import pipedream small.txt -o profile.json > /dev/null
partition=(weir partition profile.json --cluster '2 devices, 4700KiB, 10GB/s 10us' --schedule gpipe -m 8 --optimizer sgd)
"${partition[@]}" -o plan.json > piped.txt

echo "# the paragraph at 60 columns"
at_terminal 60 "${partition[@]}" | sed -n '/^An iteration/,$p'
echo "# what COLUMNS says goes for the terminal's own"
COLUMNS=60 at_terminal 200 "${partition[@]}" | cmp - <(at_terminal 60 "${partition[@]}") && echo same
echo "# the same words"
at_terminal 60 "${partition[@]}" | tr -s ' \n' '\n\n' | cmp - <(tr -s ' \n' '\n\n' < piped.txt) && echo same
echo "# in rows, the last cell is broken"
at_terminal 70 weir explain plan.json --profile profile.json | sed -n '/^  busiest/,/^  memory/p'
echo "# an order's chart, in units, and the list of commands"
for width in 60 80; do
    LC_ALL=C at_terminal $width weir schedule 1f1b --ranks 4 --micro-batches 8 | sed -n '/^If/,$p' |
        awk '{ if (length > most) most = length } END { print most }'
done
at_terminal 80 weir help | awk 'length > 80'
echo "# a refusal"
SAID=yes at_terminal 60 weir explain plan.json --profile plan.json; echo "exit $?"
SAID=yes at_terminal 40 weir simulate plan.json --schedule nothing; echo "exit $?"

echo "# documents, pipes and files are as they are"
at_terminal 60 "${partition[@]}" --json | cmp - plan.json && echo same
COLUMNS=60 "${partition[@]}" | cmp - piped.txt && echo same
at_terminal 60 weir explain plan.json --profile profile.json -o explained.txt
weir explain plan.json --profile profile.json | cmp - explained.txt && echo same

echo "# ASCII where the locale is C"
LC_ALL=C weir simulate plan.json > c.txt
weir simulate plan.json --ascii | cmp - c.txt && echo same
LC_ALL=C grep -nP '[^\x00-\x7f]' c.txt
weir simulate plan.json | LC_ALL=C grep -cP '[^\x00-\x7f]'
LC_ALL=C weir simulate plan.json -o file.txt && weir simulate plan.json | cmp - file.txt && echo same
