# What is installed is all that somebody else needs: examples/own_trainer.c, copied out of the tree, builds by pkg-config
# as C and as C++, with the shared library and with the static one, and runs.
case $WEIR_BUILD in *asan* | *tsan* | *coverage*)
    echo '# skip: what is installed is a release'
    exit 77 ;;
esac
for tool in pkg-config g++; do
    command -v $tool > /dev/null || { echo "# skip: no $tool here"; exit 77; }
done
set -eu

# As `scons install prefix=$PWD/$1` does it, which cannot be run here: it would build within a build.
lay_out() {
    mkdir -p "$1/lib/pkgconfig" "$1/include"
    cp "$ROOT/api/weir.h" "$ROOT/common/public/weir_layer.h" "$1/include"
    sed "s|^prefix=.*|prefix=$PWD/$1|" "$WEIR_BUILD/lib/weir.pc" > "$1/lib/pkgconfig/weir.pc"
}
lay_out shared
cp -P "$WEIR_BUILD"/lib/libweir.so* shared/lib
lay_out static
cp "$WEIR_BUILD/lib/libweir.a" static/lib

mkdir elsewhere
cp "$ROOT/examples/own_trainer.c" elsewhere
cd elsewhere
flags() {  # of which library, and more options
    library=$1
    shift
    PKG_CONFIG_PATH=../$library/lib/pkgconfig pkg-config "$@" weir
}
try() {
    ./"$1" > printed
    echo "$1: $(tail -1 printed)"
}
export LD_LIBRARY_PATH=$PWD/../shared/lib
# shellcheck disable=SC2046  # flags are words
{
    "${CC:-gcc}" -std=c11 -O2 -Wall -Wextra -Werror own_trainer.c -o as_c $(flags shared --cflags --libs) -lm
    g++ -x c++ -std=c++20 -O2 -Wall own_trainer.c -o as_cplusplus $(flags shared --cflags --libs) -lm
    "${CC:-gcc}" -std=c11 -O2 own_trainer.c -o as_static $(flags static --cflags --libs --static) -lm
}
try as_c
try as_cplusplus
unset LD_LIBRARY_PATH
try as_static
flags shared --modversion
