# The pictures of the docs are what weir draws now. After a change that is meant: docs/pictures/draw, and look at them.
set -e
"$ROOT/docs/pictures/draw" .
for picture in *.svg; do
    cmp "$picture" "$ROOT/docs/pictures/$picture"
done
