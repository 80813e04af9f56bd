# Data to train on: made of idx files and of text, shown, and refused where they do not fit.
export LC_ALL=C
python3 - <<'END'
import gzip, struct
def idx(name, sizes, numbers, packed=False):
    with (gzip.open if packed else open)(name, 'wb') as file:
        file.write(struct.pack('>BBBB', 0, 0, 8, len(sizes)) + struct.pack(f'>{len(sizes)}I', *sizes) + bytes(numbers))
idx('a', (9, 4, 4), [i * 7 % 256 for i in range(144)])
idx('b', (9,), [i % 3 for i in range(9)])
idx('c.gz', (5, 4, 4), [i * 5 % 256 for i in range(80)], True)
idx('d.gz', (5,), [2 - i % 3 for i in range(5)], True)
idx('long', (9, 4, 4), range(145))
END
exec 2>&1
weir data
weir data idx a b c.gz d.gz -o small.json; echo "exit $?"
weir data small.json
cat small.json
weir data idx a b c.gz d.gz -o again.json >again.txt
cmp small.json again.json && cmp small.json.numbers again.json.numbers && echo 'the same bytes'
weir data text /usr/share/common-licenses -o licences.json | sed 's/[0-9.]* KiB/N KiB/; s/[0-9]* tokens/N tokens/; s/on, [0-9]* held/on, N held/'
for words in 'idx a b c.gz -o x' 'idx a d.gz c.gz d.gz -o x' 'idx b b c.gz d.gz -o x' 'idx long b c.gz d.gz -o x' \
    'idx none b c.gz d.gz -o x' 'idx a b c.gz d.gz' 'pictures -o x' 'fashion-mnist a -o x' 'text -o x' 'text a -o x' \
    'no.json'; do
    echo "\$ weir data $words"
    weir data $words; echo "exit $?"
done
ls x* 2>/dev/null
printf X | dd of=small.json.numbers bs=1 seek=3 conv=notrunc status=none
weir data small.json; echo "exit $?"
rm small.json.numbers
weir data small.json; echo "exit $?"
