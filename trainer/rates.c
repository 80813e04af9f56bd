#include "trainer/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_SHARE 0.1f

static const char *const forms[] = { [RATE_COSINE] = "cosine", [RATE_LINEAR] = "linear", [RATE_CONSTANT] = "constant" };

#define MOST_RATE 100

// Parses a number of `length` characters.
static bool take_any_number(const char *word, size_t length, float *number)
{
    char digits[RATES_SIZE] = { 0 };
    char *end;
    if (length == 0 || length >= sizeof digits || strspn(word, "0123456789.e-+") < length)
        return false;
    memcpy(digits, word, length);
    *number = strtof(digits, &end);
    return *end == '\0';
}

static bool take_number(const char *word, size_t length, float *number)
{
    return take_any_number(word, length, number) && *number >= 0 && *number <= MOST_RATE;
}

static bool take_highest(const char *words, size_t length, float *rate, struct error *error)
{
    if (strlen(words) > RATES_SIZE - 4)
        return error_set(error, "\"%.60s..\" has %zu characters; at most %d are read", words, strlen(words),
                         RATES_SIZE - 4);
    if (!take_any_number(words, length, rate))
        return error_set(error, "\"%s\" does not begin with a learning rate, such as 0.003", words);
    if (!(*rate > 0))
        return error_set(error, "%.*s is no learning rate, which is above 0, such as 0.003", (int)length, words);
    return *rate <= MOST_RATE
        || error_set(error, "%.*s is no learning rate, which is at most %d, such as 0.003", (int)length, words,
                     MOST_RATE);
}

static bool take_steps(const char *word, size_t length, uint32_t *steps)
{
    if (length == 0 || length > 9 || strspn(word, "0123456789") < length)
        return false;
    *steps = (uint32_t)strtoul(word, NULL, 10);
    return true;
}

static bool take_form(const char *word, size_t length, enum rate_form *form)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strlen(forms[i]) == length && strncmp(word, forms[i], length) == 0) {
            *form = (enum rate_form)i;
            return true;
        }
    return false;
}

static const char *behind(const char *word, size_t length, const char *name)
{
    const size_t name_length = strlen(name);
    return length > name_length && strncmp(word, name, name_length) == 0 ? word + name_length : NULL;
}

static bool take_word(const char *word, size_t length, struct rates *rates)
{
    const char *steps = behind(word, length, "warm-up:"), *last = behind(word, length, "to:");
    const char *per = behind(word, length, "per:");
    float number = 0;
    if (steps)
        return rates->has_warm_up = take_steps(steps, length - (size_t)(steps - word), &rates->warm_up);
    if (per)
        return take_steps(per, length - (size_t)(per - word), &rates->per) && rates->per > 0;
    if (!last)
        return take_form(word, length, &rates->form);
    if (!take_number(last, length - (size_t)(last - word), &number) || number > rates->highest)
        return false;
    rates->share = number / rates->highest;
    return true;
}

bool rates_parse(const char *words, struct rates *rates, struct error *error)
{
    const size_t first = strcspn(words, ",");
    *rates = (struct rates){ .share = USUAL_SHARE };
    if (!take_highest(words, first, &rates->highest, error))
        return false;
    for (const char *word = words + first; *word;) {
        const size_t length = strcspn(++word, ",");
        if (!take_word(word, length, rates))
            return error_set(error, "\"%.*s\": behind a rate come cosine, linear or constant, warm-up:STEPS,"
                             " per:SAMPLES, and to:RATE, the last, which is no higher", (int)length, word);
        word += length;
    }
    return true;
}

void rates_format_number(float number, char word[RATES_SIZE])
{
    for (int digits = 1; digits <= 9; digits++) {  // 9 digits tell any two floats apart
        snprintf(word, RATES_SIZE, "%.*g", digits, (double)number);
        if (strtof(word, NULL) == number)
            return;
    }
}

struct rates rates_for_batch(const struct rates *rates, uint64_t batch)
{
    struct rates made = *rates;
    if (rates->per > 0)
        made.highest = (float)((double)rates->highest * (double)batch / rates->per);
    made.per = 0;
    return made;
}

void rates_format(const struct rates *rates, char words[RATES_SIZE])
{
    rates_format_number(rates->highest, words);
    size_t used = strlen(words);
    if (rates->form != RATE_COSINE)
        used += (size_t)snprintf(words + used, RATES_SIZE - used, ",%s", forms[rates->form]);
    if (rates->has_warm_up)
        used += (size_t)snprintf(words + used, RATES_SIZE - used, ",warm-up:%u", rates->warm_up);
    if (rates->share != USUAL_SHARE && rates->form != RATE_CONSTANT) {
        char last[RATES_SIZE];
        rates_format_number(rates->share * rates->highest, last);
        used += (size_t)snprintf(words + used, RATES_SIZE - used, ",to:%.20s", last);
    }
    if (rates->per > 0)
        snprintf(words + used, RATES_SIZE - used, ",per:%u", rates->per);
}

float rates_at(const struct rates *rates, uint32_t step, uint32_t steps)
{
    const float warm = rates->has_warm_up ? (float)rates->warm_up : fmaxf(1, (float)steps / 10);
    if ((float)step < warm)
        return rates->highest * ((float)step + 1) / warm;
    const float done = ((float)step - warm) / fmaxf(1, (float)steps - warm), share = rates->share;
    switch (rates->form) {
    case RATE_CONSTANT:
        return rates->highest;
    case RATE_LINEAR:
        return rates->highest * (1 - (1 - share) * done);
    default:
        return rates->highest * (share + (1 - share) / 2 * (1 + cosf(done * 3.14159265f)));
    }
}
