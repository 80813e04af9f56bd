#include "trainer/sample_score.h"

#include <math.h>
#include <stdlib.h>

bool sample_counts_open(struct sample_counts *counts, const struct model *model, uint64_t samples, struct error *error)
{
    *counts = (struct sample_counts){ .model = model };
    if (model->family != FAMILY_CLICKS)
        return true;
    counts->clicks = calloc(samples + 1, sizeof *counts->clicks);
    return counts->clicks || error_no_memory(error, "the scores of clicks");
}

void sample_counts_close(struct sample_counts *counts)
{
    free(counts->clicks);
    *counts = (struct sample_counts){ 0 };
}

size_t class_rank(const float *logits, size_t classes, size_t class)
{
    size_t rank = 0;
    for (size_t k = 0; k < classes; k++)
        rank += logits[k] > logits[class] || (logits[k] == logits[class] && k < class);
    return rank;
}

static void add_click(struct sample_counts *counts, float logit, bool is_positive)
{
    counts->clicks[counts->samples] = (struct scored){ (double)logit, is_positive };
    counts->right += (logit > 0) == is_positive;
}

static void add_picture(struct sample_counts *counts, const float *logits, const int32_t *targets)
{
    const size_t classes = counts->model->sizes.classes;
    for (size_t t = 0; t < counts->model->sizes.sequence; t++) {
        const size_t rank = class_rank(logits + t * classes, classes, (size_t)targets[t]);
        counts->right += rank == 0;
        counts->top5 += rank < 5;
    }
}

void sample_counts_add(struct sample_counts *counts, const float *logits, const int32_t *targets)
{
    if (counts->clicks)
        add_click(counts, *logits, *targets == 1);
    else
        add_picture(counts, logits, targets);
    counts->samples++;
}

void sample_counts_score(const struct sample_counts *counts, double nats, struct sample_score *score)
{
    const double targets = (double)counts->samples * (counts->clicks ? 1 : (double)counts->model->sizes.sequence);
    *score = (struct sample_score){
        .bits = nats / (double)counts->samples / log(2),
        .right = (double)counts->right / targets,
        .top5 = !counts->clicks && counts->model->sizes.classes > 5 ? (double)counts->top5 / targets : NAN,
        .auc = counts->clicks ? auc_of(counts->clicks, counts->samples) : NAN,
    };
}
