// One call of all places is one of each member's ranks: the members of random groups, each with bytes of its own.
#include "runtime/groups/member_groups.h"

#include <pthread.h>
#include <string.h>

#include "runtime/groups/thread_group.h"
#include "tests/test.h"

enum { MOST_RANKS = 4, MOST_MEMBERS = 3, MOST_BYTES = 300, ROUNDS = 12 };

struct world {
    uint64_t trial;
    uint32_t first[MOST_RANKS + 1];
    struct rank_grid grid;  // as each place has them, but for itself
    struct thread_group *places;
};

// A member at a place.
struct seated {
    const struct world *world;
    const struct process_group *group;
    uint32_t member;
    pthread_t thread;
    struct error error;
    bool is_wrong;
};

struct place {
    const struct world *world;
    struct process_group group;
    struct rank_grid grid;
    struct seated seated[MOST_MEMBERS];
    pthread_t thread;
    struct error error;
    bool is_wrong;
};

static void fill(unsigned char *data, uint64_t bytes, uint32_t round, uint32_t rank, uint32_t member)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(31 * round + 7 * rank + 101 * member + i);
}

static void *pass_rounds(void *argument)
{
    struct seated *seated = argument;
    const struct process_group *group = seated->group;
    uint64_t seed = seated->world->trial;
    for (uint32_t round = 0; round < ROUNDS && !seated->is_wrong; round++) {
        unsigned char own[MOST_BYTES], all[MOST_RANKS * MOST_BYTES], expected[MOST_BYTES];
        const uint64_t bytes = random_below(&seed, MOST_BYTES), from = random_below(&seed, group->ranks);
        fill(own, bytes, round, group->rank, seated->member);
        seated->is_wrong = !group->all_gather(group->self, own, bytes, all, &seated->error);
        for (uint32_t rank = 0; rank < group->ranks; rank++) {
            fill(expected, bytes, round, rank, seated->member);
            seated->is_wrong |= memcmp(expected, all + rank * bytes, bytes) != 0;
        }
        seated->is_wrong |= !group->broadcast(group->self, (uint32_t)from, own, bytes, &seated->error);
        fill(expected, bytes, round, (uint32_t)from, seated->member);
        seated->is_wrong |= memcmp(expected, own, bytes) != 0;
    }
    return NULL;
}

static void run_members(struct place *place, const struct member_groups *groups)
{
    for (uint32_t m = 0; m < place->grid.members; m++) {
        struct seated *seated = &place->seated[m];
        *seated = (struct seated){ .world = place->world, .member = m };
        if (!rank_grid_have(&place->grid, m))
            continue;
        seated->group = member_groups_of(groups, m);
        place->is_wrong |= pthread_create(&seated->thread, NULL, pass_rounds, seated) != 0;
    }
    for (uint32_t m = 0; m < place->grid.members; m++) {
        if (!place->seated[m].group)
            continue;
        pthread_join(place->seated[m].thread, NULL);
        place->is_wrong |= place->seated[m].is_wrong;
    }
}

static void *run_place(void *argument)
{
    struct place *place = argument;
    place->grid = place->world->grid;
    place->grid.group = &place->group;
    while (place->grid.first[place->grid.rank + 1] <= place->group.rank)
        place->grid.rank++;
    struct member_groups *groups = member_groups_create(&place->grid, &place->error);
    place->is_wrong = groups == NULL;
    if (groups)
        run_members(place, groups);
    member_groups_free(groups);
    return NULL;
}

static struct world make_world(uint64_t trial)
{
    uint64_t seed = trial;
    struct world world = { .trial = trial };
    uint32_t least = MOST_MEMBERS;
    world.grid.ranks = 1 + (uint32_t)random_below(&seed, MOST_RANKS);
    for (uint32_t rank = 0; rank < world.grid.ranks; rank++) {
        const uint32_t group = 1 + (uint32_t)random_below(&seed, MOST_MEMBERS);
        world.first[rank + 1] = world.first[rank] + group;
        least = group < least ? group : least;
        world.grid.members = group > world.grid.members ? group : world.grid.members;
    }
    world.grid.most = 1 + world.grid.members - least;
    return world;
}

static void each_member_has_a_group_of_its_ranks(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(40, 600); trial++) {
        struct error error = { 0 };
        struct world world = make_world(trial);
        struct place places[MOST_RANKS * MOST_MEMBERS] = { { 0 } };
        const uint32_t count = world.first[world.grid.ranks];
        world.grid.first = world.first;
        assert_good(world.places = thread_group_create(count, 0, &error), error);
        for (uint32_t i = 0; i < count; i++) {
            places[i] = (struct place){ .world = &world, .group = thread_group_member(world.places, i) };
            assert_int_equal(pthread_create(&places[i].thread, NULL, run_place, &places[i]), 0);
        }
        for (uint32_t i = 0; i < count; i++)
            pthread_join(places[i].thread, NULL);
        for (uint32_t i = 0; i < count; i++)
            if (places[i].is_wrong)
                fail_msg("trial %llu: place %u: %s", (unsigned long long)trial, i, places[i].error.text);
        thread_group_free(world.places);
    }
}

// Two members at the second place: where one gives up, the other hears it, and so does the first place.
static void who_gives_up_fails_all(void **state)
{
    (void)state;
    struct error error = { 0 }, reason = { 0 };
    uint32_t first[] = { 0, 2, 3 };
    struct thread_group *places = thread_group_create(3, 0, &error);
    assert_good(places, error);
    const struct process_group last = thread_group_member(places, 2);
    const struct rank_grid grid = { .ranks = 2, .members = 2, .first = first, .most = 2, .group = &last, .rank = 1 };
    struct member_groups *groups = member_groups_create(&grid, &error);
    assert_good(groups, error);
    const struct process_group *one = member_groups_of(groups, 0), *other = member_groups_of(groups, 1);
    error_set_kind(&reason, ERROR_MACHINE, "rank 1: it burns");
    other->abandon(other->self, &reason);
    assert_false(one->all_gather(one->self, NULL, 0, NULL, &error));
    assert_error(error, "rank 1: it burns");
    const struct process_group elsewhere = thread_group_member(places, 0);
    error = (struct error){ 0 };
    assert_false(elsewhere.is_well(elsewhere.self, &error));
    assert_error(error, "rank 1: it burns");
    member_groups_free(groups);
    thread_group_free(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_has_a_group_of_its_ranks),
        cmocka_unit_test(who_gives_up_fails_all),
    };
    return cmocka_run_group_tests_name("member_groups", tests, NULL, NULL);
}
