#include "exports/words.h"

#include <stdarg.h>
#include <string.h>

#include "common/shown.h"
#include "schedules/csv.h"

void export_say(struct export *export, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    shown_add_list(export->said, format, arguments);
    va_end(arguments);
    text_add(export->said, "\n");
}

void export_heading(struct export *export, const char *mark)
{
    const struct plan *plan = export->plan;
    shown_add(export->text, "%s %s, planned by Weir: %s, ", mark, plan->model, plan->schedule);
    text_add_count(export->text, plan->stage_count, "stage", "stages");
    text_add(export->text, " on ");
    text_add_count(export->text, plan->ranks, "rank", "ranks");
    text_add(export->text, ", ");
    text_add_count(export->text, plan->micro_batches, "micro-batch", "micro-batches");
    text_add(export->text, "; for %s.\n", export->format->title);
    // If memory runs out, the last line may be cut off. plan_export() refuses the whole text then.
    for (const char *line = export->said->data, *end; line && (end = strchr(line, '\n')); line = end + 1)
        text_add(export->text, "%s %.*s\n", mark, (int)(end - line), line);
}

void export_write_counts(struct export *export, const uint32_t *counts)
{
    text_add(export->text, "[");
    for (uint32_t s = 0; s < export->stages; s++)
        text_add(export->text, "%s%u", s ? ", " : "", counts[s]);
    text_add(export->text, "]");
}

void export_write_blocks(struct export *export)
{
    text_add(export->text, "[");
    for (uint32_t s = 0; s < export->stages; s++)
        text_add(export->text, "%s%u", s ? ", " : "", export_blocks(export, s));
    text_add(export->text, "]");
}

uint64_t export_micro_batch(const struct export *export)
{
    return export->profile ? export->profile->micro_batch : 0;
}

struct schedule *export_order(const struct export *export, struct error *error)
{
    const struct generate_request request = { .ranks = export->ranks, .chunks = export->plan->chunks,
                                              .micro_batches = export->micro_batches };
    struct generator generator;
    return plan_generator(export->plan, &generator, error) ? schedule_generate_by(&generator, &request, error) : NULL;
}

bool export_csv(const struct schedule *order, struct text *csv, struct error *error)
{
    struct csv_left_out left_out;
    const struct csv_style style = { .dialect = CSV_TORCH_2_9 };
    const bool good = csv_write(order, &style, csv, &left_out, error);
    if (!good && error->kind == ERROR_INPUT)
        error->kind = ERROR_ANSWER;  // the plan itself is valid
    return good;
}
