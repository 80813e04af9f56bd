#include "runtime/transport/all_reduce.h"

#include <assert.h>
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
        assert(first->what.kind == post->what.kind && first->what.number_bytes == post->what.number_bytes);
        const struct message_header *a = &first->header, *b = &post->header;
        if (a->step != b->step || a->micro_batch != b->micro_batch || a->version != b->version
            || first->bytes != post->bytes || first->what.first != post->what.first)
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
    uint32_t contributed = 0;
    for (uint32_t copy = 0; copy < all_reduce->count; copy++)
        contributed += all_reduce->posts[copy]->what.contributed;
    const uint32_t samples = all_reduce->posts[0]->what.samples;
    return samples > 0 && contributed > 0 ? (float)samples / (float)contributed : 1.0f;
}

struct share_bytes all_reduce_share(const struct all_reduce *all_reduce, uint32_t copy)
{
    const struct reduction *what = &all_reduce->posts[copy]->what;
    const struct reduction_share share = reduction_share(what, copy, all_reduce->count);
    return (struct share_bytes){ share.first * what->number_bytes, share.count * what->number_bytes };
}

void *all_reduce_own(const struct all_reduce *all_reduce, uint32_t copy)
{
    return reduction_own(&all_reduce->posts[copy]->what, copy, all_reduce->count);
}

// The sum goes to the first copy's buffer.
static void add_floats(const struct all_reduce *all_reduce, uint64_t first, uint64_t end)
{
    float *sum = all_reduce->posts[0]->data;
    for (uint32_t copy = 1; copy < all_reduce->adders; copy++) {
        const float *other = all_reduce->posts[copy]->data;
        for (uint64_t i = first; i < end; i++)
            sum[i] += other[i];
    }
    const float factor = all_reduce_factor(all_reduce);
    for (uint64_t i = first; factor != 1.0f && i < end; i++)
        sum[i] *= factor;
}

// Adds to what the share has already.
static void add_onto(const struct all_reduce *all_reduce, uint32_t this_copy, struct share_bytes share)
{
    float *sum = all_reduce_own(all_reduce, this_copy);
    for (uint32_t copy = 0; copy < all_reduce->count; copy++) {
        const float *other = all_reduce->posts[copy]->data;
        for (uint64_t i = 0; other && i < share.count / sizeof *sum; i++)
            sum[i] += other[share.first / sizeof *sum + i];
    }
}

void all_reduce_add_compressed(const struct all_reduce *all_reduce, uint32_t this_copy, struct queue *queue)
{
    const struct reduction *what = &all_reduce->posts[this_copy]->what;
    const struct reduction_share share = reduction_share(what, this_copy, all_reduce->count);
    for (uint32_t copy = 0; copy < all_reduce->count; copy++)
        if (copy != this_copy)
            what->compression->add(queue, what, share,
                                   (char *)all_reduce->posts[copy]->data + share.first * what->number_bytes,
                                   all_reduce->count);
    what->compression->compress(queue, what, share);
}

// Copies a share from where it is to its place among the numbers of another copy, if that copy wants it.
static void hand_share(const struct all_reduce *all_reduce, const void *from, uint32_t to, struct share_bytes share)
{
    char *data = all_reduce->posts[to]->data;
    if (data && from != data + share.first && share.count > 0)
        memcpy(data + share.first, from, share.count);
}

void all_reduce_add(const struct all_reduce *all_reduce, const struct post *post)
{
    const enum reduction_kind kind = post->what.kind;
    const uint32_t this_copy = copy_of(all_reduce, post);
    const struct share_bytes share = all_reduce_share(all_reduce, this_copy);
    const void *sums = (char *)all_reduce->posts[0]->data + share.first;
    if (kind == REDUCTION_ONTO)
        add_onto(all_reduce, this_copy, share);
    if (kind == REDUCTION_WHOLE || kind == REDUCTION_SHARES)
        add_floats(all_reduce, share.first / sizeof(float), (share.first + share.count) / sizeof(float));
    if (kind == REDUCTION_COMPRESSED)
        all_reduce_add_compressed(all_reduce, this_copy, post->what.queue);  // which does not run ahead
    if (kind == REDUCTION_SHARES)
        hand_share(all_reduce, sums, this_copy, share);
    const bool is_for_all = kind == REDUCTION_WHOLE || kind == REDUCTION_GATHER || kind == REDUCTION_COMPRESSED;
    for (uint32_t copy = 0; is_for_all && copy < all_reduce->count; copy++)
        hand_share(all_reduce, kind == REDUCTION_WHOLE ? sums : all_reduce_own(all_reduce, this_copy), copy, share);
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
