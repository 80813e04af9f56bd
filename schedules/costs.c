#include "schedules/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/cost_row.h"

// --- quantities -----------------------------------------------------------------

enum { F, I, W, LATENCY, OVERLAPPED, QUANTITIES };  // the last is given separately
enum { MOST_DECIMALS = 9, MOST_LETTERS = 40 };

struct quantities {
    char text[QUANTITIES][MOST_LETTERS + 1];
    size_t count;
    uint64_t value[QUANTITIES];  // in ns or, for plain numbers, digits over a power of ten
    unsigned decimals[QUANTITIES];
};

// Splits the quantities at their commas.
static bool split(const char *text, const char *overlapped, struct quantities *to, struct error *error)
{
    size_t count = 0;
    for (const char *word = text; word; count++) {
        const size_t length = strcspn(word, ",");
        if (length > MOST_LETTERS)
            return error_set(error, "\"%.*s...\" is longer than %d letters", MOST_LETTERS, word, MOST_LETTERS);
        if (count < OVERLAPPED)
            memcpy(to->text[count], word, length);
        word = word[length] ? word + length + 1 : NULL;
    }
    if (count != OVERLAPPED)
        return error_set(error, "takes 4 quantities, F,I,W,C, not %zu", count);
    to->count = overlapped ? QUANTITIES : OVERLAPPED;
    if (overlapped && strlen(overlapped) > MOST_LETTERS)
        return error_set(error, "overlapped: is longer than %d letters", MOST_LETTERS);
    if (overlapped)
        memcpy(to->text[OVERLAPPED], overlapped, strlen(overlapped));
    return true;
}

static bool read_all(struct quantities *to, bool plain, struct error *error)
{
    for (size_t i = 0; i < to->count; i++) {
        const char *text = to->text[i];
        bool good = plain || time_parse(text, &to->value[i], error);
        if (plain && !decimal_parse(text, &to->value[i], &to->decimals[i]))
            good = error_set(error, "\"%s\" is not a number such as 2.5, as \"%s\" is: give all of them units, or none",
                             text, to->text[0]);
        else if (to->decimals[i] > MOST_DECIMALS)
            good = error_set(error, "\"%s\" has more than %d decimals", text, MOST_DECIMALS);
        if (!good)
            return i == OVERLAPPED ? error_at(error, "overlapped") : false;
    }
    return true;
}

static uint64_t power_of_ten(unsigned exponent)
{
    uint64_t power = 1;
    while (exponent-- > 0)
        power *= 10;
    return power;
}

// Turns plain numbers into integers: first all over the same power of ten, then over the smallest possible divisor.
static bool scale(struct quantities *to, uint64_t *unit_ns, struct error *error)
{
    unsigned most = 0;
    for (size_t i = 0; i < to->count; i++)
        most = to->decimals[i] > most ? to->decimals[i] : most;
    uint64_t divisor = power_of_ten(most);
    for (size_t i = 0; i < to->count; i++) {
        to->value[i] = multiply_clamped(to->value[i], power_of_ten(most - to->decimals[i]));
        if (to->value[i] > JSON_MAX)
            return error_set(error, "\"%s\" is too large beside numbers of %u decimals", to->text[i], most);
        divisor = greatest_common(divisor, to->value[i]);
    }
    for (size_t i = 0; i < to->count; i++)
        to->value[i] /= divisor;
    *unit_ns = power_of_ten(most) / divisor;
    return true;
}

static bool create_rows(struct costs *costs, size_t count, struct error *error)
{
    costs->rows = calloc(count ? count : 1, sizeof *costs->rows);
    costs->count = (uint32_t)count;
    return costs->rows || error_no_memory(error, "the costs of a schedule");
}

bool costs_parse(const char *quantities, const char *overlapped, struct costs *costs, struct error *error)
{
    struct quantities given = { .count = 0 };
    uint64_t digits;
    unsigned decimals;
    *costs = (struct costs){ .has_latency = true };
    if (!split(quantities, overlapped, &given, error))
        return false;
    const bool plain = decimal_parse(given.text[0], &digits, &decimals);
    if (!read_all(&given, plain, error) || (plain && !scale(&given, &costs->unit_ns, error))
        || !create_rows(costs, 1, error))
        return false;
    if (given.value[I] + given.value[W] > JSON_MAX)
        return error_set(error, "I and W add up to more than 2^53 - 1 ns, 104 days");
    costs->latency_ns = given.value[LATENCY];
    costs->rows[0] = (struct cost_row){
        .forward_ns = given.value[F],
        .backward_ns = given.value[I] + given.value[W],
        .backward_input_ns = given.value[I],
        .backward_weight_ns = given.value[W],
        .overlapped_ns = given.value[OVERLAPPED],
    };
    return true;
}

// --- documents -------------------------------------------------------------------

static bool read_rows(struct json *root, struct costs *costs, struct error *error)
{
    json_format(root, "weir.costs");
    if (json_has(root, "notes"))
        json_string(root, "notes");
    costs->has_latency = json_has(root, "latency_ns");
    if (costs->has_latency)
        costs->latency_ns = json_u64(root, "latency_ns", 0, JSON_MAX);
    struct json rows = json_array(root, "costs"), row;
    if (rows.node && (json_count(&rows) == 0 || json_count(&rows) > UINT16_MAX))
        json_refuse(&rows, "has %zu rows, not 1 to %d", json_count(&rows), UINT16_MAX);
    if (!json_ok(root->document, error) || !create_rows(costs, json_count(&rows), error))
        return false;
    for (struct cost_row *to = costs->rows; json_next(&rows, &row); to++) {
        json_item_object(&row);
        cost_row_read_short(&row, to);
        json_end(&row);
    }
    json_end(root);
    return json_ok(root->document, error);
}

// Takes the rows of a schedule's document, which must have costs.
static bool take_schedules(const char *text, size_t length, const char *name, struct costs *costs, struct error *error)
{
    struct schedule *schedule = schedule_read(text, length, name, error);
    if (schedule && !schedule->costs)
        error_named(error, "%s: is a schedule without costs", name);
    const bool good = schedule && schedule->costs && create_rows(costs, schedule->stages, error);
    if (good)
        memcpy(costs->rows, schedule->costs, schedule->stages * sizeof *costs->rows);
    schedule_free(schedule);
    return good;
}

bool costs_read(const char *text, size_t length, const char *name, struct costs *costs, struct error *error)
{
    *costs = (struct costs){ .rows = NULL };
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return false;
    struct json root = json_root(document);
    const bool is_schedule = strcmp(json_string(&root, "format"), "weir.schedule") == 0;
    const bool good = !is_schedule && read_rows(&root, costs, error);
    json_free(document);
    return is_schedule ? take_schedules(text, length, name, costs, error) : good;
}

void costs_clear(struct costs *costs)
{
    free(costs->rows);
    *costs = (struct costs){ .rows = NULL };
}

// --- use -------------------------------------------------------------------------

bool costs_spread(struct costs *costs, uint32_t stages, struct error *error)
{
    if (costs->count == stages)
        return true;
    if (costs->count != 1)
        return error_set(error, "has costs of %u stages, not of %u", costs->count, stages);
    struct cost_row *rows = realloc(costs->rows, stages * sizeof *rows);
    if (!rows)
        return error_no_memory(error, "the costs of a schedule");
    for (uint32_t stage = 1; stage < stages; stage++)
        rows[stage] = rows[0];
    costs->rows = rows;
    costs->count = stages;
    return true;
}

void costs_keep(struct cost_row *rows, uint32_t stages, const struct kept_bytes *kept)
{
    for (uint32_t stage = 0; stage < stages && kept->has_forward; stage++)
        rows[stage].kept_forward_bytes = kept->forward_bytes;
    for (uint32_t stage = 0; stage < stages && kept->has_weight; stage++)
        rows[stage].kept_weight_bytes = kept->weight_bytes;
}

// The result is exact, since a unit divides a power of ten.
const char *costs_format(uint64_t unit_ns, uint64_t ns, char *buffer)
{
    if (unit_ns == 0)
        return time_format(ns, buffer);
    int used = snprintf(buffer, NUMBER_SIZE, "%llu", (unsigned long long)(ns / unit_ns));
    uint64_t rest = ns % unit_ns;
    if (rest)
        buffer[used++] = '.';
    for (; rest && used < NUMBER_SIZE - 1; rest = 10 * rest % unit_ns)
        buffer[used++] = (char)('0' + 10 * rest / unit_ns);
    buffer[used] = '\0';
    return buffer;
}
