#include "cli/plan_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "common/clock.h"
#include "common/progress.h"
#include "partitioner/explain/nearest.h"
#include "partitioner/integer/second_opinion.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/search_telling.h"
#include "partitioner/target_search.h"

// Notes about the plan are printed under its table, or on standard error if there is no table.
static int print(const struct shared_options *output, const struct plan *plan, const struct text *said)
{
    struct text table = { 0 };
    const char *more = said->length ? said->data : "";
    if (plan_output_is_document(output)) {
        fprintf(stderr, "%s", *more && !said->failed ? more + 1 : "");  // without the empty line in front
    } else {
        plan_print(plan, &table);
        text_add(&table, "%s", more);
    }
    table.failed |= said->failed;
    return plan_output(plan, output, &table, 0);
}

// GLPK's second opinion also goes to standard error if standard output has a document.
static int print_second_opinion(const struct search_request *request, const struct plan *plan,
                                const struct shared_options *output, struct error *error)
{
    struct second_opinion opinion;
    const struct integer_limits limits = second_opinion_limits(request->limits.interrupted);
    if (!second_opinion_ask(request, plan, limits, &opinion, error))
        return command_fail(error);
    struct text text = { 0 };
    second_opinion_print(&opinion, &text);
    second_opinion_clear(&opinion);
    if (!plan_output_is_document(output) || text.failed)
        return command_print(&text, NULL, 0);
    fprintf(stderr, "%s", text.data + 1);  // without the empty line in front
    text_clear(&text);
    return 0;
}

static void show(void *self, size_t done)
{
    progress_show(self, "nothing fits as asked; looking for what near by does, %zu requests planned", done);
}

// Prints what similar requests would fit, within the time that is left. The sentence that nothing fits was printed
// before; the answer stays no.
static int print_nearest(const struct search_request *request, uint64_t began_ns, struct error *error)
{
    struct progress progress = { 0 };
    struct nearest nearest;
    const uint64_t spent_ns = request->limits.deadline_ns ? clock_now_ns() - began_ns : 0;
    if (request->limits.deadline_ns && spent_ns >= request->limits.deadline_ns)
        return ERROR_ANSWER;
    const struct nearest_request search = { .search = request, .deadline_ns = request->limits.deadline_ns - spent_ns,
                                            .interrupted = request->limits.interrupted, .progress = show,
                                            .self = &progress };
    const bool good = nearest_find(&search, &nearest, error);
    progress_end(&progress);
    if (!good)
        return command_fail(error);
    struct text text = { 0 };
    nearest_print(&nearest, &text);
    nearest_clear(&nearest);
    return command_print(&text, NULL, ERROR_ANSWER);
}

void plan_show_search(void *self, const struct search_progress *now)
{
    char words[SEARCH_PROGRESS_SIZE];
    progress_show(self, "%s", search_progress_format(now, words));
}

// Shows progress once it takes longer than a second.
static struct plan *search(struct search_request *request, enum plan_target target, struct error *error)
{
    struct progress progress = { .not_before_ns = clock_now_ns() + 1000000000 };
    request->limits.progress = plan_show_search;
    request->limits.self = &progress;
    request->wanted.never_worse = true;
    struct plan *plan = plan_search_for(request, target, error);
    request->wanted.never_worse = false;
    progress_end(&progress);
    plan_search_blame_deadline(error);
    request->limits.progress = NULL;
    return plan;
}

static bool take_note(struct plan *plan, const char *note, struct text *said, struct error *error)
{
    free(plan->notes);
    plan->notes = strdup(note);
    text_add(said, "\n%s\n", note);
    return plan->notes || error_no_memory(error, "a plan");
}

static int find(const struct plan_finding *finding, struct plan_request *request, const struct plan *kept,
                struct error *error)
{
    if (!search_check(&request->request, error) || !stability_check(finding->stability, &request->request, kept, error))
        return plan_request_fail(finding->plan, finding->stability->keep, error);
    struct error found_none = { 0 };
    struct text said = { 0 };
    const uint64_t began_ns = clock_now_ns();
    struct plan *plan = search(&request->request, finding->target, &found_none);
    if (found_none.kind == ERROR_MACHINE)  // no reason to keep the other plan
        return command_fail(&found_none);
    if (found_none.kind == ERROR_ANSWER && finding->has_others) {
        command_say("%s: %s", finding->plan->profile, found_none.text);
        return ERROR_ANSWER;
    }
    if (plan && finding->note && !take_note(plan, finding->note, &said, error)) {
        plan_free(plan);
        return command_fail(error);
    }
    const bool good = stability_judge(finding->stability, &request->request, kept, &found_none, &plan, &said, error);
    int code = good ? print(finding->output, plan, &said)
                    : plan_request_fail(finding->plan, finding->stability->keep, error);
    text_clear(&said);
    if (code == 0 && finding->second_opinion)
        code = print_second_opinion(&request->request, plan, finding->output, error);
    if (code == ERROR_ANSWER && !plan && !plan_output_is_document(finding->output))
        code = print_nearest(&request->request, began_ns, &(struct error){ 0 });
    plan_free(plan);
    return code;
}

static struct plan_defaults defaults_of(const struct plan_finding *finding, const struct plan *kept)
{
    return (struct plan_defaults){
        .document = finding->stability->keep,
        .cluster = kept->cluster,
        .schedule = kept->schedule,
        .given = kept->given,
        .ranks = kept->ranks,
        .chunks = kept->chunks,
        .micro_batches = kept->micro_batches,
        .has_storage = true,
        .storage = kept->storage,
    };
}

// Searches for a plan with the request of the plan to be kept. By the same schedule, the search is free in what that
// plan has chosen. A plan of other layers has no such question; why it cannot be kept is said later.
static int find_like(const struct plan_finding *finding, const struct plan *kept, struct error *error)
{
    struct error ignored = { 0 };
    struct plan_request request;
    struct question question = { .replicas = NULL };
    const struct plan_defaults defaults = defaults_of(finding, kept);
    if (!plan_request_load(finding->plan, &defaults, &request, error))
        return plan_request_fail(finding->plan, finding->stability->keep, error);
    if (strcmp(kept->schedule, request.request.schedule) == 0
        && question_of(kept, request.profile, &question, &ignored))
        plan_request_free_like(kept, &question, &request.request);
    const int code = find(finding, &request, kept, error);
    question_clear(&question);
    plan_request_clear(&request);
    return code;
}

static int find_asked(const struct plan_finding *finding, struct error *error)
{
    struct plan_request request;
    if (!plan_request_load(finding->plan, NULL, &request, error))
        return plan_request_fail(finding->plan, NULL, error);
    const int code = find(finding, &request, NULL, error);
    plan_request_clear(&request);
    return code;
}

int plan_find_run(const struct plan_finding *finding)
{
    struct error error = { 0 };
    struct plan *kept = NULL;
    if (finding->stability->keep && !(kept = plan_load(finding->stability->keep, &error)))
        return command_fail(&error);
    const int code = kept ? find_like(finding, kept, &error) : find_asked(finding, &error);
    plan_free(kept);
    return code;
}
