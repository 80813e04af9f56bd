#include "runtime/sharing.h"

#include <stdlib.h>
#include <string.h>

// A rank's numbers; what it has per stage and per micro-batch follows.
struct told {
    struct rank_result result;  // its times from the beginning of the pass
    uint64_t waited_ns, host_ns, replayed;
};

static size_t told_bytes(const struct schedule *schedule)
{
    return sizeof(struct told) + schedule->stages * sizeof(uint64_t) + schedule->micro_batches * sizeof(uint64_t);
}

static uint64_t *stages_of(struct told *told)
{
    return (uint64_t *)(told + 1);
}

static float *losses_of(struct told *told, const struct schedule *schedule)
{
    return (float *)(stages_of(told) + schedule->stages);
}

static struct told *told_by(void *all, const struct schedule *schedule, uint32_t rank)
{
    return (struct told *)((char *)all + rank * told_bytes(schedule));
}

static void tell(const struct recorder *recorder, const struct measured_pass *pass, uint32_t rank, struct told *told)
{
    const struct schedule *schedule = recorder->schedule;
    const struct rank_record *record = &recorder->ranks[rank];
    *told = (struct told){ pass->per_rank[rank], pass->waited_ns[rank], pass->host_ns[rank], pass->replayed[rank] };
    if (record->span_count > 0) {
        const uint64_t offset_ns = record->spans[0].start_ns - recorder->start_ns - told->result.first_ns;
        told->result.first_ns += offset_ns;
        told->result.last_ns += offset_ns;
    }
    memcpy(stages_of(told), pass->stage_ns, schedule->stages * sizeof(uint64_t));
    memcpy(losses_of(told, schedule), pass->losses, schedule->micro_batches * sizeof(float));
}

static void take(const struct schedule *schedule, const struct measured_pass *pass, void *all)
{
    uint64_t zero = UINT64_MAX, end = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct rank_result *result = &told_by(all, schedule, rank)->result;
        if (result->last_ns > 0 && result->first_ns < zero)
            zero = result->first_ns;
    }
    memset(pass->stage_ns, 0, schedule->stages * sizeof *pass->stage_ns);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct told *told = told_by(all, schedule, rank);
        if (told->result.last_ns > 0) {
            told->result.first_ns -= zero;
            told->result.last_ns -= zero;
        }
        pass->per_rank[rank] = told->result;
        pass->waited_ns[rank] = told->waited_ns;
        pass->host_ns[rank] = told->host_ns;
        pass->replayed[rank] = told->replayed;
        end = told->result.last_ns > end ? told->result.last_ns : end;
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            pass->stage_ns[stage] += stages_of(told)[stage];
    }
    *pass->iteration_ns = end;
    for (uint32_t i = 0; i < schedule->micro_batches; i++)
        pass->losses[i] =
            losses_of(told_by(all, schedule, schedule_rank(schedule, schedule->stages - 1u, i)), schedule)[i];
}

bool share_pass(const struct process_group *group, const struct recorder *recorder, const struct measured_pass *pass,
                struct error *error)
{
    const struct schedule *schedule = recorder->schedule;
    struct told *own = calloc(1, told_bytes(schedule));
    void *all = calloc(schedule->ranks, told_bytes(schedule));
    bool good = (own && all) || error_no_memory(error, "what ranks have measured");
    if (good)
        tell(recorder, pass, group->rank, own);
    good = good && group->all_gather(group->self, own, told_bytes(schedule), all, error);
    if (good)
        take(schedule, pass, all);
    free(own);
    free(all);
    return good;
}

// --- spans ------------------------------------------------------------------------------

static size_t most_spans(const struct recorder *recorder)
{
    size_t most = 0;
    for (uint32_t rank = 0; rank < recorder->schedule->ranks; rank++)
        if (recorder->ranks[rank].most_spans > most)
            most = recorder->ranks[rank].most_spans;
    return most;
}

// From times since the beginning of a pass to a rank's clock, or back (by the negative of it).
static void move_spans(struct span *spans, size_t count, uint64_t by_ns)
{
    for (size_t i = 0; i < count; i++) {
        spans[i].start_ns += by_ns;
        spans[i].end_ns += by_ns;
    }
}

bool share_spans(const struct process_group *group, struct recorder *recorder, struct error *error)
{
    const uint32_t ranks = recorder->schedule->ranks;
    const size_t row = most_spans(recorder) + 1;  // the first holds the count
    struct span *own = calloc(row, sizeof *own), *all = calloc(ranks * row, sizeof *all);
    const struct rank_record *mine = &recorder->ranks[group->rank];
    bool good = (own && all) || error_no_memory(error, "the times of a schedule's actions");
    if (good) {
        own[0].start_ns = mine->span_count;
        memcpy(own + 1, mine->spans, mine->span_count * sizeof *own);
        move_spans(own + 1, mine->span_count, -recorder->start_ns);
        good = group->all_gather(group->self, own, row * sizeof *own, all, error);
    }
    for (uint32_t rank = 0; good && rank < ranks; rank++) {
        struct rank_record *record = &recorder->ranks[rank];
        const struct span *its = all + rank * row;
        record->span_count = its[0].start_ns < record->most_spans ? its[0].start_ns : record->most_spans;
        memcpy(record->spans, its + 1, record->span_count * sizeof *its);
        move_spans(record->spans, record->span_count, recorder->start_ns);
    }
    free(own);
    free(all);
    return good;
}
