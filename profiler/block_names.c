#include "profiler/block_names.h"

#include <ctype.h>
#include <string.h>

// A number of at most six digits that ends a part: more blocks than that no model has.
static bool part_is_numbered(const char *name, size_t from, size_t end, struct block_name *block)
{
    size_t at = from;
    while (at < end && (isalpha((unsigned char)name[at]) || name[at] == '_' || name[at] == '-'))
        at++;
    const size_t digits = end - at;
    if (digits == 0 || digits > 6)
        return false;
    *block = (struct block_name){ .before = at };
    for (; at < end; at++) {
        if (!isdigit((unsigned char)name[at]))
            return false;
        block->number = 10 * block->number + (uint32_t)(name[at] - '0');
    }
    return true;
}

bool block_name_read(const char *name, struct block_name *block)
{
    for (size_t from = 0, end; name[from]; from = end + (name[end] != '\0')) {
        end = from + strcspn(name + from, "./");
        if (part_is_numbered(name, from, end, block))
            return true;
    }
    return false;
}

bool block_name_is_same(const char *name, const struct block_name *block, const char *other)
{
    struct block_name of;
    return block_name_read(other, &of) && of.number == block->number && of.before == block->before
        && strncmp(name, other, block->before) == 0;
}

bool block_name_is_predicted(const char *name)
{
    return strncmp(name, "mtp", 3) == 0 && (!name[3] || name[3] == '.');
}
