#include "profiler/estimate/fine_tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned part;
} parts[] = { { "embedding", TUNED_EMBEDDING }, { "attention", TUNED_ATTENTION }, { "mlp", TUNED_MLP },
              { "experts", TUNED_EXPERTS }, { "head", TUNED_HEAD }, { "all", TUNED_ALL } };

bool fine_tuning_is(const struct fine_tuning *tuning)
{
    return tuning->frozen || tuning->lora_rank || tuning->length_count;
}

const char *fine_tuning_part(unsigned flags)
{
    size_t i = 0;
    while (!(flags & parts[i].part))
        i++;
    return parts[i].name;
}

static bool read_parts(const char *text, unsigned *found, struct error *error)
{
    *found = 0;
    for (const char *word = text;; word++) {
        const size_t length = strcspn(word, ",");
        size_t i = 0;
        while (i < sizeof parts / sizeof parts[0]
               && (strlen(parts[i].name) != length || strncmp(parts[i].name, word, length) != 0))
            i++;
        if (i == sizeof parts / sizeof parts[0])
            return error_set(error, "\"%.*s\" is none of embedding, attention, mlp, experts, head, all",
                             length < 60 ? (int)length : 60, word);
        *found |= parts[i].part;
        word += length;
        if (!*word)
            return true;
    }
}

static bool refuse_both(struct error *error)
{
    return error_set(error, "LoRA freezes all parts already; leave out the frozen parts, or LoRA");
}

bool fine_tuning_read_frozen(const char *text, struct fine_tuning *tuning, struct error *error)
{
    if (tuning->lora_rank > 0)
        return refuse_both(error);
    if (!read_parts(text, &tuning->frozen, error))
        return false;
    return tuning->frozen != TUNED_ALL || error_set(error, "with all parts frozen nothing is trained (LoRA freezes"
                                                    " them, and trains matrices beside them)");
}

bool fine_tuning_read_lora(const char *text, struct fine_tuning *tuning, struct error *error)
{
    enum { MOST_RANK = 4096 };
    char *end;
    if (tuning->frozen && tuning->lora_rank == 0)
        return refuse_both(error);
    const unsigned long rank = strtoul(text, &end, 10);
    tuning->lora = TUNED_ATTENTION | TUNED_MLP;
    if (*text < '0' || *text > '9' || rank < 1 || rank > MOST_RANK || (*end && *end != ':'))
        return error_set(error, "\"%.60s\" is not a rank of 1 to %d, and what has it, such as 16:attention,mlp", text,
                         MOST_RANK);
    if (*end && !read_parts(end + 1, &tuning->lora, error))
        return false;
    if (tuning->lora & ~(unsigned)(TUNED_ATTENTION | TUNED_MLP))
        return error_set(error, "\"%.60s\": LoRA is estimated for attention and mlp", text);
    tuning->lora_rank = (uint32_t)rank;
    tuning->frozen = TUNED_ALL;
    return true;
}

bool fine_tuning_read_lengths(const char *text, struct fine_tuning *tuning, struct error *error)
{
    double all = 0;
    tuning->length_count = 0;
    for (const char *at = text;;) {
        char *colon, *end;
        const unsigned long tokens = strtoul(at, &colon, 10);
        const double share = *colon == ':' ? strtod(colon + 1, &end) : -1;
        if (*at < '0' || *at > '9' || tokens < 1 || tokens > 1 << 26 || !(share > 0) || share > 100 || *end != '%')
            return error_set(error, "\"%.60s\" is not a length in tokens and its share of sequences, such as 2048:70%%",
                             at);
        if (tuning->length_count == TUNING_MOST_LENGTHS)
            return error_set(error, "more than %d lengths", TUNING_MOST_LENGTHS);
        tuning->lengths[tuning->length_count].tokens = (uint32_t)tokens;
        tuning->lengths[tuning->length_count++].share = share / 100;
        all += share;
        if (!end[1])
            break;
        if (end[1] != ',')
            return error_set(error, "\"%.60s\": a comma is behind each share", at);
        at = end + 2;
    }
    return fabs(all - 100) < 0.5 || error_set(error, "the shares are %g %% together, not 100", all);
}
