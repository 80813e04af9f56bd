#include <stdlib.h>

#include "schedules/board.h"
#include "schedules/csv.h"

// A row, which grows to the right. The rows of a compute order grow side by side, in the order in which steps run.
struct row {
    struct text text;
    size_t cells;
    size_t next;  // position in the rank's list
};

struct writer {
    const struct schedule *schedule;
    struct row *rows;
    uint32_t *forward_ends;   // per stage and micro-batch: the column behind its F; 0 before that
    uint32_t *backward_ends;  // the same for its B or I
    struct csv_left_out left_out;
};

// --- what the format can express ---------------------------------------------------

static bool places_are_sayable(const struct schedule *schedule, struct error *error)
{
    if (schedule->weights != WEIGHTS_FLUSH)
        return error_set(error, "%s updates its weights between micro-batches (weights %s), which PyTorch's CSV cannot "
                         "say: Weir's JSON can", schedule->name, weights_names[schedule->weights]);
    if (schedule->splits > 1)
        return error_set(error, "%s splits its sequences, which PyTorch's CSV cannot say: Weir's JSON can",
                         schedule->name);
    if (schedule->exchanges)
        return error_set(error, "%s has messages from a rank to itself, which PyTorch's CSV cannot say: Weir's JSON "
                         "can", schedule->name);
    for (size_t i = schedule->stages; i < (size_t)schedule->route_count * schedule->stages; i++) {
        const uint32_t stage = (uint32_t)(i % schedule->stages);
        if (schedule->routes[i] != schedule->routes[stage])
            return error_set(error, "%s has stage %u on rank %u and on rank %u; PyTorch's CSV has one copy of each "
                             "stage: Weir's JSON can have more", schedule->name, stage, schedule->routes[stage],
                             schedule->routes[i]);
    }
    return true;
}

static bool is_left_out(const struct action *action)
{
    return action->kind >= ACTION_REDUCE || is_move(*action);
}

static bool group_is_sayable(const struct schedule *schedule, uint32_t rank, const struct action *group, size_t size,
                             const struct csv_style *style, struct error *error)
{
    struct text token = { 0 };
    bool good = true;
    for (size_t i = 0; i < size; i++) {
        const bool is_here = group[i].stage < schedule->stages && schedule->routes[group[i].stage] == rank;
        if (!is_here && !is_left_out(&group[i]))
            good = error_set(error, "stage %u is not on this rank, which PyTorch's CSV would say: Weir's JSON can have "
                             "such an action", group[i].stage);
        else if (group[i].kind == ACTION_R)
            good = error_set(error, "PyTorch's CSV has no cell for recomputing apart from its backward");
        else if (size > 1 && group[i].kind > ACTION_W)
            good = error_set(error, "a group of PyTorch's CSV joins computations only");
    }
    if (good && size > 1 && style->dialect == CSV_TORCH_2_6)
        good = error_set(error, "groups came with torch 2.9: the dialect torch2.9 can have them");
    if (!good) {
        group_write(group, size, &token);
        error_at(error, "rank %u, position %zu, %s", rank, (size_t)(group - schedule->lists[rank].at),
                 token.data ? token.data : "");
        text_clear(&token);
    }
    return good;
}

static bool is_sayable(struct writer *writer, const struct csv_style *style, struct error *error)
{
    const struct schedule *schedule = writer->schedule;
    if (!places_are_sayable(schedule, error))
        return false;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action *group = schedule->lists[rank].at, *end = list_end(&schedule->lists[rank]);
        size_t cells = 0;
        for (size_t size; group < end; group += size) {
            size = group_size(group, end);
            cells += !is_left_out(group);
            writer->left_out.steps += group->kind == ACTION_STEP;
            writer->left_out.reductions += group->kind == ACTION_REDUCE;
            writer->left_out.validations += group->kind == ACTION_VALIDATE;
            writer->left_out.moves += is_move(*group);
            if (!group_is_sayable(schedule, rank, group, size, style, error))
                return false;
        }
        if (cells == 0)
            return error_set(error, "rank %u of %s does nothing; PyTorch's CSV has actions for each rank", rank,
                             schedule->name);
    }
    return true;
}

// --- rows ------------------------------------------------------------------------

static void skip_to(struct row *row, size_t column)
{
    for (; row->cells < column; row->cells++) {
        if (row->cells)
            text_add_bytes(&row->text, ",", 1);
    }
}

static void add_cell(struct row *row, size_t column, const struct action *group, size_t size)
{
    skip_to(row, column);
    if (row->cells++)
        text_add_bytes(&row->text, ",", 1);
    group_write(group, size, &row->text);
}

static void write_as_it_is(struct writer *writer)
{
    for (uint32_t rank = 0; rank < writer->schedule->ranks; rank++) {
        const struct action *group = writer->schedule->lists[rank].at, *end = list_end(&writer->schedule->lists[rank]);
        struct row *row = &writer->rows[rank];
        for (size_t size; group < end; group += size) {
            size = group_size(group, end);
            if (!is_left_out(group))
                add_cell(row, row->cells, group, size);
        }
    }
}

// --- columns -----------------------------------------------------------------------

// Whether everything that an action needs has been placed. If so, sets the first column behind it.
static bool find_ready(const struct writer *writer, struct action action, size_t *column)
{
    const struct schedule *schedule = writer->schedule;
    const uint32_t *ends = NULL;
    if (action.stage >= schedule->stages || action.micro_batch >= schedule->micro_batches)
        return false;
    if (action.kind == ACTION_F && action.stage > 0)
        ends = &writer->forward_ends[unit_index(schedule, action.stage - 1u, action.micro_batch, 0)];
    if ((action.kind == ACTION_B || action.kind == ACTION_I) && action.stage + 1u < schedule->stages)
        ends = &writer->backward_ends[unit_index(schedule, action.stage + 1u, action.micro_batch, 0)];
    *column = ends ? *ends : 0;
    return !ends || *ends > 0;
}

static bool group_is_ready(const struct writer *writer, const struct action *group, size_t size, size_t *column)
{
    for (size_t i = 0; i < size; i++) {
        size_t ready;
        if (!find_ready(writer, group[i], &ready))
            return false;
        if (ready > *column)
            *column = ready;
    }
    return true;
}

static void place(struct writer *writer, struct row *row, size_t column, const struct action *group, size_t size)
{
    add_cell(row, column, group, size);
    for (size_t i = 0; i < size; i++) {
        const size_t unit = unit_index(writer->schedule, group[i].stage, group[i].micro_batch, 0);
        if (group[i].kind == ACTION_F)
            writer->forward_ends[unit] = (uint32_t)column + 1;
        if (group[i].kind == ACTION_B || group[i].kind == ACTION_I)
            writer->backward_ends[unit] = (uint32_t)column + 1;
    }
}

// Writes as much of a rank's row as possible; returns whether it wrote anything.
static bool go_on(struct writer *writer, uint32_t rank)
{
    const struct action_list *list = &writer->schedule->lists[rank];
    struct row *row = &writer->rows[rank];
    const size_t before = row->next;
    while (row->next < list->count) {
        const struct action *group = list->at + row->next;
        const size_t size = group_size(group, list_end(list));
        size_t column = row->cells;
        if (!is_left_out(group) && !group_is_ready(writer, group, size, &column))
            break;
        if (!is_left_out(group))
            place(writer, row, column, group, size);
        row->next += size;
    }
    return row->next > before;
}

static bool write_aligned(struct writer *writer, struct error *error)
{
    const struct schedule *schedule = writer->schedule;
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < schedule->ranks; rank++)
            moved |= go_on(writer, rank);
    }
    size_t columns = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        if (writer->rows[rank].next < schedule->lists[rank].count)
            return error_set(error, "%s cannot run, so that its actions have no columns (weir check says why)",
                             schedule->name);
        if (writer->rows[rank].cells > columns)
            columns = writer->rows[rank].cells;
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        skip_to(&writer->rows[rank], columns);
    return true;
}

// --- the file ----------------------------------------------------------------------

static bool create(struct writer *writer, struct error *error)
{
    const struct schedule *schedule = writer->schedule;
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
    writer->rows = calloc(schedule->ranks, sizeof *writer->rows);
    writer->forward_ends = calloc(units, sizeof *writer->forward_ends);
    writer->backward_ends = calloc(units, sizeof *writer->backward_ends);
    return (writer->rows && writer->forward_ends && writer->backward_ends)
        || error_no_memory(error, "PyTorch's CSV");
}

static void clear(struct writer *writer)
{
    for (uint32_t rank = 0; writer->rows && rank < writer->schedule->ranks; rank++)
        text_clear(&writer->rows[rank].text);
    free(writer->rows);
    free(writer->forward_ends);
    free(writer->backward_ends);
}

static bool write_rows(struct writer *writer, struct error *error)
{
    if (!writer->schedule->lowered)
        return write_aligned(writer, error);
    write_as_it_is(writer);
    return true;
}

bool csv_write(const struct schedule *schedule, const struct csv_style *style, struct text *text,
               struct csv_left_out *left_out, struct error *error)
{
    struct writer writer = { .schedule = schedule };
    const bool good = create(&writer, error) && is_sayable(&writer, style, error) && write_rows(&writer, error);
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        const struct text *row = &writer.rows[rank].text;
        text->failed |= row->failed;
        text_add_bytes(text, row->data, row->length);
        text_add(text, style->line_feeds ? "\n" : "\r\n");
    }
    *left_out = writer.left_out;
    clear(&writer);
    return good;
}
