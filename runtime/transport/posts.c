#include "runtime/transport/posts.h"

#include <stdlib.h>

#include "common/number.h"

bool post_pool_open(struct post_pool *pool, uint64_t count)
{
    *pool = (struct post_pool){ .posts = calloc(count + 1, sizeof *pool->posts) };
    for (uint64_t i = count; pool->posts && i-- > 0;) {
        pool->posts[i].next_active = pool->free;
        pool->free = &pool->posts[i];
    }
    return pool->posts != NULL;
}

void post_pool_close(struct post_pool *pool)
{
    free(pool->posts);
    *pool = (struct post_pool){ 0 };
}

struct post *post_take(struct post_pool *pool, const struct post *what)
{
    struct post *post = pool->free;
    if (!post)
        return NULL;
    pool->free = post->next_active;
    *post = *what;
    post->state = POST_QUEUED;
    post->next_active = pool->active;
    pool->active = post;
    return post;
}

void post_release(struct post_pool *pool, struct post *post)
{
    struct post **link = &pool->active;
    while (*link != post)
        link = &(*link)->next_active;
    *link = post->next_active;
    post->state = POST_FREE;
    post->next_active = pool->free;
    pool->free = post;
}

static struct message_piece piece_of(const struct post *post, size_t i)
{
    return post->pieces ? post->pieces[i] : (struct message_piece){ post->data, post->bytes };
}

static size_t pieces_of(const struct post *post)
{
    return post->pieces ? post->piece_count : 1;
}

bool post_meet_piece(const struct post *send, const struct post *receive, size_t i, struct meeting_piece *piece)
{
    if (i >= pieces_of(send) || i >= pieces_of(receive))
        return false;
    const struct message_piece from = piece_of(send, i), to = piece_of(receive, i);
    *piece = (struct meeting_piece){ to.data, from.data, min_u64(from.bytes, to.bytes) };
    return true;
}

void post_queue_append(struct post_queue *queue, struct post *post)
{
    post->next_queued = NULL;
    if (queue->last)
        queue->last->next_queued = post;
    else
        queue->first = post;
    queue->last = post;
}

struct post *post_queue_pop(struct post_queue *queue)
{
    struct post *post = queue->first;
    queue->first = post->next_queued;
    if (!queue->first)
        queue->last = NULL;
    return post;
}

void post_queue_remove(struct post_queue *queue, struct post *post)
{
    struct post_queue rest = { NULL, NULL };
    while (queue->first) {
        struct post *next = post_queue_pop(queue);
        if (next != post)
            post_queue_append(&rest, next);
    }
    *queue = rest;
}
