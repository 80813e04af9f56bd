#include "common/number.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static const uint64_t most = ((uint64_t)1 << 53) - 1;

// --- reading -------------------------------------------------------------------

typedef bool parse(const char *text, uint64_t *value, struct error *error);

struct reading {
    const char *name;
    parse *parse;
    uint64_t value;
};

static struct reading readings[] = {
    { "0B", bytes_parse, 0 },
    { "4096B", bytes_parse, 4096 },
    { "1KiB", bytes_parse, 1024 },
    { "80GiB", bytes_parse, (uint64_t)80 << 30 },
    { "1.5MiB", bytes_parse, 1572864 },
    { "512MB", bytes_parse, 512000000 },
    { "3kB", bytes_parse, 3000 },
    { "3KB", bytes_parse, 3000 },
    { "1.0009KiB", bytes_parse, 1024 },  // 1024.9, the part of a byte dropped
    { "2TiB", bytes_parse, (uint64_t)2 << 40 },
    { "61.3 GiB", bytes_parse, 65820373811 },
    { "9007199254740991B", bytes_parse, 9007199254740991 },
    { "20ns", time_parse, 20 },
    { "3us", time_parse, 3000 },
    { "3\xc2\xb5s", time_parse, 3000 },
    { "18522us", time_parse, 18522000 },
    { "1.5ms", time_parse, 1500000 },
    { "1.5ms", span_parse, 1500000 },
    { "10min", span_parse, UINT64_C(600000000000) },
    { "3.1 h", span_parse, UINT64_C(11160000000000) },
    { "54d", span_parse, UINT64_C(4665600000000000) },
    { "0.000000001s", time_parse, 1 },
    { "1.50000000000us", time_parse, 1500 },
    { "2s", time_parse, 2000000000 },
    { "300GB/s", rate_parse, 300000000000 },
    { "25GiB/s", rate_parse, (uint64_t)25 << 30 },
    { "12.5MB/s", rate_parse, 12500000 },
    { "1.9B/s", rate_parse, 1 },
};

static void is_read(void **state)
{
    const struct reading *reading = *state;
    uint64_t value = 1;
    struct error error = { 0 };
    assert_good(reading->parse(reading->name, &value, &error), error);
    assert_int_equal(value, reading->value);
}

struct misreading {
    const char *name, *text;
    parse *parse;
    const char *sentence;
};

static struct misreading misreadings[] = {
    { "a bare number of bytes", "80", bytes_parse, "\"80\" has no unit: write it as a size such as 80GiB" },
    { "a bare time", "3", time_parse, "\"3\" has no unit: write it as a time such as 18522us" },
    { "a bare rate", "300", rate_parse, "\"300\" has no unit: write it as a rate such as 300GB/s" },
    { "an empty size", "", bytes_parse, "\"\" is not a size such as 80GiB" },
    { "a word", "much", bytes_parse, "\"much\" is not a size such as 80GiB" },
    { "a negative size", "-1GiB", bytes_parse, "\"-1GiB\" is not a size such as 80GiB" },
    { "no digit before the point", ".5s", time_parse, "\".5s\" is not a time such as 18522us" },
    { "no digit after the point", "5.s", time_parse, "\"5.s\" is not a time such as 18522us" },
    { "two points", "1.2.3s", time_parse, "\"1.2.3s\" is not a time such as 18522us: unit \".3s\" is not known" },
    { "an unknown unit", "80GIB", bytes_parse, "\"80GIB\" is not a size such as 80GiB: unit \"GIB\" is not known: did you"
      " mean GiB?" },
    { "a small unit", "80gb", bytes_parse, "\"80gb\" is not a size such as 80GiB: unit \"gb\" is not known: did you mean"
      " GB?" },
    { "bits of a rate", "12Gb/s", rate_parse, "\"12Gb/s\" counts bits, and a rate such as 300GB/s bytes: 12 Gb/s are"
      " 1.5GB/s" },
    { "bits of a rate in words", "0.4 Mbit/s", rate_parse, "\"0.4 Mbit/s\" counts bits, and a rate such as 300GB/s bytes:"
      " 0.4 Mb/s are 0.05MB/s" },
    { "bits of a rate per second", "100Gbps", rate_parse, "\"100Gbps\" counts bits, and a rate such as 300GB/s bytes: 100"
      " Gb/s are 12.5GB/s" },
    { "bits of a size", "64kb", bytes_parse, "\"64kb\" counts bits, and a size such as 80GiB bytes: 64 kb are 8kB" },
    { "bytes per second in another spelling", "12GBps", rate_parse, "\"12GBps\" is not a rate such as 300GB/s: unit"
      " \"GBps\" is not known: did you mean GB/s?" },
    { "bits that are no time", "3Gb", time_parse, "\"3Gb\" is not a time such as 18522us: unit \"Gb\" is not known" },
    { "half a unit", "80G", bytes_parse, "\"80G\" is not a size such as 80GiB: write GiB, or GB of powers of 1000" },
    { "half a unit of a rate", "25g/s", rate_parse, "\"25g/s\" is not a rate such as 300GB/s: write GiB/s, or GB/s of"
                                                   " powers of 1000" },
    { "a time for a size", "80s", bytes_parse, "\"80s\" is not a size such as 80GiB: unit \"s\" is not known" },
    { "a size for a rate", "80GB", rate_parse, "\"80GB\" is a size and not a rate such as 300GB/s: write 80GB/s" },
    { "only the slash", "80/s", rate_parse, "\"80/s\" is not a rate such as 300GB/s: unit \"/s\" is not known" },
    { "a part of a ns", "1.5ns", time_parse, "\"1.5ns\" is not a whole number of ns" },
    { "a hidden part of a ns", "1.0005us", time_parse, "\"1.0005us\" is not a whole number of ns" },
    { "2^53 bytes", "9007199254740992B", bytes_parse,
      "\"9007199254740992B\" is too large: the most is 2^53 - 1 B" },
    { "more than any number", "99999999999999999999TiB", bytes_parse,
      "\"99999999999999999999TiB\" is too large: the most is 2^53 - 1 B" },
    { "21 digits", "100000000000000000000s", time_parse,
      "\"100000000000000000000s\" is not a time such as 18522us" },
    { "a fast link", "9999999TB/s", rate_parse, "\"9999999TB/s\" is too large: the most is 2^53 - 1 B/s" },
};

static void is_refused(void **state)
{
    const struct misreading *misreading = *state;
    uint64_t value = 77;
    struct error error = { 0 };
    assert_false(misreading->parse(misreading->text, &value, &error));
    assert_error(error, misreading->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_int_equal(value, 77);
}

static void counts_are_whole_and_in_their_range(void **state)
{
    (void)state;
    uint64_t count = 0;
    struct error error = { 0 };
    assert_good(count_parse("16", "--ranks", 1, 16, &count, &error), error);
    assert_int_equal(count, 16);
    assert_good(count_parse("1", "--ranks", 1, 16, &count, &error), error);
    assert_int_equal(count, 1);

    assert_false(count_parse("17", "--ranks", 1, 16, &count, &error));
    assert_error(error, "--ranks: 17 is not from 1 to 16");
    static const char *const texts[] = { "", "4x", "4.0", "-4", " 4", "0x10", "999999999999999999999" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char sentence[100];
        snprintf(sentence, sizeof sentence, "--ranks: \"%s\" is not a whole number", texts[i]);
        error = (struct error){ 0 };
        assert_false(count_parse(texts[i], "--ranks", 1, 16, &count, &error));
        assert_error(error, sentence);
    }
    error = (struct error){ 0 };
    assert_false(count_parse("18446744073709551616", "seed", 0, UINT64_MAX, &count, &error));
    error = (struct error){ 0 };
    assert_good(count_parse("18446744073709551615", "seed", 0, UINT64_MAX, &count, &error), error);
    assert_true(count == UINT64_MAX);
}

// --- writing ---------------------------------------------------------------------

struct printing {
    const char *name;
    const char *(*format)(uint64_t value, char *buffer);
    uint64_t value;
};

static struct printing printings[] = {
    { "0 B", bytes_format, 0 },
    { "1023 B", bytes_format, 1023 },
    { "1.00 KiB", bytes_format, 1024 },
    { "1.50 KiB", bytes_format, 1536 },
    { "10.0 KiB", bytes_format, 10239 },  // 9.999: rounded before the decimals are chosen
    { "1023 KiB", bytes_format, 1023 * 1024 + 511 },
    { "1.00 MiB", bytes_format, 1023 * 1024 + 512 },
    { "61.3 GiB", bytes_format, 65820373811 },
    { "8192 TiB", bytes_format, ((uint64_t)1 << 53) - 1 },
    { "16777216 TiB", bytes_format, UINT64_MAX },
    { "999 ns", time_format, 999 },
    { "12.0 us", time_format, 12000 },
    { "999 us", time_format, 999499 },
    { "1.00 ms", time_format, 999500 },
    { "1.46 s", time_format, 1459800000 },
    { "3600 s", time_format, 3600000000000 },
    { "0 s", wait_format, 499999999 },
    { "1 s", wait_format, 500000000 },
    { "59 s", wait_format, 59499999999 },
    { "1 min 0 s", wait_format, 59500000000 },
    { "12 min 30 s", wait_format, 750000000000 },
    { "59 min 59 s", wait_format, 3599000000000 },
    { "1 h 0 min", wait_format, 3600000000000 },
    { "3 h 20 min", wait_format, 12059000000000 },
    { "47 h 59 min", wait_format, 172799000000000 },
    { "2 d 0 h", wait_format, 172800000000000 },
    { "5 d 3 h", wait_format, 446399000000000 },
    { "213503 d 23 h", wait_format, UINT64_MAX },
    { "0 B/s", rate_format, 0 },
    { "300 GB/s", rate_format, 300000000000 },
    { "26.8 GB/s", rate_format, (uint64_t)25 << 30 },
};

static void is_printed(void **state)
{
    const struct printing *printing = *state;
    char buffer[NUMBER_SIZE];
    assert_string_equal(printing->format(printing->value, buffer), printing->name);
}

// A value with a random number of bits, so that all sizes are met.
static uint64_t random_value(uint64_t *seed)
{
    const uint64_t bits = 1 + random_below(seed, 53);
    return random_next(seed) >> (64 - bits);
}

// Three digits: what was printed is read back within half a percent.
static void printed_numbers_read_back_nearly_the_same(void **state)
{
    (void)state;
    const struct {
        const char *(*format)(uint64_t value, char *buffer);
        parse *parse;
    } pairs[] = { { bytes_format, bytes_parse }, { time_format, time_parse }, { rate_format, rate_parse } };
    const uint64_t trials = test_trials(20000, 1000000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        const uint64_t value = random_value(&seed);
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            char buffer[NUMBER_SIZE];
            uint64_t again = 0;
            struct error error = { 0 };
            if (!pairs[i].parse(pairs[i].format(value, buffer), &again, &error) && value < most / 2)
                fail_msg("trial %llu: %s", (unsigned long long)trial, error.text);
            const uint64_t off = again > value ? again - value : value - again;
            if (value < most / 2 && off > value / 200 + 1)
                fail_msg("trial %llu: %llu is printed as %s", (unsigned long long)trial, (unsigned long long)value,
                         buffer);
        }
    }
}

static void random_bytes_are_a_number_or_a_sentence(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789.. KMGTiBbkunms/s-+eE\x01\xff";
    for (uint64_t trial = 0; trial < test_trials(50000, 2000000); trial++) {
        uint64_t seed = trial, value = 0;
        char text[24];
        const size_t length = random_below(&seed, sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[random_below(&seed, sizeof alphabet - 1)];
        text[length] = '\0';
        struct error error = { 0 };
        parse *const parsers[] = { bytes_parse, time_parse, rate_parse };
        const bool good = parsers[trial % 3](text, &value, &error);
        if (good != (error.text[0] == '\0') || (good && value > most))
            fail_msg("trial %llu: \"%s\"", (unsigned long long)trial, text);
    }
}

// --- arithmetic --------------------------------------------------------------------

static void a_transfer_takes_latency_and_the_ceiling_of_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(transfer_ns(0, 1000, 5), 5);
    assert_int_equal(transfer_ns(1000000000, 1000000000, 0), 1000000000);
    assert_int_equal(transfer_ns(1, 3, 7), 7 + 333333334);
    assert_int_equal(transfer_ns(12345, 0, 7), 7);
    // 2^53 - 1 bytes at 10^9 bytes per second: bytes * 10^9 passes 64 bits.
    assert_true(transfer_ns(most, 1000000000, 1) == most + 1);
    assert_true(transfer_ns(UINT64_MAX, 1, 1) == UINT64_MAX);
    assert_true(transfer_ns(1000000000, 1000000000, UINT64_MAX) == UINT64_MAX);
}

static void sums_and_products_stay_at_the_top(void **state)
{
    (void)state;
    assert_int_equal(add_clamped(2, 3), 5);
    assert_true(add_clamped(UINT64_MAX, 0) == UINT64_MAX);
    assert_true(add_clamped(UINT64_MAX - 1, 2) == UINT64_MAX);
    assert_int_equal(multiply_clamped(6, 7), 42);
    assert_int_equal(multiply_clamped(UINT64_MAX, 0), 0);
    assert_true(multiply_clamped((uint64_t)1 << 32, (uint64_t)1 << 32) == UINT64_MAX);
}

static void tensors_are_counted_in_256_bytes(void **state)
{
    (void)state;
    assert_int_equal(round_to_256(0), 0);
    assert_int_equal(round_to_256(1), 256);
    assert_int_equal(round_to_256(256), 256);
    assert_int_equal(round_to_256(257), 512);
    assert_true(round_to_256(UINT64_MAX) == UINT64_MAX - 255);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

int main(void)
{
    struct CMUnitTest tests[COUNT(readings) + COUNT(misreadings) + COUNT(printings) + 6] = {
        cmocka_unit_test(counts_are_whole_and_in_their_range),
        cmocka_unit_test(printed_numbers_read_back_nearly_the_same),
        cmocka_unit_test(random_bytes_are_a_number_or_a_sentence),
        cmocka_unit_test(a_transfer_takes_latency_and_the_ceiling_of_its_bytes),
        cmocka_unit_test(sums_and_products_stay_at_the_top),
        cmocka_unit_test(tensors_are_counted_in_256_bytes),
    };
    struct CMUnitTest *next = tests + 6;
    for (size_t i = 0; i < COUNT(readings); i++)
        *next++ = (struct CMUnitTest)TEST_ROW(is_read, &readings[i]);
    for (size_t i = 0; i < COUNT(misreadings); i++)
        *next++ = (struct CMUnitTest)TEST_ROW(is_refused, &misreadings[i]);
    for (size_t i = 0; i < COUNT(printings); i++)
        *next++ = (struct CMUnitTest)TEST_ROW(is_printed, &printings[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
