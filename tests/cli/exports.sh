# libweir.so exports exactly what weir.h declares, and a header that stands alone compiles as C and as C++.
#
# What is printed is what a program that was built against the library before relies on: its functions, and the sizes of
# the structs that it makes itself. A line that is new is a new feature; one that goes or changes breaks such programs,
# which needs another libweir.so.N (SHLIBVERSION in SConstruct) once 0.1.0 is released.
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
cat declared

{
    echo "#include <stdio.h>"
    echo "#include \"$header\""
    echo "int main(void) {"
    sed -nE 's|^struct (weir_[a-z_]+) \{$|printf("struct \1: %zu bytes\\n", sizeof(struct \1));|p' "$header" | sort
    echo "return 0; }"
} >sizes.c
"${CC:-gcc}" -std=c11 sizes.c -o sizes
./sizes

echo "#include \"$header\"" >alone.c
cp alone.c alone.cc
"${CC:-gcc}" -std=c11 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -fsyntax-only alone.c
if command -v g++ >/dev/null; then
    g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only alone.cc
fi
