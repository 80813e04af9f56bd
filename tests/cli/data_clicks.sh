# Clicks to train recommenders on: made of RecBole's files, of Criteo's lines and generated; shown, counted and refused.
export LC_ALL=C
python3 - <<'END'
import gzip, random
random.seed(7)
with open('x.item', 'w') as file:
    file.write('item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n')
    for item in range(40):
        genres = ' '.join(random.sample(['Action', 'Comedy', 'Drama', 'War'], random.randrange(4)))
        file.write(f'{item}\tFilm {item}\t{1950 + item}\t{genres}\n')
with open('x.user', 'w') as file:
    file.write('user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n')
    for user in range(30):
        file.write(f'{user}\t{16 + 2 * user}\t{"MF"[user % 2]}\t{["artist", "writer"][user % 3 == 0]}\t{user}0000\n')
with open('x.inter', 'w') as file:
    file.write('user_id:token\titem_id:token\trating:float\ttimestamp:float\n')
    for row in range(1000):
        user, item = random.randrange(30), random.randrange(40)
        stars = min(5, max(1, round(3.2 + (user % 5 - 2) / 2 + (item % 7 - 3) / 3 + random.gauss(0, 1))))
        file.write(f'{user}\t{item}\t{stars}\t{row}\n')
with gzip.open('day.gz', 'wt') as file:
    for row in range(60):
        integers = [random.choice(['', '-1', str(random.randrange(1000))]) for _ in range(13)]
        words = [random.choice(['', f'{random.randrange(1 << 32):08x}']) for _ in range(26)]
        file.write('\t'.join([str(row % 4 == 0 and 1 or 0)] + integers + words) + '\n')
END
exec 2>&1
weir data movielens x.inter x.item x.user -o films.json; echo "exit $?"
cat films.json
weir data films.json --baseline | sed 's/; [0-9]* epochs.*//'
weir data films.json --reads 64
weir data films.json --reads 64 --batches 20 --json
weir data movielens x.inter x.item x.user --by-time -o latest.json | head -2
weir data criteo day.gz --capacity 5000 -o criteo.json | sed '/C[2-9]/d; /C1[0-9]/d'
weir data make-clicks --samples 3000 --slots 4 --numbers 2 --ids 50 --most 3 --seed 5 -o made.json
weir data make-clicks --samples 3000 --slots 4 --numbers 2 --ids 50 --most 3 --seed 5 -o again.json >again.txt
cmp made.json again.json && cmp made.json.numbers again.json.numbers && echo 'the same bytes'
weir data made.json --baseline | sed 's/; [0-9]* epochs.*//'
printf '0\t1\n' >short.tsv
for words in 'movielens x.inter x.item -o y' 'movielens x.inter x.user x.item -o y' 'movielens x.inter x.item none -o y' \
    'criteo -o y' 'criteo short.tsv -o y' 'criteo x.inter -o y' 'make-clicks x.inter -o y' 'make-clicks --samples 10 -o y' \
    'make-clicks --samples 9 -o y' 'make-clicks --slots 0 -o y' 'make-clicks --capacity 7 -o y' 'criteo --by-time day.gz -o y' \
    'movielens --ids 7 x.inter x.item x.user -o y' 'films.json --samples 7' 'films.json --seed 7' 'films.json --json' \
    'films.json --batches 7' 'films.json --reads 7 --baseline' 'films.json --reads 0' 'criteo day.gz --reads 7 -o y' \
    'make-clicks'; do
    echo "\$ weir data $words"
    weir data $words; echo "exit $?"
done
ls y* 2>/dev/null
weir data text /usr/share/common-licenses -o text.json >text.txt
weir data text.json --reads 7; echo "exit $?"
printf X | dd of=made.json.numbers bs=1 seek=3 conv=notrunc status=none
weir data made.json; echo "exit $?"
weir profile fashion-mlp -o profile.json >profile.txt
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would be untrusted, which is said
weir partition profile.json --cluster '1 device, 1GiB' --schedule gpipe --micro-batches 1 -o plan.json >plan.txt
weir train fashion-mlp --plan plan.json --data films.json --steps 1; echo "exit $?"
