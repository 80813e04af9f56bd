// Two ranks of two or four members, with a device each or as threads of one, run schedules in segments. Every share
// that members exchange between segments comes to its member, whichever passes are in turns. Every row comes to the
// member that has its expert.
#include "runtime/shards/member_messages.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/random.h"
#include "device/row_exchange.h"
#include "runtime/groups/thread_group.h"
#include "runtime/run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/runtime/synthetic.h"
#include "tests/test.h"

enum { RANKS = 2, MOST_MEMBERS = 4 };
enum { SEGMENTS = 3, MOST_STAGES = 12, STEPS = 3, FIRST = 64 };

// Each message has shares of another size, behind the stamp of its stage (synthetic.c).
static uint64_t share_of(uint32_t boundary)
{
    return sizeof(uint32_t) * (1 + boundary % 5);
}

static bool has_part(uint32_t boundary)
{
    return boundary % SEGMENTS + 1 < SEGMENTS;
}

// Rows have their counts where shares begin, and go to experts behind the first segment of three.
enum { EXPERTS = 4, MOST_RUN = 3, ROWS = MOST_MEMBERS * EXPERTS * MOST_RUN, ROWS_FIRST = FIRST + 64 };

static const uint8_t owners[EXPERTS] = { 1, ROW_COPIED, 0, 1 };

// A stage that also writes and reads the shares of its messages, or their rows.
struct sharing {
    struct synthetic synthetic;  // first, so that a pointer to it is a pointer to the stage
    uint32_t stage, stages, member, members;
    bool has_rows;
};

struct sharing_call {
    uint32_t boundary, member, members, micro_batch, back;
    uint64_t step;
    uint8_t *data;
};

static uint32_t mark_of(const struct sharing_call *call, uint32_t from, uint32_t to)
{
    return (uint32_t)call->step << 24 | call->boundary << 16 | call->micro_batch << 8 | call->back << 4 | from << 2
         | to;
}

static void write_shares(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct sharing_call *call = arguments;
    for (uint32_t to = 0; to < call->members; to++)
        for (uint64_t at = 0; at < share_of(call->boundary); at += sizeof(uint32_t)) {
            const uint32_t mark = mark_of(call, call->member, to);
            memcpy(call->data + FIRST + to * share_of(call->boundary) + at, &mark, sizeof mark);
        }
}

static void read_shares(struct queue *queue, const void *arguments)
{
    const struct sharing_call *call = arguments;
    for (uint32_t from = 0; from < call->members; from++)
        for (uint64_t at = 0; at < share_of(call->boundary); at += sizeof(uint32_t)) {
            const uint32_t mark = mark_of(call, from, call->member);
            if (memcmp(call->data + FIRST + from * share_of(call->boundary) + at, &mark, sizeof mark) != 0)
                queue_fail(queue, "a share came to another member, or of another message");
        }
}

// The same on all members.
static int32_t count_of(const struct sharing_call *call, uint32_t member, uint32_t expert)
{
    uint64_t seed = (mark_of(call, 0, 0) * (uint64_t)MOST_MEMBERS + member) * EXPERTS + expert;
    return random_below(&seed, 3) == 0 ? 0 : (int32_t)random_below(&seed, MOST_RUN + 1);
}

static size_t add_rows(const struct sharing_call *call, uint32_t member, uint32_t expert, uint64_t *marks, size_t count)
{
    for (uint64_t i = 0; i < (uint64_t)count_of(call, member, expert); i++)
        marks[count++] = (uint64_t)(mark_of(call, 0, 0) + 1) << 32 | member << 16 | expert << 8 | i;
    return count;
}

// What a member has to send, or receives. Its experts' rows are those of copied experts and then those of others.
static size_t list_rows(const struct sharing_call *call, bool is_received, uint64_t marks[ROWS])
{
    const bool goes_back = (call->boundary % SEGMENTS == 1) != (call->back != 0), of_tokens = goes_back == is_received;
    size_t count = 0;
    for (uint32_t e = 0; e < EXPERTS; e++)
        if (of_tokens || owners[e] == ROW_COPIED)
            count = add_rows(call, call->member, e, marks, count);
    for (uint32_t e = 0; !of_tokens && e < EXPERTS; e++)
        for (uint32_t m = 0; owners[e] == call->member && m < call->members; m++)
            count = add_rows(call, m, e, marks, count);
    return count;
}

static void write_rows(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct sharing_call *call = arguments;
    uint64_t marks[ROWS] = { 0 };
    list_rows(call, false, marks);
    memcpy(call->data + ROWS_FIRST, marks, sizeof marks);
    for (uint32_t m = 0; m < call->members; m++)
        for (uint32_t e = 0; e < EXPERTS; e++) {
            const int32_t count = count_of(call, m, e);
            memcpy(call->data + FIRST + (m * EXPERTS + e) * sizeof count, &count, sizeof count);
        }
}

static void read_rows(struct queue *queue, const void *arguments)
{
    const struct sharing_call *call = arguments;
    uint64_t marks[ROWS];
    const size_t count = list_rows(call, true, marks);
    if (memcmp(call->data + ROWS_FIRST, marks, count * sizeof marks[0]) != 0)
        queue_fail(queue, "a row came to another member or place, or of another message");
}

static void share(const struct stage_pass *pass, const struct sharing *self, uint32_t boundary, bool back, void *data,
                  void (*function)(struct queue *queue, const void *arguments))
{
    const struct sharing_call call = { boundary, self->member, self->members, pass->base.micro_batch, back,
                                       pass->base.step, data };
    if (data && has_part(boundary))
        queue_call(pass->base.queue, function, &call, sizeof call);
}

static bool forward(void *itself, const struct stage_pass *pass, struct error *error)
{
    struct sharing *self = itself;
    if (self->stage > 0)
        share(pass, self, self->stage - 1, false, (void *)(uintptr_t)pass->base.input,
              self->has_rows ? read_rows : read_shares);
    if (!synthetic_stage(itself).functions->forward(itself, pass, error))
        return false;
    share(pass, self, self->stage, false, self->stage + 1 < self->stages ? pass->base.output : NULL,
          self->has_rows ? write_rows : write_shares);
    return true;
}

static void share_gradients(const struct sharing *self, const struct stage_pass *pass)
{
    if (self->stage + 1 < self->stages)
        share(pass, self, self->stage, true, (void *)(uintptr_t)pass->base.output_gradient,
              self->has_rows ? read_rows : read_shares);
    if (self->stage > 0)
        share(pass, self, self->stage - 1, true, pass->base.input_gradient,
              self->has_rows ? write_rows : write_shares);
}

static bool backward(void *itself, const struct stage_pass *pass, struct error *error)
{
    const bool good = synthetic_stage(itself).functions->backward(itself, pass, error);
    share_gradients(itself, pass);
    return good;
}

static bool backward_input(void *itself, const struct stage_pass *pass, struct error *error)
{
    const bool good = synthetic_stage(itself).functions->backward_input(itself, pass, error);
    share_gradients(itself, pass);
    return good;
}

// --- places -----------------------------------------------------------------------------

struct world {
    const struct schedule *lowered;
    struct thread_group *places, *ranks[MOST_MEMBERS];
    uint32_t members;
    bool has_rows;
    // If all members are threads of one device, which then have all ranks
    struct device *device;
    struct member_messages *messages;
};

struct place {
    const struct world *world;
    uint32_t rank, member;
    struct stage_functions functions;
    struct sharing sharing[MOST_STAGES];
    struct stage stages[MOST_STAGES];
    struct error error;
    bool is_good;
    pthread_t thread;
};

static void set_stages(struct place *place, struct cost_row costs[MOST_STAGES])
{
    const uint32_t stages = place->world->lowered->stages;
    assert_true(stages <= MOST_STAGES);
    for (uint32_t s = 0; s < stages; s++)
        costs[s] = (struct cost_row){ .output_bytes = 512, .kept_forward_bytes = 256, .kept_weight_bytes = 256,
                                      .version_bytes = 256 };
    for (uint32_t s = 0; s < stages; s++) {
        place->sharing[s] = (struct sharing){ synthetic_from_costs(costs, stages, s), s, stages, place->member,
                                              place->world->members, place->world->has_rows };
        place->stages[s] = synthetic_stage(&place->sharing[s].synthetic);
        place->functions = *place->stages[s].functions;
        place->functions.forward = forward;
        place->functions.backward = backward;
        place->functions.backward_input = backward_input;
        place->stages[s].functions = &place->functions;
    }
}

static struct member_messages *open_messages(const struct world *world, const struct rank_grid *grid,
                                             struct device *device, struct error *error)
{
    struct exchange_part parts[MOST_STAGES];
    struct exchange_rows rows = { .experts = EXPERTS, .counts_at = FIRST, .row_bytes = sizeof(uint64_t), .room = ROWS };
    size_t count = 0;
    memcpy(rows.owners, owners, sizeof owners);
    for (uint32_t s = 0; s + 1 < world->lowered->stages; s++) {
        rows.is_back = s % SEGMENTS == 1;
        if (has_part(s) && world->has_rows)
            parts[count++] = (struct exchange_part){ s, ROWS_FIRST, ROWS * sizeof(uint64_t), rows };
        else if (has_part(s))
            parts[count++] = (struct exchange_part){ .boundary = s, .first = FIRST, .share = share_of(s) };
    }
    const struct member_messages_settings settings = { .schedule = world->lowered, .device = device,
                                                       .members = world->members, .grid = grid,
                                                       .parts = parts, .part_count = count };
    return member_messages_create(&settings, error);
}

static void run_session(struct place *place, struct device *device, const struct session_settings *settings)
{
    struct cost_row costs[MOST_STAGES];
    set_stages(place, costs);
    struct session *session = session_create(place->world->lowered, place->stages, device, settings, &place->error);
    place->is_good = session != NULL;
    for (uint32_t step = 0; place->is_good && step < STEPS; step++)
        place->is_good = session_step(session, &place->error);
    session_free(session);
}

static void *run_member(void *argument)
{
    struct place *place = argument;
    const struct session_settings settings = { .exchanged = place->world->messages, .member = place->member,
                                               .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f } };
    run_session(place, place->world->device, &settings);
    return NULL;
}

static void *run_place(void *argument)
{
    struct place *place = argument;
    const uint32_t members = place->world->members;
    uint32_t first[RANKS + 1] = { 0, members, RANKS * members };
    const struct process_group all = thread_group_member(place->world->places, place->rank * members + place->member);
    const struct process_group own = thread_group_member(place->world->ranks[place->member], place->rank);
    const struct rank_grid grid = { .ranks = RANKS, .members = members, .first = first, .most = 1, .group = &all,
                                    .rank = place->rank };
    struct device *device = device_open("cpu:queued", &place->error);
    struct member_messages *messages = device ? open_messages(place->world, &grid, device, &place->error) : NULL;
    const struct session_settings settings = { .group = &own, .exchanged = messages, .member = place->member,
                                               .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f } };
    if (messages)
        run_session(place, device, &settings);
    member_messages_free(messages);
    device_close(device);
    return NULL;
}

static void run_threads(const struct world *world, uint32_t count, void *(*run)(void *place), const char *name)
{
    struct place *places = calloc(count, sizeof *places);
    assert_non_null(places);
    for (uint32_t p = 0; p < count; p++) {
        places[p].world = world;
        places[p].rank = p / world->members;
        places[p].member = p % world->members;
        assert_int_equal(pthread_create(&places[p].thread, NULL, run, &places[p]), 0);
    }
    for (uint32_t p = 0; p < count; p++)
        pthread_join(places[p].thread, NULL);
    for (uint32_t p = 0; p < count; p++)
        if (!places[p].is_good)
            fail_msg("%s, %u members, place %u: %s", name, world->members, p, places[p].error.text);
    free(places);
}

static void run_places(struct world *world, const char *name)
{
    struct error error = { 0 };
    assert_non_null(world->places = thread_group_create(RANKS * world->members, 0, &error));
    for (uint32_t m = 0; m < world->members; m++)
        assert_non_null(world->ranks[m] = thread_group_create(RANKS, 0, &error));
    run_threads(world, RANKS * world->members, run_place, name);
    for (uint32_t m = 0; m < world->members; m++)
        thread_group_free(world->ranks[m]);
    thread_group_free(world->places);
}

static void run_on_one(struct world *world, const char *device, const char *name)
{
    struct error error = { 0 };
    assert_non_null(world->device = device_open(device, &error));
    world->messages = open_messages(world, NULL, world->device, &error);
    assert_good(world->messages, error);
    run_threads(world, world->members, run_member, name);
    member_messages_free(world->messages);
    device_close(world->device);
}

// Without a device, members have one each.
static void run_all(const char *device, const char *name, uint32_t micro_batches, uint32_t open, bool has_rows)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = RANKS, .micro_batches = micro_batches,
                                              .into = { SEGMENTS, open } };
    struct schedule *order = schedule_generate_as(name, &request, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char case_name[64];
    snprintf(case_name, sizeof case_name, "%s, %u open", name, open);
    for (uint32_t members = 2; members <= MOST_MEMBERS; members += 2) {
        struct world world = { .lowered = lowered, .members = members, .has_rows = has_rows };
        if (device)
            run_on_one(&world, device, case_name);
        else
            run_places(&world, case_name);
    }
    schedule_free(lowered);
    schedule_free(order);
}

// With one number of open passes each, the next one where `turn` is one more; soaks try all three.
static void run_every_schedule(const char *device, bool has_rows, uint32_t turn)
{
    static const char *const names[] = { "gpipe", "1f1b", "zb-h2", "zb-v", "dualpipev", "interleaved" };
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (uint64_t trial = 0; trial < test_all_trials(1, 3); trial++)
            run_all(device, names[i], 4 + i % 3 * 2, 1 + (uint32_t)(i + turn + trial) % 3, has_rows);
}

static void every_share_comes_to_its_member(void **state)
{
    (void)state;
    run_every_schedule(NULL, false, 0);
}

static void every_row_comes_to_the_member_that_has_its_expert(void **state)
{
    (void)state;
    run_every_schedule(NULL, true, 1);
}

static void rows_of_threads_do_so_too(void **state)
{
    (void)state;
    run_every_schedule("cpu", true, 2);
    run_every_schedule("cpu:queued", true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_comes_to_its_member),
        cmocka_unit_test(every_row_comes_to_the_member_that_has_its_expert),
        cmocka_unit_test(rows_of_threads_do_so_too),
    };
    return cmocka_run_group_tests_name("member_messages", tests, NULL, NULL);
}
