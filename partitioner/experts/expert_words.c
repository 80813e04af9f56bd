#include "partitioner/experts/expert_words.h"

#include <string.h>

// The places of a layer's experts. A single word is for all layers.
static const char *word_of(const char *variant, uint32_t number, const char **end)
{
    const char *word = variant + strcspn(variant, ":");
    word += *word == ':';
    for (; number > 0 && word[strcspn(word, "/:")] == '/'; number--)
        word += strcspn(word, "/") + 1;
    *end = word + strcspn(word, "/:");
    return word;
}

bool expert_words_copy(const char *variant, uint32_t number, uint32_t expert)
{
    const char *end, *place = word_of(variant, number, &end);
    for (; place < end && expert > 0; expert--) {
        place += strcspn(place, "+/:");
        place += place < end;
    }
    return place < end && *place == '*';
}

uint32_t expert_words_copies(const char *variant, uint32_t number)
{
    const char *end, *place = word_of(variant, number, &end);
    uint32_t copies = 0;
    for (; place < end; place++)
        copies += *place == '*';
    return copies;
}
