#include "models/expert_places.h"

#include <stdlib.h>
#include <string.h>

#include "device/row_exchange.h"

static bool is_word(const char *word, size_t length, const char *name)
{
    return length == strlen(name) && strncmp(word, name, length) == 0;
}

// The word of this layer; NULL if there are too few.
static const char *word_of(const char *words, size_t number, size_t *length)
{
    const bool is_for_all = strchr(words, '/') == NULL;
    for (; number > 0 && !is_for_all; number--) {
        words += strcspn(words, "/:");
        if (*words++ != '/')
            return NULL;
    }
    *length = strcspn(words, "/:");
    return words;
}

static bool read_rows(const char *words, const char *layer, struct expert_shape *experts, struct error *error)
{
    const char *colon = strchr(words, ':');
    char *end = NULL;
    experts->most_rows = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (colon && (colon[1] < '0' || colon[1] > '9' || *end != '\0' || experts->most_rows == 0))
        return error_set(error, "layer %s: \"%.60s\" is no number of rows", layer, colon + 1);
    return experts->most_rows == 0 || experts->capacity == 0
        || error_set(error, "layer %s: a capacity limits the rows of its experts already: leave out --most-rows, or say"
                     " capacity=dropless", layer);
}

// The member that a word names, or ROW_COPIED. NULL if it names neither, else what is behind it.
static const char *read_place(const char *word, size_t members, uint8_t *owner)
{
    char *behind;
    *owner = ROW_COPIED;
    if (*word == '*')
        return word + 1;
    if (*word < '0' || *word > '9')
        return NULL;
    const unsigned long member = strtoul(word, &behind, 10);
    *owner = (uint8_t)member;
    return member < members ? behind : NULL;
}

// Such words with + between them, one for each expert.
static bool read_list(const char *word, size_t length, size_t members, struct expert_shape *experts)
{
    const char *const end = word + length;
    for (size_t e = 0; e < experts->router.experts; e++) {
        const char *behind = word < end ? read_place(word, members, &experts->owners[e]) : NULL;
        const bool is_last = e + 1 == experts->router.experts;
        if (!behind || (is_last ? behind != end : *behind != '+'))
            return false;
        word = behind + 1;
    }
    return true;
}

static bool count_experts(const char *layer, size_t members, struct expert_shape *experts, struct error *error)
{
    size_t counts[ROW_MEMBERS] = { 0 };
    experts->most = experts->copies = 0;
    for (size_t e = 0; e < experts->router.experts; e++)
        if (experts->owners[e] == ROW_COPIED)
            experts->copies++;
        else
            counts[experts->owners[e]]++;
    for (size_t m = 0; m < members; m++) {
        counts[m] += experts->copies;
        if (counts[m] == 0)
            return error_set(error, "layer %s: device %zu of %zu has none of the %zu experts: give it one, or take"
                             " fewer devices", layer, m, members, experts->router.experts);
        experts->most = counts[m] > experts->most ? counts[m] : experts->most;
    }
    return true;
}

bool expert_places_read(const char *words, size_t members, const char *layer, struct expert_shape *experts,
                        struct error *error)
{
    const size_t count = experts->router.experts;
    size_t length = 0;
    const char *word = word_of(words, experts->number, &length);
    if (!word)
        return error_set(error, "layer %s: its experts have no places: name them for each layer of experts, or once"
                         " for all", layer);
    if (members > ROW_MEMBERS)
        return error_set(error, "layer %s: experts have places on %d devices at most, not on %zu", layer, ROW_MEMBERS,
                         members);
    const bool are_blocks = is_word(word, length, "blocks"), are_dealt = is_word(word, length, "dealt");
    for (size_t e = 0; e < count; e++)
        experts->owners[e] = (uint8_t)(are_dealt ? e % members : e * members / count);
    if (!are_blocks && !are_dealt && !read_list(word, length, members, experts))
        return error_set(error, "layer %s: %zu experts cannot be placed by \"%.*s\" on %zu devices: say blocks, dealt,"
                         " or the device of each expert, as in 0+1+*+0, and * for all of them", layer, count,
                         (int)(length < 60 ? length : 60), word, members);
    experts->have_places = true;
    return read_rows(words, layer, experts, error) && count_experts(layer, members, experts, error);
}

size_t layer_copied_experts(const struct layer *layer)
{
    return layer->shape.experts.have_places ? layer->shape.experts.copies : 0;
}

size_t layer_own_experts(const struct layer *layer)
{
    const struct expert_shape *experts = &layer->shape.experts;
    size_t count = layer_copied_experts(layer);
    if (!experts->have_places)
        return layer_share(layer, experts->router.experts);
    for (size_t e = 0; e < experts->router.experts; e++)
        count += experts->owners[e] == layer->shape.member;
    return count;
}

size_t layer_own_expert(const struct layer *layer, size_t number)
{
    const struct expert_shape *experts = &layer->shape.experts;
    const size_t copies = layer_copied_experts(layer);
    const size_t owner = number < copies ? ROW_COPIED : layer->shape.member;
    size_t e = 0, before = number < copies ? number : number - copies;
    if (!experts->have_places)
        return number;
    for (; e < experts->router.experts; e++)
        if (experts->owners[e] == owner && before-- == 0)
            break;
    return e;
}
