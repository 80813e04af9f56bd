#include "runtime/groups/pass_report.h"

#include <stdlib.h>
#include <string.h>

// A rank's numbers. What it has per stage and per micro-batch follows in memory.
struct report {
    struct rank_result result;  // its times count from the beginning of the pass
    struct rank_effort effort;
};

static size_t report_bytes(const struct schedule *schedule)
{
    return sizeof(struct report) + schedule->stages * sizeof(uint64_t) + schedule->micro_batches * sizeof(uint64_t);
}

static uint64_t *stages_of(struct report *report)
{
    return (uint64_t *)(report + 1);
}

static float *losses_of(struct report *report, const struct schedule *schedule)
{
    return (float *)(stages_of(report) + schedule->stages);
}

static struct report *report_of(void *all, const struct schedule *schedule, uint32_t rank)
{
    return (struct report *)((char *)all + rank * report_bytes(schedule));
}

static void write_report(const struct recorder *recorder, const struct measured_pass *pass, uint32_t rank,
                         struct report *report)
{
    const struct schedule *schedule = recorder->schedule;
    const struct rank_record *record = &recorder->ranks[rank];
    *report = (struct report){ pass->per_rank[rank], pass->efforts[rank] };
    if (record->span_count > 0) {
        const uint64_t offset_ns = record->spans[0].start_ns - recorder->start_ns - report->result.first_ns;
        report->result.first_ns += offset_ns;
        report->result.last_ns += offset_ns;
    }
    memcpy(stages_of(report), pass->stage_ns, schedule->stages * sizeof(uint64_t));
    memcpy(losses_of(report, schedule), pass->losses, schedule->micro_batches * sizeof(float));
}

static void collect_report(const struct schedule *schedule, const struct measured_pass *pass, void *all)
{
    uint64_t zero = UINT64_MAX, end = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct rank_result *result = &report_of(all, schedule, rank)->result;
        if (result->last_ns > 0 && result->first_ns < zero)
            zero = result->first_ns;
    }
    memset(pass->stage_ns, 0, schedule->stages * sizeof *pass->stage_ns);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct report *report = report_of(all, schedule, rank);
        if (report->result.last_ns > 0) {
            report->result.first_ns -= zero;
            report->result.last_ns -= zero;
        }
        pass->per_rank[rank] = report->result;
        pass->efforts[rank] = report->effort;
        end = report->result.last_ns > end ? report->result.last_ns : end;
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            pass->stage_ns[stage] += stages_of(report)[stage];
    }
    *pass->iteration_ns = end;
    for (uint32_t i = 0; i < schedule->micro_batches; i++)
        pass->losses[i] =
            losses_of(report_of(all, schedule, schedule_rank(schedule, schedule->stages - 1u, i)), schedule)[i];
}

bool share_pass(const struct process_group *group, const struct recorder *recorder, const struct measured_pass *pass,
                struct error *error)
{
    const struct schedule *schedule = recorder->schedule;
    struct report *report = calloc(1, report_bytes(schedule));
    void *all = calloc(schedule->ranks, report_bytes(schedule));
    bool good = (report && all) || error_no_memory(error, "what ranks have measured");
    if (good)
        write_report(recorder, pass, group->rank, report);
    good = good && group->all_gather(group->self, report, report_bytes(schedule), all, error);
    if (good)
        collect_report(schedule, pass, all);
    free(report);
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

// From times since the beginning of a pass to a rank's clock, or back (with the negative of `by_ns`).
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
    struct span *sent = calloc(row, sizeof *sent), *all = calloc(ranks * row, sizeof *all);
    const struct rank_record *mine = &recorder->ranks[group->rank];
    bool good = (sent && all) || error_no_memory(error, "the times of a schedule's actions");
    if (good) {
        sent[0].start_ns = mine->span_count;
        memcpy(sent + 1, mine->spans, mine->span_count * sizeof *sent);
        move_spans(sent + 1, mine->span_count, -recorder->start_ns);
        good = group->all_gather(group->self, sent, row * sizeof *sent, all, error);
    }
    for (uint32_t rank = 0; good && rank < ranks; rank++) {
        struct rank_record *record = &recorder->ranks[rank];
        const struct span *its = all + rank * row;
        record->span_count = its[0].start_ns < record->most_spans ? its[0].start_ns : record->most_spans;
        memcpy(record->spans, its + 1, record->span_count * sizeof *its);
        move_spans(record->spans, record->span_count, recorder->start_ns);
    }
    free(sent);
    free(all);
    return good;
}
