// Prints the nearest requests for people.
#include "common/number.h"
#include "partitioner/explain/nearest.h"

// Prints the kinds of which none was found; with `is_open`, those for which that is not certain.
static void print_failed(const struct nearest *nearest, bool is_open, const char *words, struct text *text)
{
    static const struct {
        enum what_if_kind kind;
        const char *words;
    } kinds[] = { { WHAT_IF_MICRO_BATCHES, "fewer micro-batches" },
                  { WHAT_IF_RANKS, "more ranks" },
                  { WHAT_IF_SCHEDULE, "other schedules" },
                  { WHAT_IF_STORAGE, "other ways to hold states" } };
    size_t printed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (nearest->failed[kinds[i].kind] && nearest->open[kinds[i].kind] == is_open)
            text_add(text, "%s%s", printed++ ? ", " : words, kinds[i].words);
    text_add(text, printed ? ".\n" : "");
}

void nearest_print(const struct nearest *nearest, struct text *text)
{
    if (nearest->count == 0)
        return;
    text_add(text, "What does fit, each planned:\n   per m.-b.        peak  change\n");
    for (size_t i = 0; i < nearest->count; i++) {
        const struct what_if *change = &nearest->at[i];
        char each[NUMBER_SIZE], peak[NUMBER_SIZE];
        text_add(text, "  %10s  %10s  %s", time_format(change->row.found.micro_batch_ns, each),
                 bytes_format(change->row.found.peak_bytes, peak), change->change);
        if (change->is_least)
            text_add(text, change->kind == WHAT_IF_MICRO_BATCHES ? ", no more" : ", no less");
        if (change->option[0])
            text_add(text, ": %s", change->option);
        text_add(text, "\n");
    }
    print_failed(nearest, false, "Not enough by itself: ", text);
    print_failed(nearest, true, "No plan was found with ", text);
    text_add(text, "Smaller micro-batches need less, too; they need a profile of their own.\n");
}
