#include "profiler/block_names.h"

#include <ctype.h>
#include <string.h>

// Whether the part ends with a number of at most six digits. No model has more blocks than that.
static bool part_is_numbered(const char *name, size_t from, size_t end, struct block_name *block)
{
    size_t i = from;
    while (i < end && (isalpha((unsigned char)name[i]) || name[i] == '_' || name[i] == '-'))
        i++;
    const size_t digits = end - i;
    if (digits == 0 || digits > 6)
        return false;
    *block = (struct block_name){ .before = i };
    for (; i < end; i++) {
        if (!isdigit((unsigned char)name[i]))
            return false;
        block->number = 10 * block->number + (uint32_t)(name[i] - '0');
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
    struct block_name other_block;
    return block_name_read(other, &other_block) && other_block.number == block->number
        && other_block.before == block->before && strncmp(name, other, block->before) == 0;
}

bool block_name_is_predicted(const char *name)
{
    return strncmp(name, "mtp", 3) == 0 && (!name[3] || name[3] == '.');
}
