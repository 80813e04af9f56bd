// Copied experts in the names of variants.
#include "partitioner/experts/expert_words.h"

#include "tests/test.h"

static void copied_experts_are_those_with_a_star(void **state)
{
    (void)state;
    static const struct {
        const char *variant;
        uint32_t number;
        const char *copied;  // of each expert
    } rows[] = {
        { "rows2:0+*+1+0", 0, ".*.." },
        { "rows2:0+*+1+0", 5, ".*.." },  // one word for all layers
        { "rows12:*+10+*+11:300", 0, "*.*." },
        { "rows2:0+*+1+0/*+*+*+*/1+1+0+*", 0, ".*.." },
        { "rows2:0+*+1+0/*+*+*+*/1+1+0+*", 1, "****" },
        { "rows2:0+*+1+0/*+*+*+*/1+1+0+*:12", 2, "...*" },
        { "rows2:dealt/*+0+0+1", 0, "...." },
        { "rows2:dealt/*+0+0+1", 1, "*..." },
        { "rows2:blocks", 0, "...." },
        { "rows2", 0, "...." },
        { "tensor2sp", 1, "...." },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t copies = 0;
        for (uint32_t e = 0; e < 4; e++) {
            const bool is_copied = expert_words_copy(rows[i].variant, rows[i].number, e);
            assert_true(is_copied == (rows[i].copied[e] == '*'));
            copies += is_copied;
        }
        assert_false(expert_words_copy(rows[i].variant, rows[i].number, 4));
        assert_int_equal(expert_words_copies(rows[i].variant, rows[i].number), copies);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(copied_experts_are_those_with_a_star) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
