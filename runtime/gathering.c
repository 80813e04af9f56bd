#include "runtime/gathering.h"

#include <stdlib.h>
#include <string.h>

bool gathering_open(struct gathering *gathering, const uint32_t *ranks, uint32_t count, uint32_t adders)
{
    *gathering = (struct gathering){ .count = count, .adders = adders, .ranks = ranks };
    gathering->posts = calloc(count + 1u, sizeof(struct post *));
    return gathering->posts != NULL;
}

void gathering_close(struct gathering *gathering)
{
    free(gathering->posts);
    *gathering = (struct gathering){ 0 };
}

static uint32_t copy_of(const struct gathering *gathering, const struct post *post)
{
    uint32_t copy = 0;
    while (gathering->ranks[copy] != post->rank)
        copy++;
    return copy;
}

void gathering_join(struct gathering *gathering, struct post *post)
{
    gathering->posts[copy_of(gathering, post)] = post;
    gathering->come++;
}

void gathering_withdraw(struct gathering *gathering, const struct post *post)
{
    gathering->posts[copy_of(gathering, post)] = NULL;
    gathering->come--;
}

bool gathering_is_full(const struct gathering *gathering)
{
    return gathering->come == gathering->count;
}

bool gathering_agrees(const struct gathering *gathering, struct error *error)
{
    const struct post *first = gathering->posts[0];
    for (uint32_t copy = 1; copy < gathering->count; copy++) {
        const struct post *post = gathering->posts[copy];
        const struct message_header *a = &first->header, *b = &post->header;
        if (a->step != b->step || a->micro_batch != b->micro_batch || a->version != b->version
            || first->bytes != post->bytes)
            return error_set_kind(error, ERROR_MACHINE,
                                  "rank %u brings %llu bytes of gradients for update %llu of step %llu to be added up, "
                                  "rank %u %llu bytes for update %llu of step %llu", first->rank,
                                  (unsigned long long)first->bytes, (unsigned long long)a->version,
                                  (unsigned long long)a->step, post->rank, (unsigned long long)post->bytes,
                                  (unsigned long long)b->version, (unsigned long long)b->step);
    }
    return true;
}

float gathering_factor(const struct gathering *gathering)
{
    uint32_t brought = 0;
    for (uint32_t copy = 0; copy < gathering->count; copy++)
        brought += gathering->posts[copy]->brought;
    const uint32_t samples = gathering->posts[0]->samples;
    return samples > 0 && brought > 0 ? (float)samples / (float)brought : 1.0f;
}

void gathering_add(const struct gathering *gathering, const struct post *post)
{
    const uint64_t count = post->bytes / sizeof(float), share = copy_of(gathering, post);
    const uint64_t first = count * share / gathering->count, end = count * (share + 1) / gathering->count;
    float *sum = gathering->posts[0]->data;
    for (uint32_t copy = 1; copy < gathering->adders; copy++) {
        const float *other = gathering->posts[copy]->data;
        for (uint64_t i = first; i < end; i++)
            sum[i] += other[i];
    }
    const float factor = gathering_factor(gathering);
    for (uint64_t i = first; factor != 1.0f && i < end; i++)
        sum[i] *= factor;
    for (uint32_t copy = 1; copy < gathering->count && end > first; copy++)
        memcpy((float *)gathering->posts[copy]->data + first, sum + first, (end - first) * sizeof *sum);
}

bool gathering_end_share(struct gathering *gathering)
{
    return ++gathering->added == gathering->count;
}

void gathering_clear(struct gathering *gathering)
{
    memset(gathering->posts, 0, gathering->count * sizeof(struct post *));
    gathering->come = gathering->added = 0;
}
