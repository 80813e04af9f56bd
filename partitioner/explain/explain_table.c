// Prints an explanation for people.
#include <stdio.h>

#include "common/number.h"
#include "common/shown.h"
#include "partitioner/experts/expert_words.h"
#include "partitioner/explain/explain.h"

static void add_percent(struct text *text, double fraction)
{
    const double percent = 100 * fraction, size = percent < 0 ? -percent : percent;
    text_add(text, size < 0.005 || size >= 9.95 ? "%.0f %%" : size < 0.995 ? "%.2f %%" : "%.1f %%", percent);
}

static double part_of(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

// --- what binds ---------------------------------------------------------------------------

// What the plan's file claims beyond that.
static void print_claim(const struct explanation *explanation, struct text *text)
{
    const struct certificate *certificate = &explanation->plan->certificate;
    char bound[NUMBER_SIZE];
    if (!certificate->is_claimed || certificate->lower_bound_ns <= explanation->bound_ns || explanation->is_beaten)
        return;
    if (certificate->proved)
        text_add(text, "Its file says that it is proved optimal");
    else
        text_add(text, "Its file says that nothing takes less than %s",
                 time_format(certificate->lower_bound_ns, bound));
    text_add(text, ", which was not checked.\n");
}

static void print_head(const struct explanation *explanation, struct text *text)
{
    const struct plan *plan = explanation->plan;
    const struct sweep_row *unchanged = &explanation->unchanged;
    const uint64_t bound_ns = explanation->bound_ns;
    char time[NUMBER_SIZE];
    shown_add(text, "%s by %s, ", plan->model, plan->schedule);
    text_add_count(text, plan->ranks, "rank", "ranks");
    text_add(text, ", ");
    text_add_count(text, plan->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ": %s an iteration", time_format(plan->iteration_ns, time));
    if (explanation->is_beaten) {
        text_add(text, ".\nPlanned anew the same request takes %s, ", time_format(unchanged->found.iteration_ns, time));
        add_percent(text, 1 - part_of(unchanged->found.iteration_ns, plan->iteration_ns));
        text_add(text, " less: take that plan. Gains below are against it, all else is of the plan given.\n");
    } else if (bound_ns == plan->iteration_ns) {
        text_add(text, ", proved optimal.\n");
    } else if (bound_ns == 0) {
        text_add(text, "; no bound is known.\n");
    } else {
        text_add(text, ", at most ");
        add_percent(text, 1 - part_of(bound_ns, plan->iteration_ns));
        text_add(text, " from optimal.\n");
    }
    print_claim(explanation, text);
}

static void print_memory_binding(const struct explanation *explanation, struct text *text)
{
    const struct what_if *limitless = explain_find(explanation, WHAT_IF_NO_MEMORY_LIMIT);
    char peak[NUMBER_SIZE];
    shown_add(text, "What binds is %s: without limits an iteration would take ", explanation->binding_name);
    add_percent(text, limitless->gain);
    text_add(text, " less, with %s on rank %u.", bytes_format(limitless->row.found.peak_bytes, peak),
             limitless->row.found.rank);
}

static void print_link_binding(const struct explanation *explanation, struct text *text)
{
    text_add(text, "What binds are the links, most of all %s: if they cost nothing an iteration would take ",
             explanation->binding_name);
    add_percent(text, explain_gain(explanation, WHAT_IF_NO_LINK_COST));
    text_add(text, " less.");
}

static void print_layer_binding(const struct explanation *explanation, struct text *text)
{
    const uint64_t mean = balance_mean_busy_ns(&explanation->balance);
    shown_add(text, "What binds is %s, which no cut divides: alone it is ", explanation->binding_name);
    add_percent(text, explanation->layer.share);
    text_add(text, " of an iteration, and ");
    add_percent(text, part_of(explanation->layer.ns - mean, mean));
    text_add(text, " more than a rank's average work.");
}

static void print_work_binding(const struct explanation *explanation, struct text *text)
{
    const struct balance *balance = &explanation->balance;
    const uint64_t most = balance->of[balance->busiest].busy_ns, mean = balance_mean_busy_ns(balance);
    if (balance->ranks == 1) {
        text_add(text, "What binds is the work itself.");
    } else if ((most - mean) * 100 < mean) {
        text_add(text, "What binds is the work itself, which is even: no rank has 1 %% more than the average.");
    } else {
        const bool leads = explanation->lead >= 0.005;
        shown_add(text, "What binds is %s, ", explanation->binding_name);
        add_percent(text, leads ? explanation->lead : part_of(most - mean, mean));
        text_add(text, leads ? " more than the next rank has." : " more than the average.");
    }
}

// What removing the other constraints would gain.
static void print_others(const struct explanation *explanation, struct text *text)
{
    const double memory = explain_gain(explanation, WHAT_IF_NO_MEMORY_LIMIT);
    const double links = explain_gain(explanation, WHAT_IF_NO_LINK_COST);
    if (explanation->binding != BINDING_MEMORY) {
        text_add(text, " Memory without limits would gain ");
        add_percent(text, memory);
    }
    if (explanation->binding != BINDING_LINK && explanation->plan->ranks > 1) {
        text_add(text, explanation->binding == BINDING_MEMORY ? " Links that cost nothing would gain "
                                                              : ", links that cost nothing ");
        add_percent(text, links);
    }
    text_add(text, explanation->plan->ranks > 1 || explanation->binding != BINDING_MEMORY ? ".\n" : "\n");
}

static void print_binding(const struct explanation *explanation, struct text *text)
{
    static void (*const print[])(const struct explanation *, struct text *) = {
        [BINDING_STAGE] = print_work_binding, [BINDING_LAYER] = print_layer_binding,
        [BINDING_MEMORY] = print_memory_binding, [BINDING_LINK] = print_link_binding,
    };
    if (explanation->stopped[0]) {
        text_add(text, "What binds is not known: the explanation was %s.\n", explanation->stopped);
        return;
    }
    print[explanation->binding](explanation, text);
    print_others(explanation, text);
}

// --- where the time goes --------------------------------------------------------------------

static void print_busiest(const struct explanation *explanation, struct text *text)
{
    const struct balance *balance = &explanation->balance;
    const struct rank_load *busiest = &balance->of[balance->busiest];
    const uint64_t mean = balance_mean_busy_ns(balance);
    const bool is_one_iteration = explanation->path.micro_batches == explanation->plan->micro_batches;
    char busy[NUMBER_SIZE], before[NUMBER_SIZE], idle[NUMBER_SIZE], after[NUMBER_SIZE], recompute[NUMBER_SIZE];
    text_add(text, "  busiest        ");
    balance_name_rank(balance, balance->busiest, text);
    text_add(text, ": %s of work", time_format(busiest->busy_ns, busy));
    if (busiest->recompute_ns > 0)
        text_add(text, " (%s of it recomputation)", time_format(busiest->recompute_ns, recompute));
    if (explanation->plan->ranks > 1) {
        text_add(text, ", ");
        add_percent(text, part_of(busiest->busy_ns - mean, mean));
        text_add(text, " above the average");
    }
    text_add(text, "\n");
    if (explanation->plan->ranks > 1 && is_one_iteration)
        text_add(text, "                 idle %s before it, %s within, %s behind\n",
                 time_format(busiest->first_ns, before),
                 time_format(busiest->last_ns - busiest->first_ns - busiest->busy_ns, idle),
                 time_format(explanation->path.run_ns - busiest->last_ns, after));
}

// The largest parts of the critical path, and the rest.
static void print_path(const struct explanation *explanation, struct text *text)
{
    const struct plan_path *path = &explanation->path;
    uint64_t recompute = 0, within = 0;
    text_add(text, "  critical path ");
    if (path->micro_batches != explanation->plan->micro_batches)
        text_add(text, " (of %u micro-batches)", path->micro_batches);
    for (size_t s = 0, printed = 0; s < path->stage_count; s++) {
        const struct path_stage *stage = &path->stages[s];
        const double part = part_of(stage->compute_ns + stage->recompute_ns, path->run_ns);
        recompute += stage->recompute_ns;
        within += explanation->within_ns[s];
        if (part < 0.01)
            continue;
        text_add(text, "%sstage %zu ", printed++ ? ", " : " ", s);
        add_percent(text, part);
    }
    text_add(text, "; links ");
    add_percent(text, part_of(path->links_ns, path->run_ns));
    if (recompute > 0) {
        text_add(text, "; recomputation ");
        add_percent(text, part_of(recompute, path->run_ns));
        text_add(text, " (in the stages)");
    }
    if (within > 0) {
        text_add(text, "; exchanges within stages ");
        add_percent(text, part_of(within, path->run_ns));
        text_add(text, " (in the stages)");
    }
    if (path->exchanging_ns > 0) {
        text_add(text, "; exchanges between stages ");
        add_percent(text, part_of(path->exchanging_ns, path->run_ns));
    }
    if (path->waiting_ns > 0) {
        text_add(text, "; waiting for busy links and copies ");
        add_percent(text, part_of(path->waiting_ns, path->run_ns));
    }
    text_add(text, "\n");
}

static void print_layer_and_memory(const struct explanation *explanation, struct text *text)
{
    const struct balance *balance = &explanation->balance;
    const struct rank_load *tightest = &balance->of[balance->tightest];
    char time[NUMBER_SIZE], margin[NUMBER_SIZE], capacity[NUMBER_SIZE];
    shown_add(text, "  largest layer  %s, on stage %u: %s of every iteration, ", explanation->layer.name,
              explanation->layer.stage, time_format(explanation->layer.ns, time));
    add_percent(text, explanation->layer.share);
    text_add(text, ", wherever the model is cut\n");
    text_add(text, "  memory         ");
    balance_name_rank(balance, balance->tightest, text);
    text_add(text, " has least to spare: %s of %s\n",
             bytes_format(tightest->capacity_bytes - tightest->peak_bytes, margin),
             bytes_format(tightest->capacity_bytes, capacity));
}

static void print_copies(const struct uneven_experts *experts, struct text *text)
{
    text_add(text, "                 all of its devices have a copy of");
    for (uint32_t e = 0; e < experts->count; e++)
        if (expert_words_copy(experts->variant, experts->number, e))
            text_add(text, " %u", e);
    text_add(text, " of its %u experts\n", experts->count);
}

static void print_experts(const struct uneven_experts *experts, struct text *text)
{
    if (experts->slowest_milli == 0)
        return;
    shown_add(text, "  experts        of %s, on stage %u: the slowest device takes %.2f times its even share, and",
              experts->name, experts->stage, (double)experts->slowest_milli / 1000);
    text_add(text, " %.1f %% of all choices are dropped\n", (double)experts->dropped_ppm / 1e4);
    if (experts->count == 0)
        return;
    if (expert_words_copies(experts->variant, experts->number) > 0)
        print_copies(experts, text);
    if (experts->busiest_milli > 1000)
        text_add(text, "                 expert %u alone has %.2f times the even share of a device%s\n",
                 experts->busiest, (double)experts->busiest_milli / 1000,
                 expert_words_copy(experts->variant, experts->number, experts->busiest)
                     ? ", and is copied" : ": without a copy of it on all devices no places take less");
}

// --- small steps ------------------------------------------------------------------------------

static void print_neighbour(const struct explanation *explanation, const struct neighbour *neighbour, struct text *text)
{
    char lacks[NUMBER_SIZE];
    const uint64_t plan_ns = explanation->plan->iteration_ns;
    if (neighbour->kind == NEIGHBOUR_SPARES)
        text_add(text, "  stage %u runs less again: ", neighbour->stage);
    else
        shown_add(text, "  %s from stage %u to stage %u: ", neighbour->layer, neighbour->stage,
                  neighbour->kind == NEIGHBOUR_GIVES_BACK ? neighbour->stage - 1 : neighbour->stage + 1);
    if (neighbour->outcome == NEIGHBOUR_ONLY_LAYER) {
        text_add(text, "it is the stage's only layer\n");
    } else if (neighbour->outcome == NEIGHBOUR_PINNED) {
        text_add(text, "it is pinned to the stage\n");
    } else if (neighbour->outcome == NEIGHBOUR_NO_CUT) {
        text_add(text, "the model cannot be cut there\n");
    } else if (neighbour->outcome == NEIGHBOUR_NO_ROOM) {
        text_add(text, "no room, rank %u lacks %s", neighbour->rank, bytes_format(neighbour->lacks_bytes, lacks));
        if (neighbour->iteration_ns < plan_ns) {
            text_add(text, "; with it ");
            add_percent(text, 1 - part_of(neighbour->iteration_ns, plan_ns));
            text_add(text, " faster\n");
        } else {
            text_add(text, ", and no faster with it\n");
        }
    } else if (neighbour->iteration_ns == plan_ns) {
        text_add(text, "fits, and takes as long\n");
    } else {
        const bool is_faster = neighbour->iteration_ns < plan_ns;
        text_add(text, "fits, and is ");
        add_percent(text, part_of(is_faster ? plan_ns - neighbour->iteration_ns : neighbour->iteration_ns - plan_ns,
                                  plan_ns));
        text_add(text, is_faster ? " faster\n" : " slower\n");
    }
}

static void print_neighbours(const struct explanation *explanation, struct text *text)
{
    if (explanation->neighbour_count == 0)
        return;
    text_add(text, "\nSmall steps that would relieve the busiest rank, with the quickest recomputation that fits:\n");
    for (size_t i = 0; i < explanation->neighbour_count; i++)
        print_neighbour(explanation, &explanation->neighbours[i], text);
}

// --- what would help ----------------------------------------------------------------------------

// Which changes share a line: those whose gains certainly round to nothing, and schedules, of which there are many,
// without gain.
enum line { LINE_OWN, LINE_NOTHING, LINE_SLOWER, LINE_NO_ROOM, LINE_NOT_FOUND, LINES };

static enum line line_of(const struct what_if *change)
{
    const enum sweep_outcome outcome = change->row.found.outcome;
    const bool is_schedule = change->kind == WHAT_IF_SCHEDULE;
    if (outcome == SWEEP_PLANNED && change->gain < 0.00005 && change->gain > -0.00005 && what_if_is_certain(change))
        return LINE_NOTHING;
    if (!is_schedule || (outcome == SWEEP_PLANNED && change->gain > 0))
        return LINE_OWN;
    return outcome == SWEEP_PLANNED ? LINE_SLOWER : outcome == SWEEP_DOES_NOT_FIT ? LINE_NO_ROOM : LINE_NOT_FOUND;
}

static void print_change(const struct what_if *change, struct text *text)
{
    char each[NUMBER_SIZE], peak[NUMBER_SIZE], lacks[NUMBER_SIZE], gain[24];
    const struct sweep_row *row = &change->row;
    if (row->found.outcome != SWEEP_PLANNED) {
        text_add(text, "  %8s  %10s  %10s  %s: %s", "-", "-", "-", change->change,
                 row->found.outcome == SWEEP_DOES_NOT_FIT ? "does not fit" : "no plan was found");
        if (row->found.lacks_bytes > 0)
            text_add(text, ", rank %u lacks %s%s", row->found.rank, bytes_format(row->found.lacks_bytes, lacks),
                     row->found.outcome == SWEEP_DOES_NOT_FIT ? "" : " in the nearest");
        text_add(text, "\n");
        return;
    }
    snprintf(gain, sizeof gain, "%.*f %%", change->gain > -0.0995 && change->gain < 0.0995 ? 2 : 1, 100 * change->gain);
    text_add(text, "  %8s  %10s  %10s  %s", gain, time_format(row->found.micro_batch_ns, each),
             bytes_format(row->found.peak_bytes, peak), change->change);
    if (!what_if_is_certain(change)) {
        text_add(text, " (uncertain)");
    } else if (change->gain > 0 && change->least_gain < change->gain - 0.00005) {
        text_add(text, " (at least ");
        add_percent(text, change->least_gain);
        text_add(text, ")");
    }
    text_add(text, "\n");
}

// Prints "  Nothing is gained by: ..; ..", with all changes that belong on this line.
static void print_line(const struct explanation *explanation, enum line line, const char *words, struct text *text)
{
    size_t printed = 0;
    for (size_t i = 0; i < explanation->change_count; i++) {
        const struct what_if *change = &explanation->changes[i];
        if (line_of(change) != line)
            continue;
        text_add(text, "%s%s", printed++ ? "; " : words, change->change);
        if (line == LINE_SLOWER)
            text_add(text, " (%.*f %%)", change->gain > -0.0995 ? 2 : 1, 100 * change->gain);
    }
    text_add(text, printed ? "\n" : "");
}

static void print_changes(const struct explanation *explanation, struct text *text)
{
    bool uncertain = false;
    text_add(text, "\nWhat a change would gain, each planned anew:\n"
                   "      gain   per m.-b.        peak  change\n");
    for (size_t i = 0; i < explanation->change_count; i++) {
        const struct what_if *change = &explanation->changes[i];
        if (line_of(change) != LINE_OWN)
            continue;
        print_change(change, text);
        uncertain |= change->row.found.outcome == SWEEP_PLANNED && !what_if_is_certain(change);
    }
    print_line(explanation, LINE_NOTHING, "  Nothing is gained by: ", text);
    print_line(explanation, LINE_SLOWER, "  No quicker plan was found by: ", text);
    print_line(explanation, LINE_NO_ROOM, "  Nothing fits by: ", text);
    print_line(explanation, LINE_NOT_FOUND, "  No plan was found by: ", text);
    text_add(text, "A gain is of the time per micro-batch; the peak is of the rank that takes most.\n");
    if (uncertain)
        text_add(text, "Uncertain: smaller than the gaps of the two plans; a larger budget may tell.\n");
}

void explanation_print(const struct explanation *explanation, struct text *text)
{
    print_head(explanation, text);
    print_binding(explanation, text);
    text_add(text, "\n");
    print_busiest(explanation, text);
    print_path(explanation, text);
    print_layer_and_memory(explanation, text);
    print_experts(&explanation->experts, text);
    print_neighbours(explanation, text);
    print_changes(explanation, text);
}
