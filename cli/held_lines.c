#include "cli/held_lines.h"

#include <math.h>

void held_text_say(double bits, double order0_bits, double order1_bits, struct text *text)
{
    const double gain = order1_bits - bits;
    if (isnan(gain))
        text_add(text, "held-out text: %.3f bits per token\n", bits);
    else
        text_add(text, "held-out text: %.3f bits per byte; counting reaches %.3f (order 0) and %.3f (order 1):"
                       " %.3f bits %s\n",
                 bits, order0_bits, order1_bits, gain < 0 ? -gain : gain, gain < 0 ? "worse" : "better");
}

void held_samples_say(const struct sample_score *held, const struct simple_scores *simple, struct text *text)
{
    const bool are_clicks = !isnan(held->auc);
    const double reached = are_clicks ? held->auc : held->right;
    if (are_clicks)
        text_add(text, "held-out clicks: AUC %.4f, %.4f are right", held->auc, held->right);
    else
        text_add(text, "held-out pictures: %.4f are right", held->right);
    if (!isnan(held->top5))
        text_add(text, ", %.4f among the best five", held->top5);
    text_add(text, ", loss %.4f", held->bits * log(2));
    if (!isnan(simple->regression))
        text_add(text, "; logistic regression reaches %s%.4f", are_clicks ? "an AUC of " : "", simple->regression);
    if (!isnan(simple->majority))
        text_add(text, "%s the most frequent label %.4f", isnan(simple->regression) ? ";" : ",", simple->majority);
    if (!isnan(simple->regression))
        text_add(text, ": %.4f %s", fabs(reached - simple->regression),
                 reached < simple->regression ? "worse" : "better");
    text_add(text, "\n");
}
