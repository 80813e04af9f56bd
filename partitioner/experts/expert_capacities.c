#include "partitioner/experts/expert_capacities.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/expert_routing.h"

static const char capacity_word[] = "capacity=";

// The next word of a model's name that is not its capacity; of no length at the end.
static const char *next_word(const char **name, size_t *length)
{
    const char *word;
    do {
        word = *name;
        *length = strcspn(word, ",");
        *name += *length + (word[*length] == ',');
    } while (*length > 0 && strncmp(word, capacity_word, sizeof capacity_word - 1) == 0);
    return word;
}

static bool are_one_model(const char *one, const char *other)
{
    size_t length = 1, other_length;
    bool are_equal = true;
    while (are_equal && length > 0) {
        const char *word = next_word(&one, &length), *other_word = next_word(&other, &other_length);
        are_equal = length == other_length && memcmp(word, other_word, length) == 0;
    }
    return are_equal;
}

static bool are_one_routing(const struct profile_routing *one, const struct profile_routing *other)
{
    return strcmp(one->data, other->data) == 0 && strcmp(one->weights, other->weights) == 0
        && one->seed == other->seed && one->batches == other->batches;
}

static bool is_comparable(const struct capacity_choice *first, const struct capacity_choice *choice,
                          struct error *error)
{
    const struct profile *a = first->profile, *b = choice->profile;
    if (!b->routing)
        return error_named(error, "%s: has no routing of experts, by which capacities are compared: profile the model"
                           " on a text", choice->file);
    if (!are_one_model(a->model, b->model) || a->micro_batch != b->micro_batch || strcmp(a->dtype, b->dtype) != 0)
        return error_named(error, "%s: is of another model than %s, and not only of another capacity", choice->file,
                           first->file);
    if (first != choice && strcmp(a->model, b->model) == 0)
        return error_named(error, "%s: is of the same capacity as %s", choice->file, first->file);
    return are_one_routing(a->routing, b->routing)
        || error_named(error, "%s: its routing was counted by other data, weights or micro-batches than that of %s",
                       choice->file, first->file);
}

static uint64_t capacity_of(const struct capacity_choice *choice)
{
    const uint64_t capacity = choice->profile->routing->layers[0].capacity;
    return capacity > 0 ? capacity : UINT64_MAX;
}

static int compare(const void *a, const void *b)
{
    const struct capacity_choice *x = a, *y = b;
    if (x->dropped_ppm != y->dropped_ppm)
        return x->dropped_ppm < y->dropped_ppm ? -1 : 1;
    const uint64_t one = capacity_of(x), other = capacity_of(y);
    return one != other ? (one > other ? -1 : 1) : strcmp(x->profile->model, y->profile->model);
}

bool expert_capacities_sort(struct capacity_choice *choices, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k <= i; k++)
            if (!is_comparable(&choices[k], &choices[i], error))
                return false;
    for (size_t i = 0; i < count; i++)
        choices[i].dropped_ppm = routing_all_dropped_ppm(choices[i].profile->routing);
    if (count > 0)
        qsort(choices, count, sizeof *choices, compare);
    return true;
}
