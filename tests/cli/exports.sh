# What libweir.so exports begins with weir_, and nothing else leaks out.
set -eu
case $WEIR_BUILD in
*asan* | *tsan*) echo "# skip: a sanitizer adds names of its own"; exit 77 ;;
esac
nm -D --defined-only "$WEIR_BUILD/lib/libweir.so" | awk '{ print $NF }' | grep -v '^weir_' && exit 1
nm -D --defined-only "$WEIR_BUILD/lib/libweir.so" > /dev/null
