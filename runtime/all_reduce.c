#include "runtime/all_reduce.h"

#include <stdlib.h>
#include <string.h>

bool all_reduce_open(struct all_reduce *all_reduce, const uint32_t *ranks, uint32_t count, uint32_t adders)
{
    *all_reduce = (struct all_reduce){ .count = count, .adders = adders, .ranks = ranks };
    all_reduce->posts = calloc(count + 1u, sizeof(struct post *));
    return all_reduce->posts != NULL;
}

void all_reduce_close(struct all_reduce *all_reduce)
{
    free(all_reduce->posts);
    *all_reduce = (struct all_reduce){ 0 };
}

static uint32_t copy_of(const struct all_reduce *all_reduce, const struct post *post)
{
    uint32_t copy = 0;
    while (all_reduce->ranks[copy] != post->rank)
        copy++;
    return copy;
}

void all_reduce_join(struct all_reduce *all_reduce, struct post *post)
{
    all_reduce->posts[copy_of(all_reduce, post)] = post;
    all_reduce->come++;
}

void all_reduce_withdraw(struct all_reduce *all_reduce, const struct post *post)
{
    all_reduce->posts[copy_of(all_reduce, post)] = NULL;
    all_reduce->come--;
}

bool all_reduce_is_full(const struct all_reduce *all_reduce)
{
    return all_reduce->come == all_reduce->count;
}

bool all_reduce_agrees(const struct all_reduce *all_reduce, struct error *error)
{
    const struct post *first = all_reduce->posts[0];
    for (uint32_t copy = 1; copy < all_reduce->count; copy++) {
        const struct post *post = all_reduce->posts[copy];
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

float all_reduce_factor(const struct all_reduce *all_reduce)
{
    uint32_t brought = 0;
    for (uint32_t copy = 0; copy < all_reduce->count; copy++)
        brought += all_reduce->posts[copy]->brought;
    const uint32_t samples = all_reduce->posts[0]->samples;
    return samples > 0 && brought > 0 ? (float)samples / (float)brought : 1.0f;
}

void all_reduce_add(const struct all_reduce *all_reduce, const struct post *post)
{
    const uint64_t count = post->bytes / sizeof(float), share = copy_of(all_reduce, post);
    const uint64_t first = count * share / all_reduce->count, end = count * (share + 1) / all_reduce->count;
    float *sum = all_reduce->posts[0]->data;
    for (uint32_t copy = 1; copy < all_reduce->adders; copy++) {
        const float *other = all_reduce->posts[copy]->data;
        for (uint64_t i = first; i < end; i++)
            sum[i] += other[i];
    }
    const float factor = all_reduce_factor(all_reduce);
    for (uint64_t i = first; factor != 1.0f && i < end; i++)
        sum[i] *= factor;
    for (uint32_t copy = 1; copy < all_reduce->count && end > first; copy++)
        memcpy((float *)all_reduce->posts[copy]->data + first, sum + first, (end - first) * sizeof *sum);
}

bool all_reduce_end_share(struct all_reduce *all_reduce)
{
    return ++all_reduce->added == all_reduce->count;
}

void all_reduce_clear(struct all_reduce *all_reduce)
{
    memset(all_reduce->posts, 0, all_reduce->count * sizeof(struct post *));
    all_reduce->come = all_reduce->added = 0;
}
