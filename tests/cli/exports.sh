# libweir.so exports exactly what weir.h declares, and a header that stands alone compiles as C and as C++.
#
# What is printed is what a program that was built against the library before relies on: its functions, and the sizes of
# the structs that it makes itself. A line that is new is a new feature; one that goes or changes breaks such programs,
# which needs another libweir.so.N (SHLIBVERSION in SConstruct) once 0.1.0 is released.
set -eu
header=$ROOT/api/weir.h layers=$ROOT/common/public/weir_layer.h

sed 's|//.*||' "$header" "$layers" | grep -oE '\bweir_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >declared || true
case $WEIR_BUILD in
*asan* | *tsan*) ;; # a sanitizer adds names of its own
*)
    nm -D --defined-only "$WEIR_BUILD/lib/libweir.so" >symbols
    awk '{ print $NF }' symbols | sort -u >exported
    diff declared exported
    ;;
esac
cat declared

# A struct of options ends with a field, not with padding, in which the next field would not change the size.
{
    echo "#include <assert.h>"
    echo "#include <stdio.h>"
    echo "#include \"$header\""
    cat <<'END'
#define ENDS(S, FIELD) \
    static_assert(sizeof(struct S) == offsetof(struct S, FIELD) + sizeof(((struct S *)0)->FIELD), "padding: " #S)
END
    sed 's|//.*||' "$header" | awk '
        /^struct weir_[a-z_]*_options [{]/ { name = $2 }
        /^}/ { if (name) print "ENDS(" name ", " last ");"; name = "" }
        /;/ { last = $NF; gsub(/[*;]/, "", last) }'
    echo "int main(void) {"
    sed -nE 's|^struct (weir_[a-z_]+) \{$|printf("struct \1: %zu bytes\\n", sizeof(struct \1));|p' "$header" "$layers" | sort
    echo "return 0; }"
} >sizes.c
"${CC:-gcc}" -std=c11 -I"$ROOT/common/public" sizes.c -o sizes
./sizes

echo "#include \"$header\"" >alone.c
cp alone.c alone.cc
cat >>alone.c <<'END'
struct weir_plan *one(const struct weir_profile *profile, struct weir_error *error);
struct weir_plan *one(const struct weir_profile *profile, struct weir_error *error)
{
    return weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "2 devices, 1GiB, 1GB/s 1us", .ranks = 2), error);
}
END
cat >>alone.cc <<'END'
weir_plan *one(const weir_profile *profile, weir_error *error)
{
    weir_partition_options options = {};
    options.size = sizeof options;
    options.cluster = "2 devices, 1GiB, 1GB/s 1us";
    return weir_partition(profile, &options, error);
}
END
"${CC:-gcc}" -std=c11 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -I"$ROOT/common/public" -fsyntax-only alone.c
if command -v g++ >/dev/null; then
    g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$ROOT/common/public" -fsyntax-only alone.cc
fi
