# libweir.so exports exactly what weir.h declares, and a header that stands alone
# compiles as C and as C++.
set -eu
header=$ROOT/runtime/weir.h

sed 's|//.*||' "$header" | grep -oE '\bweir_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >declared || true
case $WEIR_BUILD in
*asan* | *tsan*) ;; # a sanitizer adds names of its own
*)
    nm -D --defined-only "$WEIR_BUILD/lib/libweir.so" >symbols
    awk '{ print $NF }' symbols | sort -u >exported
    diff declared exported
    ;;
esac

echo "#include \"$header\"" >alone.c
cp alone.c alone.cc
"${CC:-gcc}" -std=c11 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -fsyntax-only alone.c
if command -v g++ >/dev/null; then
    g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only alone.cc
fi
