# Sentences of pages and headers: what tools/prose finds in a page and a header made for it, and how many of ours are
# longer than 40 words.
set -eu
cat >page.md <<'END'
# A page

A short sentence. This one goes on and on, word after word after word, so that nobody who reads it from its beginning
to its end could say what it was about when it began, which is a pity.

* Of those that fit the first is taken, and of the others none.
* `code` and more.

```
a block of code is not read, however long a line of it is, and however many words there are in it, which may be a great many
```
END
cat >header.h <<'END'
// A header.
//
//     a drawing is not read, however long it is, word after word after word after word after word after word, and so on
struct one {
    int at;  // of all that are there
};
END
"$ROOT/tools/prose" page.md header.h | sed 's/^[^ ]*\(page.md\|header.h\)/\1/; s/: A short.*//'
"$ROOT/tools/prose" --words 40 | grep -c ' words: ' >long.txt || true
test "$(cat long.txt)" -lt 40 && echo 'fewer than 40 sentences have more than 40 words'
