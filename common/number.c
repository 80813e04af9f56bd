#include "common/number.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/alike.h"

typedef unsigned __int128 wide;

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    { "B", 1 },
    { "KiB", (uint64_t)1 << 10 }, { "MiB", (uint64_t)1 << 20 }, { "GiB", (uint64_t)1 << 30 },
    { "TiB", (uint64_t)1 << 40 },
    { "KB", 1000 }, { "kB", 1000 }, { "MB", 1000000 }, { "GB", 1000000000 }, { "TB", 1000000000000 },
    { NULL, 0 },
};

static const struct unit time_units[] = {
    { "ns", 1 }, { "us", 1000 }, { "\u00b5s", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL, 0 },
};

static const struct unit span_units[] = {
    { "ns", 1 }, { "us", 1000 }, { "\u00b5s", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "min", 60000000000 },
    { "h", 3600000000000 }, { "d", 86400000000000 }, { NULL, 0 },
};

static const uint64_t most_number = ((uint64_t)1 << 53) - 1;

// --- reading -------------------------------------------------------------------

// A decimal number as digits over a power of ten: "1.50" is 150 / 100.
struct decimal {
    wide digits;
    wide over;
};

// Reads digits, which may contain a point. Returns what follows, or NULL if there is no such number or it has more
// than 20 digits.
static const char *decimal_read(const char *text, struct decimal *decimal)
{
    *decimal = (struct decimal){ .digits = 0, .over = 1 };
    unsigned count = 0;
    bool point = false;
    for (;; text++) {
        if (*text == '.' && !point && count > 0) {
            point = true;
        } else if (*text >= '0' && *text <= '9' && count < 20) {
            decimal->digits = decimal->digits * 10 + (wide)(*text - '0');
            decimal->over *= point ? 10 : 1;
            count++;
        } else {
            break;
        }
    }
    const bool good = count > 0 && text[-1] != '.' && !(*text >= '0' && *text <= '9');
    return good ? text : NULL;
}

static const struct unit *unit_find(const struct unit *units, const char *name, size_t length)
{
    for (; units->name; units++)
        if (strlen(units->name) == length && memcmp(units->name, name, length) == 0)
            return units;
    return NULL;
}

// "80G" could be two sizes. Returns the binary unit of that letter, or NULL.
static const struct unit *unit_of_letter(const struct unit *units, const char *name, size_t length)
{
    for (; length == 1 && units->name; units++)
        if (strlen(units->name) == 3 && units->name[0] == toupper((unsigned char)*name))
            return units;
    return NULL;
}

// The unit of bytes that corresponds to a unit of bits: "Gb", "Gbit", "Gbps" correspond to GB. NULL if there is
// none. "ps" is the "/s" of a rate.
static const struct unit *unit_of_bits(const struct unit *units, const char *name, size_t length)
{
    const char *ends[] = { "b", "bit", "bits", "bps", "bitps" };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t end = strlen(ends[i]);
        if (length < 2 || length != end + 1 || memcmp(name + 1, ends[i], end) != 0)
            continue;
        for (const struct unit *unit = units; unit->name; unit++)
            if (strlen(unit->name) == 2 && unit->name[0] == *name && unit->name[1] == 'B')
                return unit;
    }
    return NULL;
}

// Describes a value for error sentences: a kind ("a size") and an example.
struct meaning {
    const char *kind, *example, *suffix;
    const struct unit *units;
    bool whole;  // a fraction of the smallest unit is refused, not dropped
};

// An eighth of the number, with as many decimals as needed: "12" gives "1.5".
static const char *eighth_format(struct decimal decimal, char buffer[NUMBER_SIZE])
{
    const wide over = decimal.over * 1000, digits = decimal.digits * 125;
    int length = snprintf(buffer, NUMBER_SIZE, "%llu.", (unsigned long long)(digits / over));
    for (wide part = digits % over, ten = over / 10; part > 0 && length < NUMBER_SIZE - 1; part %= ten, ten /= 10)
        length += snprintf(buffer + length, (size_t)(NUMBER_SIZE - length), "%d", (int)(part / ten));
    if (buffer[length - 1] == '.')
        buffer[length - 1] = '\0';
    return buffer;
}

// Refuses something that is similar to a unit but is not one; says what it is, or should be. Returns false, with the
// error set in any case.
static bool refuse_unit(const char *text, const struct meaning *meaning, struct decimal decimal, const char *name,
                        struct error *error)
{
    const size_t length = strlen(name), suffix = strlen(meaning->suffix);
    const bool ends = length > suffix && strcmp(name + length - suffix, meaning->suffix) == 0;
    const size_t letters = ends ? length - suffix : length;
    const struct unit *by_letter = unit_of_letter(meaning->units, name, letters),
                      *bytes = unit_of_bits(meaning->units, name, letters);
    char eighth[NUMBER_SIZE];
    if (by_letter)
        return error_set(error, "\"%s\" is not %s such as %s: write %s%s, or %cB%s of powers of 1000", text,
                         meaning->kind, meaning->example, by_letter->name, meaning->suffix, by_letter->name[0],
                         meaning->suffix);
    if (bytes)
        return error_set(error, "\"%s\" counts bits, and %s such as %s bytes: %.*s %.*sb%s are %s%s%s", text,
                         meaning->kind, meaning->example, (int)strspn(text, "0123456789."), text, 1, name,
                         meaning->suffix, eighth_format(decimal, eighth), bytes->name, meaning->suffix);
    if (*meaning->suffix && unit_find(meaning->units, name, length))
        return error_set(error, "\"%s\" is a size and not %s such as %s: write %s%s", text, meaning->kind,
                         meaning->example, text, meaning->suffix);
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (const struct unit *unit = meaning->units; unit->name; unit++) {
        char known[16];
        snprintf(known, sizeof known, "%s%s", unit->name, meaning->suffix);
        alike_try(&alike, name, known);
    }
    return error_set(error, "\"%s\" is not %s such as %s: unit \"%s\" is not known%s", text, meaning->kind,
                     meaning->example, name, alike_said(&alike, said));
}

static bool quantity_parse(const char *text, const struct meaning *meaning, uint64_t *value, struct error *error)
{
    struct decimal decimal;
    const char *name = decimal_read(text, &decimal);
    if (!name)
        return error_set(error, "\"%s\" is not %s such as %s", text, meaning->kind, meaning->example);
    name += *name == ' ';
    if (*name == '\0')
        return error_set(error, "\"%s\" has no unit: write it as %s such as %s", text, meaning->kind, meaning->example);

    const size_t length = strlen(name), suffix = strlen(meaning->suffix);
    const bool ends = length > suffix && strcmp(name + length - suffix, meaning->suffix) == 0;
    const struct unit *unit = ends ? unit_find(meaning->units, name, length - suffix) : NULL;
    if (!unit)
        return refuse_unit(text, meaning, decimal, name, error);

    const wide scaled = decimal.digits * unit->factor;
    if (meaning->whole && scaled % decimal.over != 0)
        return error_set(error, "\"%s\" is not a whole number of %s", text, meaning->units[0].name);
    if (scaled / decimal.over > most_number)
        return error_set(error, "\"%s\" is too large: the most is 2^53 - 1 %s%s", text, meaning->units[0].name,
                         meaning->suffix);
    *value = (uint64_t)(scaled / decimal.over);
    return true;
}

bool bytes_parse(const char *text, uint64_t *bytes, struct error *error)
{
    static const struct meaning size = { "a size", "80GiB", "", byte_units, false };
    return quantity_parse(text, &size, bytes, error);
}

bool time_parse(const char *text, uint64_t *ns, struct error *error)
{
    static const struct meaning time = { "a time", "18522us", "", time_units, true };
    return quantity_parse(text, &time, ns, error);
}

bool span_parse(const char *text, uint64_t *ns, struct error *error)
{
    static const struct meaning span = { "a time", "10min", "", span_units, true };
    return quantity_parse(text, &span, ns, error);
}

bool rate_parse(const char *text, uint64_t *bytes_per_second, struct error *error)
{
    static const struct meaning rate = { "a rate", "300GB/s", "/s", byte_units, false };
    return quantity_parse(text, &rate, bytes_per_second, error);
}

bool decimal_parse(const char *text, uint64_t *digits, unsigned *decimals)
{
    struct decimal decimal;
    const char *rest = decimal_read(text, &decimal);
    if (!rest || *rest != '\0' || decimal.digits >= 1000000000000000000u || rest - text > 19)
        return false;
    *digits = (uint64_t)decimal.digits;
    *decimals = 0;
    for (; decimal.over > 1; decimal.over /= 10)
        (*decimals)++;
    return true;
}

bool count_parse(const char *text, const char *what, uint64_t least, uint64_t most, uint64_t *count,
                 struct error *error)
{
    struct decimal decimal;
    const char *rest = decimal_read(text, &decimal);
    if (!rest || *rest != '\0' || strchr(text, '.'))
        return error_set(error, "%s: \"%s\" is not a whole number", what, text);
    if (decimal.digits < least || decimal.digits > most)
        return error_set(error, "%s: %s is not from %llu to %llu", what, text, (unsigned long long)least,
                         (unsigned long long)most);
    *count = (uint64_t)decimal.digits;
    return true;
}

// --- writing -------------------------------------------------------------------

enum { UNIT_LIST = 6 };  // the units for printing, smallest first, then one without a name

static const struct unit printed_bytes[UNIT_LIST] = {
    { "B", 1 }, { "KiB", (uint64_t)1 << 10 }, { "MiB", (uint64_t)1 << 20 }, { "GiB", (uint64_t)1 << 30 },
    { "TiB", (uint64_t)1 << 40 },
};

static const struct unit printed_times[UNIT_LIST] = {
    { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
};

static const struct unit printed_rates[UNIT_LIST] = {
    { "B/s", 1 }, { "kB/s", 1000 }, { "MB/s", 1000000 }, { "GB/s", 1000000000 }, { "TB/s", 1000000000000 },
};

// value * scale / factor, rounded to the nearest integer.
static uint64_t scale_rounded(uint64_t value, uint64_t scale, uint64_t factor)
{
    const wide scaled = ((wide)value * scale + factor / 2) / factor;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

// Prints in the first unit of which fewer than `step` are needed, with as many decimals as make three digits. Both
// are decided after rounding: 1023.9 KiB is "1.00 MiB", and 9.999 KiB is "10.0 KiB".
static const char *quantity_format(uint64_t value, const struct unit *unit, uint64_t step, char *buffer)
{
    while (unit[1].name && scale_rounded(value, 1, unit->factor) >= step)
        unit++;
    int decimals = unit->factor == 1 ? 0 : 2;
    uint64_t scale = decimals == 2 ? 100 : 1;
    while (decimals > 0 && scale_rounded(value, scale, unit->factor) >= 1000) {
        decimals--;
        scale /= 10;
    }
    const unsigned long long rounded = scale_rounded(value, scale, unit->factor);
    if (decimals == 0)
        snprintf(buffer, NUMBER_SIZE, "%llu %s", rounded, unit->name);
    else
        snprintf(buffer, NUMBER_SIZE, "%llu.%0*llu %s", rounded / scale, decimals, rounded % scale, unit->name);
    return buffer;
}

const char *bytes_format(uint64_t bytes, char *buffer)
{
    return quantity_format(bytes, printed_bytes, 1024, buffer);
}

const char *time_format(uint64_t ns, char *buffer)
{
    return quantity_format(ns, printed_times, 1000, buffer);
}

const char *wait_format(uint64_t ns, char *buffer)
{
    const unsigned long long s = ns / 1000000000 + (ns % 1000000000 >= 500000000);
    const unsigned long long minutes = s / 60, hours = s / 3600, days = s / 86400;
    if (minutes == 0)
        snprintf(buffer, NUMBER_SIZE, "%llu s", s);
    else if (hours == 0)
        snprintf(buffer, NUMBER_SIZE, "%llu min %llu s", minutes, s % 60);
    else if (days < 2)
        snprintf(buffer, NUMBER_SIZE, "%llu h %llu min", hours, minutes % 60);
    else
        snprintf(buffer, NUMBER_SIZE, "%llu d %llu h", days, hours % 24);
    return buffer;
}

const char *rate_format(uint64_t bytes_per_second, char *buffer)
{
    return quantity_format(bytes_per_second, printed_rates, 1000, buffer);
}

// --- arithmetic ------------------------------------------------------------------

uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_per_second, uint64_t latency_ns)
{
    if (bytes_per_second == 0)
        return latency_ns;
    const wide ns = ((wide)bytes * 1000000000u + bytes_per_second - 1) / bytes_per_second;
    return add_clamped(latency_ns, ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns);
}

uint64_t add_clamped(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t multiply_clamped(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t round_to_256(uint64_t bytes)
{
    return add_clamped(bytes, 255) & ~(uint64_t)255;
}
