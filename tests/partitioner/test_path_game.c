#include "partitioner/search/path_game.h"

#include "common/random.h"
#include "tests/test.h"

enum { STAGES = 2, PARTS = STAGES * PATH_PARTS, PLANS = 6 };

struct match {
    struct path_game *game;
    uint32_t counts[2][PARTS];
    uint64_t latency[2];
    uint64_t parts[PLANS][PARTS];
};

static void set_up(struct match *match, uint64_t *seed)
{
    struct error error = { 0 };
    match->game = path_game_create(STAGES, &error);
    assert_good(match->game, error);
    for (uint32_t i = 0; i < 2; i++) {
        for (unsigned k = 0; k < PARTS; k++)
            match->counts[i][k] = (uint32_t)random_below(seed, 20);
        match->latency[i] = random_below(seed, 1000);
        path_game_add_path(match->game, match->counts[i], match->latency[i]);
    }
    for (uint32_t j = 0; j < PLANS; j++) {
        const uint32_t places[STAGES + 1] = { 0, j, PLANS };
        for (unsigned k = 0; k < PARTS; k++)
            match->parts[j][k] = random_below(seed, 1000000);
        path_game_add_plan(match->game, match->parts[j], places);
    }
}

static double length_of(const struct match *match, uint32_t path, uint32_t plan)
{
    double length = (double)match->latency[path];
    for (unsigned k = 0; k < PARTS; k++)
        length += (double)match->counts[path][k] * (double)match->parts[plan][k];
    return length;
}

// The twin: every proportion of two paths, a thousandth apart.
static double best_mixture(const struct match *match)
{
    double best = 0;
    for (uint32_t i = 0; i <= 1000; i++) {
        double least = 1e300;
        for (uint32_t j = 0; j < PLANS; j++) {
            const double length = (i * length_of(match, 0, j) + (1000 - i) * length_of(match, 1, j)) / 1000;
            least = length < least ? length : least;
        }
        best = least > best ? least : best;
    }
    return best;
}

static double cheapest(const uint64_t *prices, uint64_t latency, const struct match *match, double *longest)
{
    double least = 1e300;
    for (uint32_t j = 0; j < PLANS; j++) {
        double cost = (double)latency;
        for (unsigned k = 0; k < PARTS; k++)
            cost += (double)prices[k] * (double)match->parts[j][k];
        cost /= (double)((uint64_t)1 << GAME_BITS);
        const double a = length_of(match, 0, j), b = length_of(match, 1, j);
        *longest = cost / (a > b ? a : b) > *longest ? cost / (a > b ? a : b) : *longest;
        least = cost < least ? cost : least;
    }
    return least;
}

static void a_solved_game_is_worth_what_the_best_mixture_is(void **state)
{
    (void)state;
    uint64_t seed = 61, mixed = 0;
    for (uint64_t trial = 0; trial < test_trials(1000, 20000); trial++) {
        struct match match;
        uint64_t prices[PARTS], latency;
        double longest = 0;
        set_up(&match, &seed);
        path_game_solve(match.game);
        path_game_prices(match.game, prices, &latency);
        const double best = best_mixture(&match), said = cheapest(prices, latency, &match, &longest);
        if (longest > 1 + 1e-9)
            fail_msg("trial %d: a plan costs %.6f of its longest path", (int)trial, longest);
        if (said > best * 1.002 || said < best * 0.97 || match.game->value_ns < best * 0.998)
            fail_msg("trial %d: the cheapest plan costs %.0f at these proportions, worth is %.0f, and the best is %.0f",
                     (int)trial, said, match.game->value_ns, best);
        mixed += match.game->paths[0].weight > 0.01 && match.game->paths[1].weight > 0.01;
        path_game_free(match.game);
    }
    print_message("# %d games with both paths in the mixture\n", (int)mixed);
    assert_true(mixed > 50);
}

static void only_plans_that_take_part_count(void **state)
{
    (void)state;
    uint64_t seed = 62;
    struct match match;
    set_up(&match, &seed);
    for (uint32_t j = 0; j < PLANS; j++)
        match.game->plans[j].is_in = j == 3;
    path_game_solve(match.game);
    const double a = length_of(&match, 0, 3), b = length_of(&match, 1, 3);
    assert_true(match.game->value_ns > 0.999 * (a > b ? a : b) && match.game->value_ns < 1.001 * (a > b ? a : b));
    assert_true(match.game->plans[3].weight > 0.999 && match.game->plans[2].weight == 0);
    uint64_t average[PARTS];
    path_game_average(match.game, average);
    for (unsigned k = 0; k < PARTS; k++)
        assert_true(average[k] <= match.parts[3][k] && average[k] + 2 > match.parts[3][k]);
    path_game_free(match.game);
}

static void a_full_game_keeps_what_weighs_most(void **state)
{
    (void)state;
    uint64_t seed = 63;
    struct match match;
    set_up(&match, &seed);
    path_game_solve(match.game);
    const uint32_t heavy = match.game->paths[0].weight > match.game->paths[1].weight ? 0 : 1;
    for (uint32_t more = 0; more < 2 * GAME_PATHS; more++) {
        uint32_t counts[PARTS] = { more };
        path_game_add_path(match.game, counts, 0);
        path_game_add_path(match.game, counts, 0);  // which is there already
    }
    assert_int_equal(match.game->path_count, GAME_PATHS);
    assert_memory_equal(match.game->paths[heavy].counts, match.counts[heavy], sizeof match.counts[heavy]);
    path_game_free(match.game);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_solved_game_is_worth_what_the_best_mixture_is),
        cmocka_unit_test(only_plans_that_take_part_count),
        cmocka_unit_test(a_full_game_keeps_what_weighs_most),
    };
    return cmocka_run_group_tests_name("path_game", tests, NULL, NULL);
}
