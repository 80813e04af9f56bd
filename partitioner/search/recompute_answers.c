#include "partitioner/search/recompute_answers.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "partitioner/plan/plan.h"
#include "partitioner/search/likeness.h"
#include "partitioner/search/stage_table.h"

// Answers that took fewer labels are found again as quickly.
#define DEAR 1000

// What is wanted if only the least bytes are, which are then the answer's `least_ns`.
#define LEAST_BYTES ((enum recompute_wanted)(1 << 7))

struct answer {
    struct recompute_question question;
    uint32_t replicas, splits;  // of the intervals
    uint32_t *order;            // of all layers; NULL: the profile's own
    struct recompute_list list;
    uint64_t work;
    struct answer *next;        // about as many layers in the same place
};

struct recompute_answers {
    struct stage_table table;  // of the first of these lists, by the ends of the interval
    size_t count;
};

struct recompute_answers *recompute_answers_create(struct error *error)
{
    struct recompute_answers *answers = calloc(1, sizeof *answers);
    if (!answers)
        error_no_memory(error, "a search");
    return answers;
}

static void answer_free(struct answer *answer)
{
    recompute_list_clear(&answer->list);
    free(answer->order);
    free(answer);
}

void recompute_answers_free(struct recompute_answers *answers)
{
    size_t cursor = 0;
    if (!answers)
        return;
    for (struct answer *answer, *next; (answer = stage_table_next(&answers->table, &cursor));)
        for (; answer; answer = next) {
            next = answer->next;
            answer_free(answer);
        }
    stage_table_clear(&answers->table);
    free(answers);
}

size_t recompute_answers_count(const struct recompute_answers *answers)
{
    return answers->count;
}

// --- what is asked ----------------------------------------------------------------------------

static bool is_same_order(const uint32_t *a, const uint32_t *b, uint32_t layers)
{
    return a && b ? memcmp(a, b, layers * sizeof a[0]) == 0 : a == b;
}

static bool is_same(const struct answer *a, const struct answer *b, uint32_t layers)
{
    const struct recompute_question *x = &a->question, *y = &b->question;
    return x->capacity_bytes == y->capacity_bytes && x->wanted == y->wanted && x->most_labels == y->most_labels
        && a->replicas == b->replicas && a->splits == b->splits
        && memcmp(&x->slots, &y->slots, sizeof x->slots) == 0  // numbers of one size, without gaps
        && is_same_order(a->order, b->order, layers);
}

// --- remembering ------------------------------------------------------------------------------

// Copies a list. False without memory; what is there of the copy is then to be cleared.
static bool copy_list(const struct recompute_list *from, struct recompute_list *to)
{
    *to = *from;
    to->at = calloc(from->count + 1, sizeof to->at[0]);
    for (to->count = 0; to->at && to->count < from->count; to->count++) {
        const struct recompute_choice *choice = &from->at[to->count];
        struct segment *segments = array_copy(choice->segments, choice->count, sizeof segments[0]);
        if (!segments)
            return false;
        to->at[to->count] = *choice;
        to->at[to->count].segments = segments;
    }
    return to->at != NULL;
}

static bool fill(struct answer *answer, const struct answer *found, uint32_t layers)
{
    *answer = *found;
    answer->order = found->order ? array_copy(found->order, layers, sizeof answer->order[0]) : NULL;
    return copy_list(&found->list, &answer->list) && (answer->order || !found->order);
}

// Adds a copy of the answer behind the last one that its place has.
static bool remember(struct recompute_answers *answers, struct answer *last, const struct answer *found,
                     uint32_t layers)
{
    struct answer *answer = malloc(sizeof *answer);
    if (!answer)
        return false;
    if (!fill(answer, found, layers)
        || (!last && !stage_table_add(&answers->table, 0, found->question.first, found->question.end, answer))) {
        answer_free(answer);
        return false;
    }
    if (last)
        last->next = answer;
    answers->count++;
    return true;
}

// The answer to the same question, or NULL; *last is then the last one in its place.
static const struct answer *recall(const struct recompute_answers *answers, const struct answer *asked,
                                   uint32_t layers, struct answer **last)
{
    struct answer *known = stage_table_get(&answers->table, 0, asked->question.first, asked->question.end);
    *last = NULL;
    for (; known && !is_same(known, asked, layers); known = known->next)
        *last = known;
    return known;
}

static bool ask(struct intervals *intervals, struct answer *asked, struct error *error)
{
    const struct recompute_question *question = &asked->question;
    struct recompute_list *list = &asked->list;
    if (question->wanted == LEAST_BYTES)
        return recompute_least_bytes(intervals, question->first, question->end, &question->slots, true, &list->least_ns,
                                     &list->complete, &asked->work, error);
    return recompute_search(intervals, question->first, question->end, &question->slots, question->capacity_bytes,
                            question->wanted, question->most_labels, &asked->work, list, error);
}

// Segments of the answer for the first layers that are alike become those of the layers asked about.
static void shift_segments(struct recompute_list *list, uint32_t by)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < list->at[i].count; k++) {
            list->at[i].segments[k].first += by;
            list->at[i].segments[k].end += by;
        }
}

bool recompute_answers_find(struct recompute_answers *answers, struct intervals *intervals, const uint32_t *order,
                            const struct recompute_question *question, uint64_t *work, struct recompute_list *list,
                            struct error *error)
{
    const uint32_t layers = intervals->layers;
    struct answer asked = { .question = *question, .replicas = intervals->replicas, .splits = intervals->splits,
                            .order = order && !plan_order_is_own(order, layers) ? (uint32_t *)order : NULL };
    const uint32_t like = answers && !asked.order ? likeness_first(intervals, question->first, question->end)
                                                  : question->first;
    const uint32_t shift = question->first - like;
    asked.question.first -= shift;
    asked.question.end -= shift;
    struct answer *last = NULL;
    const struct answer *known = answers ? recall(answers, &asked, layers, &last) : NULL;
    if (!known && !ask(intervals, &asked, error))
        return false;
    const bool is_cut_short = intervals->until_ns && clock_now_ns() >= intervals->until_ns;
    bool good = true;
    if (known)
        good = copy_list(&known->list, list);
    else
        *list = asked.list;
    if (!known && answers && asked.work >= DEAR && !is_cut_short)
        good = remember(answers, last, &asked, layers);
    *work += known ? known->work : asked.work;
    shift_segments(list, shift);
    if (good)
        return true;
    recompute_list_clear(list);
    return error_no_memory(error, "the choice of what to recompute");
}

bool recompute_answers_least(struct recompute_answers *answers, struct intervals *intervals, const uint32_t *order,
                             const struct recompute_question *question, uint64_t *bytes, bool *complete,
                             uint64_t *work, struct error *error)
{
    const struct recompute_question least = { question->first, question->end, question->slots, 0, LEAST_BYTES, 0 };
    struct recompute_list list = { 0 };
    const bool good = recompute_answers_find(answers, intervals, order, &least, work, &list, error);
    *bytes = list.least_ns;
    *complete = list.complete;
    recompute_list_clear(&list);
    return good;
}
