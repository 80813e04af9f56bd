# The runner's own test: what crashes, hangs, stops early or says nothing is a
# failure, and what fails or skips is counted. The programs are scripts that
# speak TAP as cmocka 1.1.5 does.
set -eu
mkdir -p build/tests/room

program() { # NAME, its script on stdin
    { echo '#!/bin/sh'; cat; } > "build/tests/room/$1"
    chmod +x "build/tests/room/$1"
}
program test_a_good <<'END'
echo 1..2; echo 'ok 1 - adds'; echo 'ok 2 - subtracts'
END
program test_b_failing <<'END'
echo 1..4; echo 'ok 1 - adds'; echo 'not ok 2 - divides'; echo '# 1 != 2'
echo '# skip: no GPU here'; echo 'not ok 3 # SKIP multiplies'; echo 'ok 4 - powers # SKIP'; exit 1
END
program test_c_crashing <<'END'
echo 1..2; echo 'ok 1 - adds'; kill -SEGV $$
END
program test_d_silent <<'END'
true
END
program test_e_leaking <<'END'
echo 1..1; echo 'ok 1 - adds'; exit 23
END
program test_f_hanging <<'END'
echo 1..1; sleep 1000 & sleep 1000
END
program test_g_stopping_early <<'END'
echo 1..2; echo 'ok 1 - adds'
END
"$ROOT/tools/run-tests" --build build --only tests/room --jobs 1 --limit 2 |
    sed -E 's/[0-9.]+ s \([0-9.]+ s of processor\)$/a while/; s/ +/ /g; /^[0-9]+ s of processor in [0-9]+ s$/d' || true
"$ROOT/tools/run-tests" --build build --only nothing-like-this || echo "exit code $?"
