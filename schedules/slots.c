#include "schedules/slots.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "schedules/folds.h"
#include "schedules/standstill.h"
#include "schedules/versions.h"

// How many slots of each class one rank holds for one stage: now, and at most.
struct row {
    struct slots now, most;
    uint32_t sent_outputs, sent_gradients;  // those of `now` that are buffers of messages: two at most
    uint32_t done;  // micro-batches since the last STEP, whose statistics the next one takes;
    uint32_t done_before_reduce;  // if there was a REDUCE, it takes only these
    bool was_reduced;
};

// How many parts of a micro-batch a stage has begun forward, begun backward, and finished.
struct parts_done {
    uint8_t forward, backward, done;
};

struct count {
    const struct schedule *schedule;
    struct parts_done *parts;  // by stage, then micro-batch; NULL where sequences are whole
    struct versions versions;
    struct row *rows;  // per stage, of the rank that is being traversed
    bool *has_recompute;  // per stage: whether it has an R
    bool *has_again;   // per unit: whether it holds recomputed data
    bool forward_only;
};

static void raise_most(uint32_t *now, uint32_t *most)
{
    if (++*now > *most)
        *most = *now;
}

#define TAKE(row, member) raise_most(&(row)->now.member, &(row)->most.member)

static void take_input(struct row *row)
{
    for (unsigned life = 0; life < 3; life++)
        TAKE(row, input[life]);
}

// The buffer of a message is free again when the next but one begins.
static void take_message(uint32_t *sent, uint32_t *now, uint32_t *most)
{
    if (*sent == 2)
        return;
    ++*sent;
    raise_most(now, most);
}

static bool comes_from_this_rank(const struct count *count, struct action action)
{
    return action.stage > 0 && !crosses_before(count->schedule, action.stage, action.micro_batch);
}

static bool stays_on_this_rank(const struct count *count, struct action action)
{
    return action.stage + 1u < count->schedule->stages
        && !crosses_after(count->schedule, action.stage, action.micro_batch);
}

// For an R, or for a backward without an R on a stage where others have one.
static void begin_again(struct count *count, struct action action)
{
    bool *has_again = &count->has_again[unit_of(count->schedule, action)];
    if (count->has_recompute[action.stage] && !*has_again)
        TAKE(&count->rows[action.stage], again);
    *has_again = true;
}

// Returns NULL if sequences are whole.
static struct parts_done *parts_of_action(const struct count *count, struct action action)
{
    return count->parts ? &count->parts[(size_t)action.stage * count->schedule->micro_batches + action.micro_batch]
                        : NULL;
}

static void end_part(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    struct parts_done *parts = parts_of_action(count, action);
    if (!parts || ++parts->done < count->schedule->splits)
        return;
    row->now.shared_by_parts--;
    row->now.shared_by_parts_gradient -= parts->backward > 0;
}

static void begin_forward(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    struct parts_done *parts = parts_of_action(count, action);
    if (parts && parts->forward++ == 0)
        TAKE(row, shared_by_parts);
    TAKE(row, kept);
    TAKE(row, kept_through);
    if (count->schedule->splits == 1 && !count->forward_only)
        TAKE(row, statistics);
    if (stays_on_this_rank(count, action))
        TAKE(row, output);
    else if (makes_message(count->schedule, action))
        take_message(&row->sent_outputs, &row->now.output, &row->most.output);
}

static void begin_backward(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    struct parts_done *parts = parts_of_action(count, action);
    begin_again(count, action);
    if (parts && parts->backward++ == 0)
        TAKE(row, shared_by_parts_gradient);
    if (action.kind == ACTION_I)
        TAKE(row, held);
    if (comes_from_this_rank(count, action))
        TAKE(row, input_gradient);
    else if (makes_message(count->schedule, action))
        take_message(&row->sent_gradients, &row->now.input_gradient, &row->most.input_gradient);
}

// Frees what is no longer needed when a backward for the input has ended, and when one for the weights has.
static void end_backward(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    end_part(count, action);
    row->now.kept--;
    row->now.again -= count->has_recompute[action.stage];
    if (crosses_before(count->schedule, action.stage, action.micro_batch))
        row->now.input[INPUT_UNTIL_I]--;
    if (needs_message(count->schedule, action))
        row->now.output_gradient--;
    if (stays_on_this_rank(count, action))
        row[1].now.input_gradient--;
}

static void end_backward_weight(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    if (action.kind == ACTION_W)
        row->now.held--;
    row->now.kept_through--;
    row->done++;
    if (crosses_before(count->schedule, action.stage, action.micro_batch))
        row->now.input[INPUT_UNTIL_W]--;
    if (comes_from_this_rank(count, action))
        row[-1].now.output--;
}

// Without backwards, nothing is kept for them.
static void end_forward(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    if (needs_message(count->schedule, action))
        row->now.input[INPUT_UNTIL_F]--;
    if (!count->forward_only)
        return;
    end_part(count, action);
    row->now.kept--;
    if (crosses_before(count->schedule, action.stage, action.micro_batch))
        row->now.input[INPUT_UNTIL_I]--;
    end_backward_weight(count, action);
}

// A transfer to the host, or back.
static void move(struct row *row, bool is_leaving)
{
    if (is_leaving) {
        TAKE(row, away);
        row->now.kept--;
        row->now.kept_through--;
    } else {
        TAKE(row, kept);
        TAKE(row, kept_through);
        row->now.away--;
    }
}

// What a REDUCE has brought together is the update's; what comes after it waits for the next.
static void end_update(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    const uint32_t taken = row->was_reduced ? row->done_before_reduce : row->done;
    if (action.kind == ACTION_REDUCE) {
        row->was_reduced = true;
        row->done_before_reduce = row->done;
        return;
    }
    row->now.statistics -= min_u32(taken, row->now.statistics);
    row->done -= taken;
    row->was_reduced = false;
}

static void begin_action(struct count *count, struct action action)
{
    struct row *row = &count->rows[action.stage];
    if (action.kind == ACTION_RECV_F)
        take_input(row);
    if (action.kind == ACTION_RECV_B)
        TAKE(row, output_gradient);
    if (action.kind == ACTION_F)
        begin_forward(count, action);
    if (action.kind == ACTION_R)
        begin_again(count, action);
    if (is_move(action))
        move(row, action.kind == ACTION_EVICT);
    if (is_backward(action))
        begin_backward(count, action);
}

static void end_action(struct count *count, uint32_t rank, struct action action)
{
    struct row *row = &count->rows[action.stage];
    if (action.kind == ACTION_F)
        end_forward(count, action);
    if (is_backward(action))
        end_backward(count, action);
    if (action.kind == ACTION_B || action.kind == ACTION_W)
        end_backward_weight(count, action);
    if (action.kind == ACTION_REDUCE || action.kind == ACTION_STEP)
        end_update(count, action);
    versions_advance(&count->versions, rank, action);
    row->most.versions = max_u32(row->most.versions, versions_alive(&count->versions, rank, action.stage));
}

static void keep_largest(struct slots *slots, const struct slots *most)
{
    for (unsigned life = 0; life < 3; life++)
        slots->input[life] = max_u32(slots->input[life], most->input[life]);
    slots->kept = max_u32(slots->kept, most->kept);
    slots->kept_through = max_u32(slots->kept_through, most->kept_through);
    slots->away = max_u32(slots->away, most->away);
    slots->held = max_u32(slots->held, most->held);
    slots->again = max_u32(slots->again, most->again);
    slots->shared_by_parts = max_u32(slots->shared_by_parts, most->shared_by_parts);
    slots->shared_by_parts_gradient = max_u32(slots->shared_by_parts_gradient, most->shared_by_parts_gradient);
    slots->output = max_u32(slots->output, most->output);
    slots->output_gradient = max_u32(slots->output_gradient, most->output_gradient);
    slots->input_gradient = max_u32(slots->input_gradient, most->input_gradient);
    slots->versions = max_u32(slots->versions, most->versions);
    slots->statistics = max_u32(slots->statistics, most->statistics);
}

static void count_rank(struct count *count, uint32_t rank, struct slots *slots)
{
    const struct action_list *list = &count->schedule->lists[rank];
    size_t size;
    for (const struct action *group = list->at; group < list_end(list); group += size) {
        size = group_size(group, list_end(list));
        for (size_t i = 0; i < size; i++)
            begin_action(count, group[i]);
        for (size_t i = 0; i < size; i++)
            end_action(count, rank, group[i]);
    }
    for (size_t i = 0; i < list->count; i++) {  // the first time for each stage; then its row is empty
        struct row *row = &count->rows[list->at[i].stage];
        keep_largest(&slots[list->at[i].stage], &row->most);
        *row = (struct row){ 0 };
    }
}

static bool find_reruns(struct count *count, struct error *error)
{
    const struct schedule *schedule = count->schedule;
    count->has_recompute = calloc(schedule->stages, sizeof *count->has_recompute);
    count->has_again = calloc(unit_count(schedule) + 1, sizeof *count->has_again);
    if (!count->has_recompute || !count->has_again)
        return error_no_memory(error, "counting the slots of a schedule");
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            if (schedule->lists[rank].at[i].kind == ACTION_R)
                count->has_recompute[schedule->lists[rank].at[i].stage] = true;
    return true;
}

// The most micro-batches that an update of a stage with copies takes in.
static uint32_t most_gathered(const struct folds *folds, uint32_t stage, uint32_t *tally)
{
    const uint32_t micro_batches = folds->schedule->micro_batches;
    const uint32_t *update_of = &folds->update_of[(size_t)stage * micro_batches];
    uint32_t most = 0;
    for (uint32_t m = 0; m < micro_batches; m++)
        tally[m] = 0;
    for (uint32_t m = 0; m < micro_batches; m++)
        if (update_of[m] != NO_UPDATE)
            raise_most(&tally[update_of[m]], &most);
    return most;
}

static bool count_gathered(const struct count *count, struct slots *slots, struct error *error)
{
    const struct schedule *schedule = count->schedule;
    struct folds folds;
    struct copies copies;
    if (schedule->route_count == 1 || schedule->splits > 1 || count->forward_only)
        return true;
    if (!folds_open(&folds, schedule, error))
        return false;
    if (!copies_create(&copies, schedule, error)) {
        folds_close(&folds);
        return false;
    }
    uint32_t *tally = calloc(schedule->micro_batches + 1u, sizeof *tally);
    for (uint32_t s = 0; tally && s < schedule->stages; s++)
        if (copies_count(&copies, s) > 1)
            slots[s].gathered_statistics = most_gathered(&folds, s, tally);
    const bool good = tally != NULL;
    free(tally);
    copies_clear(&copies);
    folds_close(&folds);
    return good || error_no_memory(error, "counting the slots of a schedule");
}

bool slots_count(const struct schedule *lowered, struct slots *slots, struct error *error)
{
    assert(lowered->lowered);

    for (uint32_t stage = 0; stage < lowered->stages; stage++)
        slots[stage] = (struct slots){ .versions = 1 };
    if (!actions_in_order(lowered, true, error))  // otherwise counts would be meaningless
        return false;
    struct count count = { .schedule = lowered, .forward_only = schedule_is_forward_only(lowered) };
    count.rows = calloc(lowered->stages, sizeof *count.rows);
    if (lowered->splits > 1)
        count.parts = calloc((size_t)lowered->stages * lowered->micro_batches + 1, sizeof *count.parts);
    const bool good = ((count.rows && (count.parts || lowered->splits == 1))
                       || error_no_memory(error, "counting the slots of a schedule"))
                   && find_reruns(&count, error) && versions_create(&count.versions, lowered, error);
    for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
        count_rank(&count, rank, slots);
    const bool gathered = good && count_gathered(&count, slots, error);
    versions_clear(&count.versions);
    free(count.rows);
    free(count.has_recompute);
    free(count.has_again);
    free(count.parts);
    return gathered;
}
