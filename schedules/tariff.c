#include "schedules/tariff.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

static void connect(struct tariff *tariff, const struct schedule *schedule, const struct network *network)
{
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        for (uint32_t stage = 0; stage + 1 < schedule->stages; stage++) {
            const uint32_t *ranks = &schedule->routes[(size_t)route * schedule->stages + stage];
            for (uint32_t back = 0; back < 2; back++) {
                const uint32_t number = (route * schedule->stages + stage) * 2 + back;
                const uint32_t from = ranks[back], to = ranks[!back];
                const bool is_exchange = from == to && schedule->exchanges;
                const uint32_t link = is_exchange ? tariff->link_count + tariff->host_count + from
                                    : network     ? network->link_of[(size_t)from * network->ranks + to] : number;
                for (uint32_t split = 0; split < schedule->splits; split++)
                    tariff->channels[(size_t)number * schedule->splits + split] =
                        (struct channel){ .boundary = stage, .to = to, .link = link, .is_exchange = is_exchange };
            }
        }
    }
}

// All moves of a rank go one after the other, whichever way they go.
static void connect_hosts(struct tariff *tariff, const struct schedule *schedule)
{
    for (uint32_t i = 0; i < tariff->move_count; i++) {
        const uint32_t index = i / schedule->splits, rank = schedule->routes[index];
        tariff->channels[tariff->channel_count + i] =
            (struct channel){ .boundary = index % schedule->stages, .to = rank, .link = tariff->link_count + rank };
    }
}

// Whether two ranks send over one link. If so, the order on that link depends on time.
static bool find_shared_links(struct tariff *tariff, const struct schedule *schedule, struct error *error)
{
    uint32_t *sender = malloc((tariff->link_count + (size_t)1) * sizeof *sender);
    if (!sender)
        return error_no_memory(error, "the links of a schedule");
    memset(sender, 0xff, (tariff->link_count + (size_t)1) * sizeof *sender);
    for (uint32_t i = 0; i < tariff->channel_count; i++) {
        const uint32_t number = i / schedule->splits, stage = number / 2 % schedule->stages;
        if (stage + 1 == schedule->stages)
            continue;
        const uint32_t from = schedule->routes[number / 2 + number % 2];
        if (from == tariff->channels[i].to)
            continue;
        uint32_t *of_link = &sender[tariff->channels[i].link];
        tariff->shared |= *of_link != UINT32_MAX && *of_link != from;
        *of_link = from;
    }
    free(sender);
    return true;
}

bool tariff_create(struct tariff *tariff, const struct schedule *schedule, const struct network *network,
                   struct error *error)
{
    assert(!network || network->ranks >= schedule->ranks);

    *tariff = (struct tariff){ .stages = schedule->stages, .splits = schedule->splits };
    const size_t rows = (size_t)schedule->stages * schedule->splits;
    const uint64_t channels = (uint64_t)schedule->route_count * rows * 2;
    if (channels + channels / 2 >= UINT32_MAX)
        return error_set(error, "the schedule is too large: %llu channels", (unsigned long long)channels);
    tariff->channel_count = (uint32_t)channels;
    tariff->link_count = network ? network->link_count : tariff->channel_count / schedule->splits;
    tariff->move_count = schedule->moves ? tariff->channel_count / 2 : 0;
    tariff->host_count = schedule->moves ? schedule->ranks : 0;
    tariff->exchange_count = schedule->exchanges ? schedule->ranks : 0;
    const size_t all_channels = (size_t)tariff->channel_count + tariff->move_count;
    tariff->prices = calloc(rows * PRICES, sizeof *tariff->prices);
    tariff->uses = calloc(rows * PRICES, sizeof *tariff->uses);
    tariff->channels = calloc(all_channels, sizeof *tariff->channels);
    tariff->links = calloc(tariff->link_count + (size_t)1, sizeof *tariff->links);
    if (!tariff->prices || !tariff->uses || !tariff->channels || !tariff->links) {
        tariff_clear(tariff);
        return error_no_memory(error, "the costs of a schedule");
    }
    if (network)
        memcpy(tariff->links, network->links, network->link_count * sizeof *tariff->links);
    connect(tariff, schedule, network);
    connect_hosts(tariff, schedule);
    if (find_shared_links(tariff, schedule, error))
        return true;
    tariff_clear(tariff);
    return false;
}

void tariff_clear(struct tariff *tariff)
{
    free(tariff->prices);
    free(tariff->uses);
    free(tariff->channels);
    free(tariff->links);
    *tariff = (struct tariff){ 0 };
}

static void price_stage(uint64_t *prices, const struct cost_row *row)
{
    prices[PRICE_NOTHING] = 0;
    prices[PRICE_F] = row->forward_ns;
    prices[PRICE_B] = row->backward_ns;
    prices[PRICE_I] = row->backward_input_ns;
    prices[PRICE_W] = row->backward_weight_ns;
    prices[PRICE_R] = row->recompute_ns;
    prices[PRICE_B_RECOMPUTING] = add_clamped(row->backward_ns, row->recompute_ns);
    prices[PRICE_I_RECOMPUTING] = add_clamped(row->backward_input_ns, row->recompute_ns);
    prices[PRICE_STEP] = row->step_ns;
    prices[PRICE_REDUCE] = row->reduce_ns;
    prices[PRICE_OVERLAPPED] = row->overlapped_ns;
}

void tariff_fill(struct tariff *tariff, const struct cost_row *costs)
{
    const uint32_t splits = tariff->splits;
    for (uint32_t i = 0; i < tariff->stages * splits; i++) {
        const struct cost_row part = cost_row_part(&costs[i / splits], i % splits, splits);
        price_stage(&tariff->prices[(size_t)i * PRICES], &part);
    }
    for (uint32_t i = 0; i < tariff->channel_count; i++) {
        struct channel *channel = &tariff->channels[i];
        const struct cost_row *row = &costs[channel->boundary];
        if (channel->is_exchange) {
            channel->occupied_ns = cost_part(row->exchange_ns, i % splits, splits);
            continue;
        }
        const struct link *link = &tariff->links[channel->link];
        channel->occupied_ns = transfer_ns(cost_part(row->output_bytes, i % splits, splits), link->bytes_per_second, 0);
        channel->latency_ns = link->latency_ns;
    }
    for (uint32_t i = 0; i < tariff->move_count; i++) {
        struct channel *channel = &tariff->channels[tariff->channel_count + i];
        channel->occupied_ns = cost_part(costs[channel->boundary].move_ns, i % splits, splits);
    }
}

bool tariff_sum_is_possible(const struct tariff *tariff)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < (size_t)tariff->stages * tariff->splits * PRICES; i++)
        sum = add_clamped(sum, multiply_clamped(tariff->uses[i], tariff->prices[i]));
    for (uint32_t i = 0; i < tariff->channel_count + tariff->move_count; i++) {
        const struct channel *channel = &tariff->channels[i];
        const uint64_t each = add_clamped(channel->occupied_ns, channel->latency_ns);
        sum = add_clamped(sum, multiply_clamped(channel->used, each));
    }
    return sum <= INT64_MAX;
}
