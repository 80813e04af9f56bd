# A package of what is built here can be installed into an empty system, runs there, and lintian has no fault to find.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: what is packaged is a release'
    exit 77 ;;
esac
for tool in dpkg dpkg-deb dpkg-shlibdeps strip; do
    command -v $tool > /dev/null || { echo "# skip: no $tool here"; exit 77; }
done
set -e
mkdir -p tree/usr/{bin,lib,libexec,include,share/man/man1,share/bash-completion/completions,share/zsh/site-functions}
cp "$WEIR_BUILD/bin/weir" tree/usr/bin
cp "$WEIR_BUILD"/libexec/* tree/usr/libexec 2> /dev/null || true  # none without GLPK
cp -P "$WEIR_BUILD"/lib/libweir.so* tree/usr/lib
cp "$ROOT/api/weir.h" "$ROOT/common/public/weir_layer.h" tree/usr/include
python3 "$ROOT/tools/make-man" --weir "$WEIR_BUILD/bin/weir" tree/usr/share/man/man1
python3 "$ROOT/tools/make-completion" --weir "$WEIR_BUILD/bin/weir" completion
cp completion/weir tree/usr/share/bash-completion/completions
cp completion/_weir tree/usr/share/zsh/site-functions
export DEBFULLNAME='A Packager' DEBEMAIL=packager@debian.org SOURCE_DATE_EPOCH=1750000000
make_package() {
    python3 "$ROOT/tools/make-deb" --tree tree --version 0.1.0 "$1" > /dev/null
}
make_package one
make_package two
cmp one/weir_*.deb two/weir_*.deb && echo "the same bytes each time"

mkdir -p system/var/lib/dpkg/{info,updates} && touch system/var/lib/dpkg/{status,available}
dpkg --root="$PWD/system" --log=/dev/null --force-depends --force-not-root --no-triggers -i one/weir_*.deb > said.txt 2>&1 ||
    { cat said.txt; exit 1; }
(cd system && md5sum --quiet -c var/lib/dpkg/info/weir.md5sums) && echo "all that was packed is there"
env -u WEIR_LIBEXEC system/usr/bin/weir help partition | cmp - <(weir partition --help)
ls system/usr/share/man/man1 | head -3
ls system/usr/share/zsh/vendor-completions system/usr/share/doc/weir
if command -v lintian > /dev/null; then
    lintian --fail-on error,warning one/weir_*.deb 2> lintian.txt || cat lintian.txt
else
    echo "# no lintian here: not asked" >&2
fi
