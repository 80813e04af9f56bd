#include "common/hash.h"

#include <string.h>

#include "tests/test.h"

// The values that xxhash's own test suite and `xxhsum -H2` give.
static void the_digits_are_those_of_xxh3_128(void **state)
{
    (void)state;
    char digits[HASH_SIZE];
    hash_bytes("", 0, digits);
    assert_string_equal(digits, "99aa06d3014798d86001c324468d497f");
    hash_bytes("abc", 3, digits);
    assert_string_equal(digits, "06b05ab6733a618578af5f94892f3950");
}

static void every_single_bit_changes_the_digits(void **state)
{
    (void)state;
    unsigned char bytes[40] = { 0 };
    char before[HASH_SIZE], after[HASH_SIZE];
    hash_bytes(bytes, sizeof bytes, before);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        hash_bytes(bytes, sizeof bytes, after);
        assert_string_not_equal(before, after);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    hash_bytes(bytes, sizeof bytes - 1, after);
    assert_string_not_equal(before, after);
}

static void parts_have_the_digits_of_the_whole(void **state)
{
    (void)state;
    unsigned char bytes[1000];
    char whole[HASH_SIZE], parts[HASH_SIZE];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    hash_bytes(bytes, sizeof bytes, whole);
    for (size_t step = 1; step <= sizeof bytes; step += 111) {
        struct hash *hash = hash_create();
        assert_non_null(hash);
        for (size_t at = 0; at < sizeof bytes; at += step)
            hash_add(hash, bytes + at, at + step < sizeof bytes ? step : sizeof bytes - at);
        hash_finish(hash, parts);
        assert_string_equal(parts, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_digits_are_those_of_xxh3_128),
        cmocka_unit_test(every_single_bit_changes_the_digits),
        cmocka_unit_test(parts_have_the_digits_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
