#include "api/weir_options.h"

#include <stdalign.h>
#include <string.h>

#include "api/weir_handles.h"

// A size beyond this is no struct's, but what happened to be in memory: so many bytes are not looked at.
enum { MOST_BYTES = 4096 };

static bool is_size(size_t size, const struct options_kind *kind, struct error *error)
{
    if (size == 0)
        return error_set(error, "%s.size is needed: sizeof(struct %s), as WEIR_OPTIONS() sets it", kind->name,
                         kind->name);
    return (size >= kind->least && size <= MOST_BYTES && size % alignof(size_t) == 0)
        || error_set(error, "%s.size: %zu is not the size of such a struct, which has %zu bytes or more: set it to"
                     " sizeof(struct %s)", kind->name, size, kind->least, kind->name);
}

// Whether all bytes beyond this library's struct are zero.
static bool is_known(const unsigned char *given, size_t size, const struct options_kind *kind, struct error *error)
{
    for (size_t i = kind->size; i < size; i++)
        if (given[i] != 0)
            return error_set(error, "%s has a field that this Weir (" WEIR_VERSION ") does not know, at byte %zu;"
                             " leave it out, or use a newer libweir", kind->name, i);
    return true;
}

bool given_options(const void *given, const struct options_kind *kind, void *chosen, struct weir_error *error)
{
    struct error reason = { 0 };
    size_t size;
    memset(chosen, 0, kind->size);
    if (!given)
        return true;
    memcpy(&size, given, sizeof size);
    if (!is_size(size, kind, &reason) || !is_known(given, size, kind, &reason))
        return tell(error, &reason);
    memcpy(chosen, given, size < kind->size ? size : kind->size);
    return true;
}
