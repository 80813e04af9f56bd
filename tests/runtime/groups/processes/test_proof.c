#include "runtime/groups/processes/proof.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

// RFC 4231, test case 1, whose key of 20 bytes HMAC fills up with zeros.
static void a_proof_is_the_hmac_of_rfc_4231(void **state)
{
    (void)state;
    static const unsigned char expected[PROOF_SIZE] = {
        0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
        0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
    };
    struct secret secret = { { 0 } };
    unsigned char proof[PROOF_SIZE];
    memset(secret.bytes, 0x0b, 20);
    proof_make(&secret, "Hi There", 8, proof);
    assert_memory_equal(proof, expected, PROOF_SIZE);
    assert_true(proof_holds(&secret, "Hi There", 8, proof));
}

static void no_other_secret_word_or_proof_holds(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct secret secret, other;
    char said[50] = "what both have said";
    unsigned char proof[PROOF_SIZE];
    assert_good(secret_make(&secret, &error) && secret_make(&other, &error), error);
    proof_make(&secret, said, sizeof said, proof);
    assert_false(proof_holds(&other, said, sizeof said, proof));
    assert_false(proof_holds(&secret, said, sizeof said - 1, proof));
    for (size_t bit = 0; bit < 8 * sizeof said; bit++) {
        said[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(proof_holds(&secret, said, sizeof said, proof));
        said[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof proof; bit++) {
        proof[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(proof_holds(&secret, said, sizeof said, proof));
        proof[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(proof_holds(&secret, said, sizeof said, proof));
}

static void a_secret_is_written_and_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct secret secret, again;
    char digits[SECRET_DIGITS_SIZE], wrong[SECRET_DIGITS_SIZE + 1];
    assert_good(secret_make(&secret, &error), error);
    secret_write(&secret, digits);
    assert_int_equal(strlen(digits), 64);
    assert_true(secret_read(&again, digits));
    assert_memory_equal(&secret, &again, sizeof secret);
    snprintf(wrong, sizeof wrong, "%.63s", digits);
    assert_false(secret_read(&again, wrong));
    snprintf(wrong, sizeof wrong, "%s0", digits);
    assert_false(secret_read(&again, wrong));
    snprintf(wrong, sizeof wrong, "%.63sg", digits);
    assert_false(secret_read(&again, wrong));
}

// "abc" of FIPS 180.
static void a_text_is_its_sha_256(void **state)
{
    (void)state;
    struct secret secret;
    char digits[SECRET_DIGITS_SIZE];
    secret_from_text(&secret, "abc");
    secret_write(&secret, digits);
    assert_string_equal(digits, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void no_two_nonces_are_alike(void **state)
{
    (void)state;
    struct error error = { 0 };
    unsigned char nonces[20][NONCE_SIZE];
    for (size_t i = 0; i < 20; i++) {
        assert_good(nonce_make(nonces[i], &error), error);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(nonces[i], nonces[j], NONCE_SIZE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_the_hmac_of_rfc_4231),
        cmocka_unit_test(no_other_secret_word_or_proof_holds),
        cmocka_unit_test(a_secret_is_written_and_read),
        cmocka_unit_test(a_text_is_its_sha_256),
        cmocka_unit_test(no_two_nonces_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
