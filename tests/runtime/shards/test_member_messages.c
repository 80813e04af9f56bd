// Two ranks of two members, a place and a device each, run schedules in segments. Every share that members exchange
// between segments comes to its member, whichever passes are in turns.
#include "runtime/shards/member_messages.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/groups/thread_group.h"
#include "runtime/run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/runtime/synthetic.h"
#include "tests/test.h"

enum { RANKS = 2, MEMBERS = 2, PLACES = RANKS * MEMBERS, SEGMENTS = 3, MOST_STAGES = 12, STEPS = 3, FIRST = 64 };

// Each message has shares of another size, behind the stamp of its stage (synthetic.c).
static uint64_t share_of(uint32_t boundary)
{
    return sizeof(uint32_t) * (1 + boundary % 5);
}

static bool has_part(uint32_t boundary)
{
    return boundary % SEGMENTS + 1 < SEGMENTS;
}

// A stage that also writes and reads the shares of its messages.
struct sharing {
    struct synthetic synthetic;  // first, so that a pointer to it is a pointer to the stage
    uint32_t stage, stages, member;
};

struct sharing_call {
    uint32_t boundary, member, micro_batch, back;
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
    for (uint32_t to = 0; to < MEMBERS; to++)
        for (uint64_t at = 0; at < share_of(call->boundary); at += sizeof(uint32_t)) {
            const uint32_t mark = mark_of(call, call->member, to);
            memcpy(call->data + FIRST + to * share_of(call->boundary) + at, &mark, sizeof mark);
        }
}

static void read_shares(struct queue *queue, const void *arguments)
{
    const struct sharing_call *call = arguments;
    for (uint32_t from = 0; from < MEMBERS; from++)
        for (uint64_t at = 0; at < share_of(call->boundary); at += sizeof(uint32_t)) {
            const uint32_t mark = mark_of(call, from, call->member);
            if (memcmp(call->data + FIRST + from * share_of(call->boundary) + at, &mark, sizeof mark) != 0)
                queue_fail(queue, "a share came to another member, or of another message");
        }
}

static void share(const struct stage_pass *pass, const struct sharing *self, uint32_t boundary, bool back, void *data,
                  void (*function)(struct queue *queue, const void *arguments))
{
    const struct sharing_call call = { boundary, self->member, pass->base.micro_batch, back, pass->base.step, data };
    if (data && has_part(boundary))
        queue_call(pass->base.queue, function, &call, sizeof call);
}

static bool forward(void *itself, const struct stage_pass *pass, struct error *error)
{
    struct sharing *self = itself;
    if (self->stage > 0)
        share(pass, self, self->stage - 1, false, (void *)(uintptr_t)pass->base.input, read_shares);
    if (!synthetic_stage(itself).functions->forward(itself, pass, error))
        return false;
    share(pass, self, self->stage, false, self->stage + 1 < self->stages ? pass->base.output : NULL, write_shares);
    return true;
}

static void share_gradients(const struct sharing *self, const struct stage_pass *pass)
{
    if (self->stage + 1 < self->stages)
        share(pass, self, self->stage, true, (void *)(uintptr_t)pass->base.output_gradient, read_shares);
    if (self->stage > 0)
        share(pass, self, self->stage - 1, true, pass->base.input_gradient, write_shares);
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
    struct thread_group *places, *ranks[MEMBERS];
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
        place->sharing[s] = (struct sharing){ synthetic_from_costs(costs, stages, s), s, stages, place->member };
        place->stages[s] = synthetic_stage(&place->sharing[s].synthetic);
        place->functions = *place->stages[s].functions;
        place->functions.forward = forward;
        place->functions.backward = backward;
        place->functions.backward_input = backward_input;
        place->stages[s].functions = &place->functions;
    }
}

static struct member_messages *open_messages(const struct place *place, const struct rank_grid *grid,
                                             struct device *device, struct error *error)
{
    struct exchange_part parts[MOST_STAGES];
    size_t count = 0;
    for (uint32_t s = 0; s + 1 < place->world->lowered->stages; s++)
        if (has_part(s))
            parts[count++] = (struct exchange_part){ .boundary = s, .first = FIRST, .share = share_of(s) };
    const struct member_messages_settings settings = { .schedule = place->world->lowered, .members = MEMBERS,
                                                       .device = device, .grid = grid, .parts = parts,
                                                       .part_count = count };
    return member_messages_create(&settings, error);
}

static void *run_place(void *argument)
{
    struct place *place = argument;
    uint32_t first[RANKS + 1] = { 0, MEMBERS, PLACES };
    struct cost_row costs[MOST_STAGES];
    const struct process_group all = thread_group_member(place->world->places, place->rank * MEMBERS + place->member);
    const struct process_group own = thread_group_member(place->world->ranks[place->member], place->rank);
    const struct rank_grid grid = { .ranks = RANKS, .members = MEMBERS, .first = first, .most = 1, .group = &all,
                                    .rank = place->rank };
    struct device *device = device_open("cpu:queued", &place->error);
    struct member_messages *messages = device ? open_messages(place, &grid, device, &place->error) : NULL;
    const struct session_settings settings = { .group = &own, .exchanged = messages, .member = place->member,
                                               .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f } };
    set_stages(place, costs);
    struct session *session =
        messages ? session_create(place->world->lowered, place->stages, device, &settings, &place->error) : NULL;
    place->is_good = session != NULL;
    for (uint32_t step = 0; place->is_good && step < STEPS; step++)
        place->is_good = session_step(session, &place->error);
    session_free(session);
    member_messages_free(messages);
    device_close(device);
    return NULL;
}

static void run_all(const char *name, uint32_t micro_batches, uint32_t open)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = RANKS, .micro_batches = micro_batches,
                                              .into = { SEGMENTS, open } };
    struct schedule *order = schedule_generate_as(name, &request, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    struct world world = { lowered, thread_group_create(PLACES, 0, &error), { NULL } };
    for (uint32_t m = 0; m < MEMBERS; m++)
        world.ranks[m] = thread_group_create(RANKS, 0, &error);
    assert_good(world.places && world.ranks[0] && world.ranks[1], error);
    struct place *places = calloc(PLACES, sizeof *places);
    assert_non_null(places);
    for (uint32_t p = 0; p < PLACES; p++) {
        places[p].world = &world;
        places[p].rank = p / MEMBERS;
        places[p].member = p % MEMBERS;
        assert_int_equal(pthread_create(&places[p].thread, NULL, run_place, &places[p]), 0);
    }
    for (uint32_t p = 0; p < PLACES; p++)
        pthread_join(places[p].thread, NULL);
    for (uint32_t p = 0; p < PLACES; p++)
        if (!places[p].is_good)
            fail_msg("%s, %u open, place %u: %s", name, open, p, places[p].error.text);
    free(places);
    for (uint32_t m = 0; m < MEMBERS; m++)
        thread_group_free(world.ranks[m]);
    thread_group_free(world.places);
    schedule_free(lowered);
    schedule_free(order);
}

static void every_share_comes_to_its_member(void **state)
{
    (void)state;
    static const char *const names[] = { "gpipe", "1f1b", "zb-h2", "zb-v", "dualpipev", "interleaved" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (uint32_t open = 1; open <= 3; open++)
            run_all(names[i], 4 + (uint32_t)i % 3 * 2, open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_comes_to_its_member),
    };
    return cmocka_run_group_tests_name("member_messages", tests, NULL, NULL);
}
