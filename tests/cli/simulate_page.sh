# `weir simulate --format html` writes one page that needs nothing else; --against shows two runs and what they differ in.
exec 2>&1
weir schedule zb-h1 --ranks 2 --micro-batches 3 --format json > zb.json
weir schedule 1f1b --ranks 2 --micro-batches 3 --format json > 1f1b.json
cost="--cost 10us,12us,8us,2us --keep 4MiB,1MiB"
weir simulate zb.json $cost --format html -o page.html
weir simulate zb.json $cost --against 1f1b.json --format html -o both.html
weir simulate zb.json $cost --against 1f1b.json | sed -n '/^against/,/^first/p'
weir simulate zb.json $cost --against zb.json | grep '^first'
weir simulate zb.json $cost --against 1f1b.json --format svg -o two.svg | head -1
weir simulate zb.json $cost --against nothing.json
# No address, no other file: it opens without a network.
grep -cE 'https?://|src=|<link|@import|url\(' page.html both.html
grep -o '<title>.*' page.html both.html
# Shared lanes are shown beside lanes that nobody shares.
weir simulate zb.json $cost --one-lane --format html | grep -o '<title>.*'
