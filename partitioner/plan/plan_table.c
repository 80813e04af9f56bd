// A plan as tables for people to read, and a paragraph that sums it up.
//
// Three or more consecutive stages are one line if their lines differ only in the names of their layers and devices:
//
//      0      embedding .. block0.mlp (3)             0     ...
//      1-6    block1.attention .. block6.mlp (2 each) 1-6   ...
//      7      block7.attention .. head (3)            7     ...
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "partitioner/plan/balance.h"
#include "partitioner/plan/plan_path.h"

enum { LAYERS_WIDTH = 44, LAYERS_SIZE = 256, LINE_SIZE = 320, ALIKE = 3, DEVICES_SIZE = 32, STAGES_SIZE = 48 };

// --- lines, and runs of them that are alike ----------------------------------------

// Formats a line without what may differ within a run.
typedef void line_format(const struct plan *plan, size_t stage, char line[LINE_SIZE]);

// The end of the run of alike stages that starts at `first`. A run has at least ALIKE stages; else this is `first` +
// 1.
static size_t run_end(const struct plan *plan, size_t first, line_format *format)
{
    char one[LINE_SIZE], other[LINE_SIZE];
    size_t end = first + 1;
    format(plan, first, one);
    for (; end < plan->stage_count; end++) {
        format(plan, end, other);
        if (strcmp(one, other) != 0)
            break;
    }
    return end - first >= ALIKE ? end : first + 1;
}

static const char *stages_format(size_t first, size_t end, char buffer[STAGES_SIZE])
{
    if (end - first == 1)
        snprintf(buffer, STAGES_SIZE, "%zu", first);
    else
        snprintf(buffer, STAGES_SIZE, "%zu-%zu", first, end - 1);
    return buffer;
}

// --- times --------------------------------------------------------------------------

// "embedding .. block1.mlp (5)", shortened in its middle if it must be.
static void format_layers(const struct plan *plan, size_t first, size_t end, char buffer[LAYERS_SIZE])
{
    enum { ALONE = 36, EACH = 16 };  // columns
    char one[4 * ALONE + 1], other[4 * EACH + 1];
    const struct plan_stage *stage = &plan->stages[first], *last = &plan->stages[end - 1];
    const uint32_t count = stage->end - stage->first;
    if (count == 0)
        snprintf(buffer, LAYERS_SIZE, "none");
    else if (count == 1 && end - first == 1)
        shown_cut(stage->layers[0], ALONE, buffer, LAYERS_SIZE);
    else
        snprintf(buffer, LAYERS_SIZE, "%s .. %s (%u%s)", shown_cut(stage->layers[0], EACH, one, sizeof one),
                 shown_cut(last->layers[count - 1], EACH, other, sizeof other), count, end - first > 1 ? " each" : "");
}

// "3"; "0-7" if they are consecutive; else the first few of them: "0,4,8,...".
static void format_devices(const struct plan *plan, size_t first, size_t end, char buffer[DEVICES_SIZE])
{
    enum { MOST = 3 };
    const uint32_t begin = plan->stages[first].devices[0];
    size_t count = 0, length = 0;
    bool follow = true;
    for (size_t s = first; s < end; s++) {
        for (size_t i = 0; i < plan_stage_seats(&plan->stages[s]); i++, count++) {
            const uint32_t device = plan->stages[s].devices[i];
            follow &= device == begin + count;
            if (count < MOST)
                length += (size_t)snprintf(buffer + length, DEVICES_SIZE - length, count ? ",%u" : "%u", device);
        }
    }
    if (follow && count > 1)
        snprintf(buffer, DEVICES_SIZE, "%u-%zu", begin, begin + count - 1);
    else if (count > MOST)
        snprintf(buffer + length, DEVICES_SIZE - length, ",...");
}

// If all stages are equally busy, none is marked.
static bool is_busiest(const struct plan *plan, size_t s)
{
    const struct cost_row *costs = &plan->stages[s].costs;
    bool others = false;
    for (size_t i = 0; i < plan->stage_count; i++) {
        const struct cost_row *row = &plan->stages[i].costs;
        others |= row->forward_ns + row->backward_ns + row->recompute_ns
               != costs->forward_ns + costs->backward_ns + costs->recompute_ns;
    }
    return s == plan->bottleneck_stage && others;
}

static void format_times(const struct plan *plan, size_t s, char line[LINE_SIZE])
{
    const struct plan_stage *stage = &plan->stages[s];
    char f[NUMBER_SIZE], b[NUMBER_SIZE], r[NUMBER_SIZE], variant[61];
    snprintf(line, LINE_SIZE, "%10s  %10s  %10s%s%s%s", time_format(stage->costs.forward_ns, f),
             time_format(stage->costs.backward_ns, b),
             stage->recompute_count ? time_format(stage->costs.recompute_ns, r) : "-",
             stage->variant ? "  variant " : "",
             stage->variant ? shown_cut(stage->variant, sizeof variant, variant, sizeof variant) : "",
             is_busiest(plan, s) ? "  < busiest" : "");
}

// All that the stages of a run have in common.
static void format_times_and_count(const struct plan *plan, size_t s, char line[LINE_SIZE])
{
    format_times(plan, s, line);
    const size_t length = strlen(line);
    snprintf(line + length, LINE_SIZE - length, " of %u layers on %zu", plan->stages[s].end - plan->stages[s].first,
             plan_stage_seats(&plan->stages[s]));
}

static void print_times(const struct plan *plan, struct text *text)
{
    text_add(text, "  stage  %-*s device           F           B   recompute\n", LAYERS_WIDTH, "layers");
    for (size_t s = 0, end; s < plan->stage_count; s = end) {
        end = run_end(plan, s, format_times_and_count);
        char layers[LAYERS_SIZE], stages[STAGES_SIZE], devices[DEVICES_SIZE] = "", line[LINE_SIZE];
        format_layers(plan, s, end, layers);
        format_devices(plan, s, end, devices);
        format_times(plan, s, line);
        text_add(text, "  %5s  ", stages_format(s, end, stages));
        shown_add_cell(text, layers, LAYERS_WIDTH, SIZE_MAX);
        text_add(text, " %6s  %s\n", devices, line);
    }
}

// --- memory -------------------------------------------------------------------------

static void format_memory(const struct plan *plan, size_t s, char line[LINE_SIZE])
{
    const struct stage_memory *memory = &plan->stages[s].memory;
    const uint64_t columns[] = { memory->weights_bytes,  memory->gradients_bytes, memory->optimizer_bytes,
                                 memory->versions_bytes, memory->kept_bytes,      memory->transient_bytes,
                                 memory->buffers_bytes,  memory->peak_bytes };
    char buffer[NUMBER_SIZE];
    size_t length = 0;
    line[0] = '\0';
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        length += (size_t)snprintf(line + length, LINE_SIZE - length, "  %10s",
                                   columns[i] ? bytes_format(columns[i], buffer) : "-");
}

static void add_share(struct text *text, uint64_t bytes, uint64_t capacity)
{
    char buffer[NUMBER_SIZE];
    text_add(text, " of %s (%.0f %%)\n", bytes_format(capacity, buffer), 100.0 * (double)bytes / (double)capacity);
}

static void format_memory_and_share(const struct plan *plan, size_t s, char line[LINE_SIZE])
{
    format_memory(plan, s, line);
    const size_t length = strlen(line);
    snprintf(line + length, LINE_SIZE - length, " %llu", (unsigned long long)plan->stages[s].memory.capacity_bytes);
}

static void print_memory(const struct plan *plan, bool shares_ranks, struct text *text)
{
    text_add(text, "\n  stage     weights   gradients   optimizer    versions        kept   transient     buffers"
                   " peak (slab)\n");
    for (size_t s = 0, end; s < plan->stage_count; s = end) {
        end = run_end(plan, s, format_memory_and_share);
        char stages[STAGES_SIZE], line[LINE_SIZE];
        format_memory(plan, s, line);
        text_add(text, "  %5s%s", stages_format(s, end, stages), line);
        if (shares_ranks)
            text_add(text, "\n");
        else
            add_share(text, plan->stages[s].memory.peak_bytes, plan->stages[s].memory.capacity_bytes);
    }
}

// For plans whose ranks hold several stages: only the largest workspace of a rank's stages counts.
static void print_ranks(const struct balance *balance, struct text *text)
{
    text_add(text, "\n  rank   stages               peak (slab)\n");
    for (uint32_t rank = 0; rank < balance->ranks; rank++) {
        const struct placement *placement = balance->placement;
        struct text stages = { 0 };
        char peak[NUMBER_SIZE];
        for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++)
            text_add(&stages, "%s%u", i > placement->stage_at[rank] ? ", " : "", placement->held[i]);
        text_add(text, "  %5u  %-19s %10s", rank, stages.failed ? "" : stages.data,
                 bytes_format(balance->of[rank].peak_bytes, peak));
        add_share(text, balance->of[rank].peak_bytes, balance->of[rank].capacity_bytes);
        text->failed |= stages.failed;
        text_clear(&stages);
    }
}

// The bytes that each stage stores there for each device; consecutive stages with the same bytes are joined.
static void print_host(const struct plan *plan, struct text *text)
{
    size_t printed = 0;
    for (size_t s = 0, end; s < plan->stage_count; s = end) {
        const uint64_t bytes = plan->stages[s].memory.host_bytes;
        char stages[STAGES_SIZE], buffer[NUMBER_SIZE];
        for (end = s + 1; end < plan->stage_count && plan->stages[end].memory.host_bytes == bytes; end++)
            continue;
        if (bytes > 0)
            text_add(text, "%s stage%s %s %s", printed++ ? "," : "\n  On the host, of each device:",
                     end - s > 1 ? "s" : "", stages_format(s, end, stages), bytes_format(bytes, buffer));
    }
    text_add(text, printed ? "\n" : "");
}

// --- recomputation ------------------------------------------------------------------

// How many segments from `i` on are one layer each and follow each other.
static size_t count_single(const struct plan_stage *stage, size_t i)
{
    const uint32_t first = stage->recompute[i].first;
    size_t count = 0;
    while (i + count < stage->recompute_count && stage->recompute[i + count].first == first + count
           && stage->recompute[i + count].end == first + count + 1)
        count++;
    return count;
}

static void print_recompute(const struct plan *plan, struct text *text)
{
    enum { FEW = 3 };
    size_t printed = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (!stage->recompute_count)
            continue;
        text_add(text, "%s  stage %zu runs again before their backward:", printed++ ? "" : "\n", s);
        for (size_t i = 0, end; i < stage->recompute_count; i = end) {
            const size_t single = count_single(stage, i);
            end = i + (single > FEW ? single : 1);
            const struct segment segment = { stage->recompute[i].first, stage->recompute[end - 1].end };
            shown_add(text, "%s%s %s", i ? "," : "", single > FEW ? " each of" : "",
                      stage->layers[segment.first - stage->first]);
            if (segment.end - segment.first > 1)
                shown_add(text, " .. %s", stage->layers[segment.end - 1 - stage->first]);
        }
        text_add(text, "\n");
    }
}

// --- the paragraph ------------------------------------------------------------------

static void add_percent(struct text *text, double part, double whole)
{
    const double percent = whole > 0 ? 100 * part / whole : 0;
    if (percent > 0 && percent < 0.01)
        text_add(text, "less than 0.01 %%");
    else
        text_add(text, percent > 0 && percent < 1 ? "%.2f %%" : percent < 10 ? "%.1f %%" : "%.0f %%", percent);
}

static void print_time(const struct plan *plan, struct text *text)
{
    char time[NUMBER_SIZE], each[NUMBER_SIZE];
    text_add(text, "\nAn iteration takes %s, %s per micro-batch, %.1f %% of it bubble (makespan).",
             time_format(plan->iteration_ns, time), time_format(plan->iteration_ns / plan->micro_batches, each),
             100 * plan->bubble.makespan);
}

static void print_bottleneck(const struct balance *balance, struct text *text)
{
    if (balance->ranks < 2)
        return;
    const uint64_t most = balance->of[balance->busiest].busy_ns, mean = balance_mean_busy_ns(balance);
    if ((most - mean) * 100 < mean) {
        text_add(text, " Work is even: no rank has 1 %% more than the average.");
        return;
    }
    text_add(text, " The bottleneck is ");
    balance_name_rank(balance, balance->busiest, text);
    text_add(text, ", with ");
    add_percent(text, (double)(most - mean), (double)mean);
    text_add(text, " more work than the average.");
}

// Work alone does not explain why ranks wait. If more than a tenth of the critical path is messages, they are the
// reason.
static void print_links(const struct plan *plan, struct text *text)
{
    enum { MOST_PLACES = 1 << 20 };
    struct plan_path path;
    struct error error = { 0 };
    if ((uint64_t)plan->stage_count * plan->micro_batches > MOST_PLACES)
        return;
    if (!plan_path_read(plan, &path, &error)) {
        text->failed |= error.kind == ERROR_MACHINE;
        return;
    }
    if (path.links_ns > path.run_ns / 10) {
        text_add(text, " Links take ");
        add_percent(text, (double)path.links_ns, (double)path.run_ns);
        text_add(text, " of the critical path, most of it from rank %u to rank %u; `weir explain` says what quicker"
                       " ones would gain.", path.slowest->from, path.slowest->to);
    }
    plan_path_clear(&path);
}

static void print_recomputing(const struct balance *balance, struct text *text)
{
    const uint64_t recompute = balance_recompute_ns(balance);
    if (recompute == 0)
        return;
    text_add(text, " Recomputation is ");
    add_percent(text, (double)recompute, (double)balance_mean_busy_ns(balance) * balance->ranks);
    text_add(text, " of all work.");
}

static void print_margin(const struct balance *balance, struct text *text)
{
    const struct rank_load *tightest = &balance->of[balance->tightest];
    char margin[NUMBER_SIZE], capacity[NUMBER_SIZE];
    text_add(text, " Memory is tightest on ");
    balance_name_rank(balance, balance->tightest, text);
    if (tightest->capacity_bytes < tightest->peak_bytes)
        text_add(text, ": it lacks %s of %s.", bytes_format(tightest->peak_bytes - tightest->capacity_bytes, margin),
                 bytes_format(tightest->capacity_bytes, capacity));
    else
        text_add(text, ": %s of %s to spare.", bytes_format(tightest->capacity_bytes - tightest->peak_bytes, margin),
                 bytes_format(tightest->capacity_bytes, capacity));
}

static void print_other_measure(const struct certificate *certificate, struct text *text)
{
    char value[NUMBER_SIZE], bound[NUMBER_SIZE];
    shown_add(text, " It was made for, or priced by, another measure, %s: %s there, ", certificate->objective,
              time_format(certificate->value_ns, value));
    if (certificate->proved)
        text_add(text, certificate->is_claimed ? "the least, as its file says.\n" : "proved least.\n");
    else if (certificate->lower_bound_ns == 0)
        shown_add(text, "without a bound: %s.", certificate->stopped), text_add(text, "\n");
    else
        text_add(text, "and none loads less than %s%s.\n", time_format(certificate->lower_bound_ns, bound),
                 certificate->is_claimed ? ", as its file says" : "");
}

// The claims of a file about itself have not been checked.
static void print_claim(const struct certificate *certificate, struct text *text)
{
    char bound[NUMBER_SIZE];
    if (certificate->proved)
        text_add(text, " Its file says that it is proved optimal, which was not checked.\n");
    else if (certificate->lower_bound_ns > 0)
        text_add(text, " Its file says that nothing that fits can take less than %s, which was not checked.\n",
                 time_format(certificate->lower_bound_ns, bound));
    else
        text_add(text, " Its file claims no bound.\n");
}

// Which plans a certificate is about.
static const char *const target_words[] = { "", " of what Megatron-Core can be told",
                                            " of what torchtitan can be told" };
static const char *plans_of(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].pinned)
            return " with the layers that are pinned where they are";
    return target_words[plan->target];
}

static void print_certificate(const struct plan *plan, struct text *text)
{
    const struct certificate *certificate = &plan->certificate;
    char bound[NUMBER_SIZE];
    if (strcmp(certificate->objective, "iteration_ns") != 0) {
        print_other_measure(certificate, text);
        return;
    }
    if (certificate->is_claimed) {
        print_claim(certificate, text);
        return;
    }
    if (certificate->proved) {
        text_add(text, " Proved optimal%s: no other cut or recomputation that fits is faster.\n",
                 plans_of(plan));
        return;
    }
    if (certificate->lower_bound_ns == 0) {
        shown_add(text, " No bound: %s.", certificate->stopped), text_add(text, "\n");
        return;
    }
    text_add(text, " It is at most ");
    add_percent(text, certificate->gap, 1);
    text_add(text, " from optimal%s: nothing that fits can take less than %s%s%s.\n", target_words[plan->target],
             time_format(certificate->lower_bound_ns, bound),
             certificate->stopped[0] ? "; the search ended early: " : "", certificate->stopped);
}

static void print_sense(const struct plan *plan, const struct balance *balance, struct text *text)
{
    print_time(plan, text);
    if (balance) {
        print_bottleneck(balance, text);
        print_links(plan, text);
        print_recomputing(balance, text);
        print_margin(balance, text);
    }
    if (plan->order)
        text_add(text, " The layers stand in another order than the profile's, so that they can be cut so.");
    print_certificate(plan, text);
}

// A plan made by hand whose stages are not those of its schedule has no loads to report.
void plan_print(const struct plan *plan, struct text *text)
{
    struct balance balance;
    struct error error = { 0 };
    const bool has_balance = balance_read(plan, &balance, &error);
    text->failed |= error.kind == ERROR_MACHINE;
    const bool shares_ranks = has_balance && balance.shares_ranks;
    shown_add(text, "%s by %s: ", plan->model, plan->schedule);
    text_add_count(text, plan->ranks, "rank", "ranks");
    text_add(text, ", ");
    text_add_count(text, plan->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", ");
    storage_say(&plan->storage, text);
    text_add(text, "\n\n");
    print_times(plan, text);
    print_memory(plan, shares_ranks, text);
    if (shares_ranks)
        print_ranks(&balance, text);
    print_host(plan, text);
    print_recompute(plan, text);
    print_sense(plan, has_balance ? &balance : NULL, text);
    if (has_balance)
        balance_clear(&balance);
}
