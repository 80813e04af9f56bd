// Which rows of a sweep over configurations are shown: one for each way to share the model out.
#include "partitioner/sweep/config_sweep.h"

bool config_rows_are_alike(const struct config_row *a, const struct config_row *b)
{
    return a->tensor == b->tensor && a->context == b->context && a->expert == b->expert && a->ranks == b->ranks
        && a->placement == b->placement && a->shard == b->shard;
}

static bool has_bound(const struct config_row *row)
{
    return row->outcome == CONFIG_NOT_QUICKER || row->outcome == CONFIG_BOUNDED;
}

struct config_row *config_open_row(const struct config_sweep *sweep, const struct config_row *row)
{
    struct config_row *found = NULL;
    if (row == sweep->best || row->outcome != CONFIG_PLANNED)
        return NULL;
    for (size_t i = 0; i < sweep->count; i++) {
        struct config_row *other = &sweep->rows[i];
        if (has_bound(other) && !other->was_looked_at && config_rows_are_alike(other, row)
            && (double)other->lower_bound_ns < 0.99 * (double)row->iteration_ns
            && (!found || other->lower_bound_ns < found->lower_bound_ns))
            found = other;
    }
    return found;
}

// Planned rows come first, by their time. Then come the others, by their lower bound.
static bool comes_before(const struct config_row *a, const struct config_row *b)
{
    if (a->outcome == CONFIG_PLANNED || b->outcome == CONFIG_PLANNED)
        return a->outcome == CONFIG_PLANNED
            && (b->outcome != CONFIG_PLANNED || a->iteration_ns < b->iteration_ns);
    return a->lower_bound_ns < b->lower_bound_ns;
}

// The best row of a way to share out that no row shown so far has. NULL if there is none.
static const struct config_row *next_best(const struct config_sweep *sweep, const struct config_row *const *shown,
                                          size_t count)
{
    const struct config_row *found = NULL;
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        bool is_new = row->outcome == CONFIG_PLANNED || has_bound(row);
        for (size_t j = 0; j < count && is_new; j++)
            is_new = !config_rows_are_alike(row, shown[j]);
        if (is_new && (!found || comes_before(row, found)))
            found = row;
    }
    return found;
}

size_t config_shown(const struct config_sweep *sweep, const struct config_row *shown[CONFIG_MOST_SHOWN])
{
    size_t count = 0;
    for (const struct config_row *row; count < CONFIG_MOST_SHOWN && (row = next_best(sweep, shown, count)); count++)
        shown[count] = row;
    return count;
}
