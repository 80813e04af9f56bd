# Token files: a byte-level BPE small enough to check by eye, and training on one.
cat > encoder.json <<'END'
{"a": 0, "b": 1, "c": 2, "'": 3, "s": 4, "Ġ": 5, "!": 6, "1": 7, "ab": 8, "abc": 9, "Ġab": 10, "'s": 11, "Ċ": 12, "Ã": 13, "©": 14, "Ã©": 15, "<|endoftext|>": 16}
END
printf '#version: 0.2\na b\nab c\nĠ ab\n'"'"' s\nÃ ©\n' > vocab.bpe
tokens() { printf "$1" > text; "$ROOT/tools/tokens" --encoder encoder.json --merges vocab.bpe text -o text.tok && od -An -tu2 -v -j24 text.tok; }
tokens 'abc'
tokens "ab's ab!! ab11"
tokens 'a  b\n\nc\303\251 '
od -An -tx1 -v -N24 text.tok
"$ROOT/tools/tokens" text -o text.tok 2>&1 | tail -1
set -e
cat /usr/share/common-licenses/GPL-3 /usr/share/common-licenses/LGPL-2.1 > bytes
"$ROOT/tools/tokens" --bytes bytes -o bytes.tok | sed "s/ $(wc -c <bytes) / all /"
model=gpt-nano,tied,width=32,blocks=1,heads=2,sequence=32
weir profile $model -o profile.json > /dev/null
weir partition profile.json --cluster '1 device, 1GiB' --schedule 1f1b --micro-batches 2 -o plan.json > /dev/null
for data in bytes bytes.tok; do weir train $model --plan plan.json --data $data --steps 3 | grep -e '^held' -e '^step  *3' | sed 's/  [0-9.]* k tokens.*//'; done > both
head -2 both > one
tail -2 both | cmp - one && echo "trained alike on bytes and on tokens that are bytes"
{ printf 'weir.tok\1\0\0\0\0\2\0\0\0\240\0\0\0\0\0\0'; head -c 81920 /dev/zero; } > large.tok
weir train $model --plan plan.json --data large.tok --steps 3 2>&1 || echo "exit $?"
