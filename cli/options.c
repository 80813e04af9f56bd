#include "cli/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/number.h"
#include "common/text.h"

uint64_t option_count(const char *argument, const char *name, uint64_t least, uint64_t most, struct argp_state *state)
{
    struct error error = { 0 };
    uint64_t count = 0;
    if (!count_parse(argument, name, least, most, &count, &error))
        argp_error(state, "%s", error.text);
    return count;
}

static double option_number(const char *argument, const char *name, double most, struct argp_state *state)
{
    char *end;
    const double number = strtod(argument, &end);
    if (end == argument || *end || !(number > 0 && number < most))
        argp_error(state, "%s: \"%s\" is not a number above 0 and below %g", name, argument, most);
    return number;
}

size_t option_names(const char *argument, const char *name, char **copy, const char **names, size_t room,
                    struct argp_state *state)
{
    size_t count = 0;
    free(*copy);
    *copy = strdup(argument);
    if (!*copy)
        argp_failure(state, ERROR_MACHINE, 0, "no memory for --%s", name);
    for (char *rest = *copy, *one; (one = strsep(&rest, ","));) {
        if (count == room)
            argp_error(state, "--%s: takes up to %zu names", name, room);
        names[count++] = one;
    }
    return count;
}

size_t option_counts(const char *argument, const char *name, uint64_t least, uint64_t most, uint32_t *counts,
                     size_t room, struct argp_state *state)
{
    const bool in_brackets = *argument == '[';
    size_t count = 0;
    for (const char *cursor = argument + in_brackets;; cursor++) {
        char number[32];
        const size_t length = strcspn(cursor, in_brackets ? ",]" : ",");
        if (count == room)
            argp_error(state, "%s: takes up to %zu numbers", name, room);
        snprintf(number, sizeof number, "%.*s", (int)length, cursor);
        counts[count++] = (uint32_t)option_count(number, name, least, most, state);
        cursor += length;
        if (*cursor == ',')
            continue;
        if (strcmp(cursor, in_brackets ? "]" : "") != 0)
            argp_error(state, "%s: \"%s\" is not numbers with commas between them", name, argument);
        return count;
    }
}

size_t option_all_counts(const char *argument, const char *name, uint64_t least, uint64_t most, uint32_t **counts,
                         struct argp_state *state)
{
    size_t room = 1;
    for (const char *letter = argument; *letter; letter++)
        room += *letter == ',';
    free(*counts);
    *counts = calloc(room, sizeof **counts);
    if (!*counts)
        argp_failure(state, ERROR_MACHINE, 0, "no memory for %s", name);
    return *counts ? option_counts(argument, name, least, most, *counts, room, state) : 0;
}

uint32_t option_share(const char *argument, const char *name, uint32_t most_ppm, struct argp_state *state)
{
    uint64_t ppm = 0, unit = 10000;
    const char *cursor = argument;
    for (; *cursor >= '0' && *cursor <= '9' && ppm <= most_ppm; cursor++)
        ppm = ppm * 10 + (uint64_t)(*cursor - '0') * unit;
    if (cursor > argument && *cursor == '.') {
        for (cursor++; *cursor >= '0' && *cursor <= '9' && unit > 1; cursor++)
            ppm += (uint64_t)(*cursor - '0') * (unit /= 10);
    }
    if (cursor == argument || strcmp(cursor, "%") != 0 || ppm > most_ppm)
        argp_error(state, "%s: \"%s\" is no share such as 5%% (0%% to %u%%, at most four decimals)", name, argument,
                   most_ppm / 10000);
    return (uint32_t)ppm;
}

unsigned option_name(const char *argument, const char *option, const char *const names[], struct argp_state *state)
{
    struct text known = { 0 };
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (unsigned i = 0; names[i]; i++) {
        if (strcmp(names[i], argument) == 0) {
            text_clear(&known);
            return i;
        }
        alike_try(&alike, argument, names[i]);
        text_add(&known, "%s%s", i ? ", " : "", names[i]);
    }
    argp_error(state, "%s: \"%s\" is none of %s%s", option, argument, known.data ? known.data : "",
               alike_said(&alike, said));
    return 0;
}

static bool is_among(const char *name, const char *const names[])
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

const struct argp *options_hide(const struct argp *argp, const char *const names[], struct hiding *hiding)
{
    *hiding = (struct hiding){ .argp = *argp };
    for (size_t i = 0; argp->options[i].name; i++) {
        assert(i < HIDING_MOST_OPTIONS);
        hiding->options[i] = argp->options[i];
        if (!names || is_among(argp->options[i].name, names))
            hiding->options[i].flags |= OPTION_HIDDEN;
    }
    hiding->argp.options = hiding->options;
    return &hiding->argp;
}

void option_argument(const char **to, const char *argument, const char *what, struct argp_state *state)
{
    if (!*argument)
        argp_error(state, "the name of a %s is empty", what);
    if (*to)
        argp_error(state, "one %s, not also \"%s\"", what, argument);
    *to = argument;
}

static uint64_t take_u64(const struct option_field *field, const char *argument, const char *name,
                         struct argp_state *state)
{
    struct error error = { 0 };
    uint64_t number = 0;
    if (!field->parse)
        return option_count(argument, name, field->least, field->most, state);
    if (!field->parse(argument, &number, &error))
        argp_error(state, "%s: %s", name, error.text);
    if (number == 0 && field->needs)
        argp_error(state, "%s: %s %s", name, field->needs, argument);
    return number;
}

error_t option_take(const struct argp_option *options, const struct option_field *fields, int key, char *argument,
                    void *given, struct argp_state *state)
{
    while (fields->form != FORM_NONE && fields->key != key)
        fields++;
    while (options->name && options->key != key)
        options++;
    void *to = (char *)given + fields->offset;
    struct option_numbers *numbers = to;
    char name[64];
    snprintf(name, sizeof name, "--%s", options->name ? options->name : "");
    if (fields->given > 0)
        *((bool *)given + fields->given) = true;
    switch (fields->form) {
    case FORM_NONE:
        return ARGP_ERR_UNKNOWN;
    case FORM_TEXT:
        if (fields->what)
            option_argument(to, argument, fields->what, state);
        else
            *(const char **)to = argument;
        break;
    case FORM_BOOL:
        *(bool *)to = !argument || option_name(argument, name, (const char *const[]){ "no", "yes", NULL }, state) == 1;
        break;
    case FORM_U32:
        *(uint32_t *)to = fields->names    ? option_name(argument, name, fields->names, state)
                        : fields->is_share ? option_share(argument, name, (uint32_t)fields->most, state)
                                           : (uint32_t)option_count(argument, name, fields->least, fields->most, state);
        break;
    case FORM_U64:
        *(uint64_t *)to = take_u64(fields, argument, name, state);
        break;
    case FORM_DOUBLE:
        *(double *)to = option_number(argument, name, (double)fields->most, state);
        break;
    case FORM_NUMBERS:
        numbers->count = option_counts(argument, name, fields->least, fields->most, numbers->at,
                                       sizeof numbers->at / sizeof numbers->at[0], state);
        break;
    }
    return 0;
}

error_t shared_option(int key, char *argument, struct shared_options *options, struct argp_state *state)
{
    static const struct argp_option numbers[] = {
        OPTION_RANKS, OPTION_CHUNKS, OPTION_MICRO_BATCHES, OPTION_MEMORY, { 0 },
    };
    static const struct option_field fields[] = {
        { KEY_RANKS, OPTION_FIELD(struct shared_options, ranks), .least = 1, .most = ASKED_MOST_RANKS },
        { KEY_CHUNKS, OPTION_FIELD(struct shared_options, chunks), .least = 1, .most = ASKED_MOST_CHUNKS },
        { KEY_MICRO_BATCHES, OPTION_FIELD(struct shared_options, micro_batches),
          .least = 1, .most = ASKED_MOST_MICRO_BATCHES },
        { KEY_MEMORY, OPTION_FIELD(struct shared_options, memory_bytes), .parse = bytes_parse,
          .needs = "a device needs more than" },
        { KEY_SCHEDULE, OPTION_FIELD(struct shared_options, schedule) },
        { KEY_CLUSTER, OPTION_FIELD(struct shared_options, cluster) },
        { KEY_JSON, OPTION_FIELD(struct shared_options, json) },
        { KEY_PAD_VOCABULARY, OPTION_FIELD(struct shared_options, pad_vocabulary) },
        { KEY_OWN_ORDER, OPTION_FIELD(struct shared_options, own_order) },
        { 'o', OPTION_FIELD(struct shared_options, output) },
        { 0 },
    };
    return option_take(numbers, fields, key, argument, options, state);
}

float option_clip(const char *argument, struct argp_state *state)
{
    const float number = (float)option_number(argument, "--clip", 1e30, state);
    if (number == 0)
        argp_error(state, "--clip: %s is 0 in the numbers that are trained with", argument);
    return number;
}

struct loss_scaling option_loss_scale(const char *argument, struct argp_state *state)
{
    uint32_t numbers[2] = { 0 };
    option_counts(argument, "--loss-scale", 1, UINT32_C(1) << 31, numbers, 2, state);
    return (struct loss_scaling){ .scale = (float)numbers[0], .interval = numbers[1] };
}
