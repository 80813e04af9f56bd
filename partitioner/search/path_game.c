#include "partitioner/search/path_game.h"

#include <stdlib.h>
#include <string.h>

// Rounds of a solution; each side answers to the other's proportions (regret matching).
enum { ROUNDS = 200 };

struct path_game *path_game_create(uint32_t stages, struct error *error)
{
    const size_t parts = (size_t)stages * PATH_PARTS;
    struct path_game *game = calloc(1, sizeof *game);
    bool good = game != NULL;
    if (good) {
        game->stages = stages;
        game->lengths = calloc((size_t)GAME_PATHS * GAME_PLANS, sizeof game->lengths[0]);
        good = game->lengths != NULL;
        for (size_t i = 0; i < GAME_PATHS; i++)
            good &= (game->paths[i].counts = calloc(parts, sizeof game->paths[i].counts[0])) != NULL;
        for (size_t i = 0; i < GAME_PLANS; i++) {
            good &= (game->plans[i].parts = calloc(parts, sizeof game->plans[i].parts[0])) != NULL;
            good &= (game->plans[i].places = calloc(stages + 1, sizeof game->plans[i].places[0])) != NULL;
        }
    }
    if (good)
        return game;
    path_game_free(game);
    error_no_memory(error, "a search");
    return NULL;
}

void path_game_free(struct path_game *game)
{
    if (!game)
        return;
    for (size_t i = 0; i < GAME_PATHS; i++)
        free(game->paths[i].counts);
    for (size_t i = 0; i < GAME_PLANS; i++) {
        free(game->plans[i].parts);
        free(game->plans[i].places);
    }
    free(game->lengths);
    free(game);
}

// --- adding ---------------------------------------------------------------------------

static void measure(struct path_game *game, size_t path, size_t plan)
{
    double length = (double)game->paths[path].latency_ns;
    for (size_t i = 0; i < (size_t)game->stages * PATH_PARTS; i++)
        length += (double)game->paths[path].counts[i] * (double)game->plans[plan].parts[i];
    game->lengths[path * GAME_PLANS + plan] = length;
}

void path_game_add_path(struct path_game *game, const uint32_t *counts, uint64_t latency_ns)
{
    const size_t bytes = (size_t)game->stages * PATH_PARTS * sizeof counts[0];
    size_t at = game->path_count;
    for (size_t i = 0; i < game->path_count; i++)
        if (game->paths[i].latency_ns == latency_ns && memcmp(game->paths[i].counts, counts, bytes) == 0)
            return;
    if (at < GAME_PATHS) {
        game->path_count++;
    } else {
        at = game->path_turn;
        for (size_t i = 0; i < GAME_PATHS; i++)
            at = game->paths[(game->path_turn + i) % GAME_PATHS].weight < game->paths[at].weight
                     ? (game->path_turn + i) % GAME_PATHS : at;
        game->path_turn = (at + 1) % GAME_PATHS;
    }
    memcpy(game->paths[at].counts, counts, bytes);
    game->paths[at].latency_ns = latency_ns;
    game->paths[at].weight = 0;
    for (size_t plan = 0; plan < game->plan_count; plan++)
        measure(game, at, plan);
}

void path_game_add_plan(struct path_game *game, const uint64_t *parts, const uint32_t *places)
{
    const size_t bytes = (size_t)game->stages * PATH_PARTS * sizeof parts[0];
    size_t at = game->plan_count;
    for (size_t i = 0; i < game->plan_count; i++)
        if (memcmp(game->plans[i].parts, parts, bytes) == 0)
            return;
    if (at < GAME_PLANS) {
        game->plan_count++;
    } else {
        at = game->plan_turn;
        for (size_t i = 0; i < GAME_PLANS; i++)
            at = game->plans[(game->plan_turn + i) % GAME_PLANS].weight < game->plans[at].weight
                     ? (game->plan_turn + i) % GAME_PLANS : at;
        game->plan_turn = (at + 1) % GAME_PLANS;
    }
    memcpy(game->plans[at].parts, parts, bytes);
    memcpy(game->plans[at].places, places, ((size_t)game->stages + 1) * sizeof places[0]);
    game->plans[at].weight = 0;
    game->plans[at].is_in = true;
    for (size_t path = 0; path < game->path_count; path++)
        measure(game, path, at);
}

// --- solving ---------------------------------------------------------------------------

// Proportional to what is regretted; alike where nothing is.
static void choose(const double *regrets, size_t count, double *chosen)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += regrets[i];
    for (size_t i = 0; i < count; i++)
        chosen[i] = sum > 0 ? regrets[i] / sum : 1 / (double)count;
}

static double regret(double *regrets, const double *pays, const double *chosen, size_t count)
{
    double value = 0;
    for (size_t i = 0; i < count; i++)
        value += pays[i] * chosen[i];
    for (size_t i = 0; i < count; i++) {
        const double sum = regrets[i] + pays[i] - value;
        regrets[i] = sum > 0 ? sum : 0;
    }
    return value;
}

struct solving {
    size_t paths, plans;
    double pays[GAME_PATHS][GAME_PLANS];  // in parts of the longest
    double of_path[GAME_PATHS], of_plan[GAME_PLANS];
    double path[GAME_PATHS], plan[GAME_PLANS];            // the proportions of this round
    double path_regret[GAME_PATHS], plan_regret[GAME_PLANS];
    double path_sum[GAME_PATHS], plan_sum[GAME_PLANS];    // and of all rounds, the later ones more
};

static void play(struct solving *solving, unsigned round)
{
    for (size_t i = 0; i < solving->paths; i++) {
        double pay = 0;
        for (size_t j = 0; j < solving->plans; j++)
            pay += solving->pays[i][j] * solving->plan[j];
        solving->of_path[i] = pay;
    }
    regret(solving->path_regret, solving->of_path, solving->path, solving->paths);
    choose(solving->path_regret, solving->paths, solving->path);
    memset(solving->of_plan, 0, sizeof solving->of_plan);
    for (size_t i = 0; i < solving->paths; i++)
        for (size_t j = 0; j < solving->plans; j++)
            solving->of_plan[j] -= solving->pays[i][j] * solving->path[i];
    regret(solving->plan_regret, solving->of_plan, solving->plan, solving->plans);
    choose(solving->plan_regret, solving->plans, solving->plan);
    for (size_t i = 0; i < solving->paths; i++)
        solving->path_sum[i] += round * solving->path[i];
    for (size_t j = 0; j < solving->plans; j++)
        solving->plan_sum[j] += round * solving->plan[j];
}

void path_game_solve(struct path_game *game)
{
    struct solving solving = { .paths = game->path_count };
    size_t at[GAME_PLANS];
    double longest = 1;
    for (size_t j = 0; j < game->plan_count; j++)
        if (game->plans[j].is_in)
            at[solving.plans++] = j;
    for (size_t i = 0; i < solving.paths; i++)
        for (size_t j = 0; j < solving.plans; j++) {
            solving.pays[i][j] = game->lengths[i * GAME_PLANS + at[j]];
            longest = solving.pays[i][j] > longest ? solving.pays[i][j] : longest;
        }
    for (size_t i = 0; i < solving.paths; i++) {
        solving.path_regret[i] = game->paths[i].weight / 50;
        for (size_t j = 0; j < solving.plans; j++)
            solving.pays[i][j] /= longest;
    }
    choose(solving.path_regret, solving.paths, solving.path);
    choose(solving.plan_regret, solving.plans, solving.plan);
    for (unsigned round = 1; round <= ROUNDS; round++)
        play(&solving, round);
    choose(solving.path_sum, solving.paths, solving.path);
    choose(solving.plan_sum, solving.plans, solving.plan);
    game->value_ns = 0;
    for (size_t i = 0; i < solving.paths; i++) {
        game->paths[i].weight = solving.path[i];
        double pay = 0;
        for (size_t j = 0; j < solving.plans; j++)
            pay += solving.pays[i][j] * solving.plan[j] * longest;
        game->value_ns = pay > game->value_ns ? pay : game->value_ns;
    }
    for (size_t j = 0; j < game->plan_count; j++)
        game->plans[j].weight = 0;
    for (size_t j = 0; j < solving.plans; j++)
        game->plans[at[j]].weight = solving.plan[j];
}

// --- what comes of it --------------------------------------------------------------------

// Whole parts of 2^GAME_BITS, which no rounding makes more than that together.
void path_game_prices(const struct path_game *game, uint64_t *prices, uint64_t *latency)
{
    const uint64_t all = (uint64_t)1 << GAME_BITS;
    uint64_t left = all;
    size_t heaviest = 0;
    memset(prices, 0, (size_t)game->stages * PATH_PARTS * sizeof prices[0]);
    *latency = 0;
    for (size_t i = 0; i < game->path_count; i++) {
        heaviest = game->paths[i].weight > game->paths[heaviest].weight ? i : heaviest;
        const uint64_t part = (uint64_t)(game->paths[i].weight * (double)all);
        left -= part < left ? part : left;
    }
    uint64_t used = 0;
    for (size_t i = 0; i < game->path_count; i++) {
        uint64_t part = (uint64_t)(game->paths[i].weight * (double)all) + (i == heaviest ? left : 0);
        part = part < all - used ? part : all - used;
        used += part;
        for (size_t k = 0; k < (size_t)game->stages * PATH_PARTS; k++)
            prices[k] += part * game->paths[i].counts[k];
        *latency += part * game->paths[i].latency_ns;
    }
}

void path_game_average(const struct path_game *game, uint64_t *parts)
{
    for (size_t k = 0; k < (size_t)game->stages * PATH_PARTS; k++) {
        double sum = 0;
        for (size_t j = 0; j < game->plan_count; j++)
            sum += game->plans[j].weight * (double)game->plans[j].parts[k];
        parts[k] = (uint64_t)sum;
    }
}
