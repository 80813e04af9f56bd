#include "cli/train_lines.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "common/number.h"

static void add_date(struct text *text)
{
    char date[40];
    struct tm parts;
    const time_t now = time(NULL);
    if (localtime_r(&now, &parts) && strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts) > 0)
        text_add(text, "  %s", date);
}

void train_lines_begin(struct train_lines *lines, uint64_t step, const struct train_result *result, struct text *text)
{
    char bytes[NUMBER_SIZE];
    for (uint32_t rank = 0; rank < result->ranks; rank++)
        lines->bytes = max_u64(lines->bytes, result->measured_bytes[rank]);
    if (step >= lines->steps)
        return;
    const unsigned long long left = lines->steps - step;
    text_add(text, "%llu step%s", left, left == 1 ? "" : "s");
    if (step > 0)
        text_add(text, " behind step %llu", (unsigned long long)step);
    text_add(text, " on %u rank%s:", result->ranks, result->ranks == 1 ? "" : "s");
    for (uint32_t rank = 0; rank < result->ranks; rank++)
        text_add(text, "%s %s", rank ? "," : "", bytes_format(result->measured_bytes[rank], bytes));
    add_date(text);
    text_add(text, "\n");
}

// The first step counts only while it is the only one.
static void count(struct train_lines *lines, const struct train_step *step)
{
    lines->tokens += step->tokens;
    lines->took_ns += step->took_ns;
    if (lines->counted == 1 && !lines->has_begun) {
        lines->has_begun = true;
        lines->counted = lines->counted_ns = 0;
    }
    lines->counted++;
    lines->counted_ns += step->took_ns;
}

static bool has_line(const struct train_lines *lines, const struct train_step *step)
{
    return step->step == 1 || step->step == lines->steps || step->step % lines->every == 0 || step->is_skipped;
}

void train_lines_step(struct train_lines *lines, const struct train_step *step, struct text *text)
{
    char bytes[NUMBER_SIZE], left[NUMBER_SIZE];
    count(lines, step);
    if (!has_line(lines, step))
        return;
    text_add(text, "step %*u of %llu  loss %.4f (%.3f bits)  rate %.3g", (int)(log10((double)lines->steps) + 1),
             step->step, (unsigned long long)lines->steps, step->loss, step->loss / log(2), (double)step->rate);
    if (step->gradient_norm > 0 && isfinite(step->gradient_norm))
        text_add(text, "  norm %.3g", step->gradient_norm);
    if (step->loss_scale > 0)
        text_add(text, "  scale %.9g", (double)step->loss_scale);
    text_add(text, "  %.1f k %s/s  bubble %.1f %%  slowest stage %u  %s",
             1e6 * (double)lines->tokens / (double)max_u64(lines->took_ns, 1), lines->unit, 100 * step->bubble,
             step->slowest_stage, bytes_format(lines->bytes, bytes));
    add_date(text);
    if (step->step < lines->steps)
        text_add(text, "  %s left",
                 wait_format(multiply_clamped(lines->counted_ns / lines->counted, lines->steps - step->step), left));
    if (step->is_skipped)
        text_add(text, "  skipped: gradients overflowed, and are scaled by %.9g from here", (double)step->loss_scale);
    text_add(text, "\n");
    lines->tokens = lines->took_ns = 0;
}

void train_lines_evaluation(const struct train_evaluation *evaluation, struct text *text)
{
    const char *best = evaluation->is_best ? ", the least so far" : "";
    if (isnan(evaluation->right))
        text_add(text, "behind step %llu held-out text takes %.3f bits per token%s\n",
                 (unsigned long long)evaluation->step, evaluation->bits, best);
    else if (!isnan(evaluation->auc))
        text_add(text, "behind step %llu the held-out clicks have an AUC of %.4f, loss %.4f (%.3f bits%s)\n",
                 (unsigned long long)evaluation->step, evaluation->auc, evaluation->bits * log(2), evaluation->bits,
                 best);
    else
        text_add(text, "behind step %llu %.4f of the held-out pictures are right, loss %.4f (%.3f bits%s)\n",
                 (unsigned long long)evaluation->step, evaluation->right, evaluation->bits * log(2), evaluation->bits,
                 best);
}
