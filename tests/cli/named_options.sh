# Every option that a sentence in our sources names is one of the command that says it (named_options.py).
python3 "$ROOT/tests/cli/named_options.py" "$ROOT"
