// Of a stage with a copies and the next one with b, micro-batch i goes from copy i mod a
// to copy i mod b, and back. Each such pair is a channel in either direction; pairs that
// the network lays on one link share it.
#include "partitioner/layouts/crew_links.h"

#include <stdlib.h>

#include "common/number.h"

struct seen_links {
    const struct network *network;
    const struct crews *crews;
    uint32_t *channels;   // of each link
    uint64_t *messages;   // likewise, while they are counted
};

// Two stages, by the first rank of each.
struct pair {
    uint32_t from, to, copies, next_copies;
};

static uint32_t link_at(const struct seen_links *links, uint32_t from, uint32_t to)
{
    return links->network->link_of[(size_t)from * links->network->ranks + to];
}

// On the way of a micro-batch there, or back.
static uint32_t link_of(const struct seen_links *links, const struct pair *pair, uint64_t micro_batch, bool back)
{
    const uint32_t from = pair->from + (uint32_t)(micro_batch % pair->copies);
    const uint32_t to = pair->to + (uint32_t)(micro_batch % pair->next_copies);
    return back ? link_at(links, to, from) : link_at(links, from, to);
}

static void count_channels(const struct seen_links *links, const struct pair *pair)
{
    uint32_t common = pair->copies;
    while (pair->copies % common || pair->next_copies % common)
        common--;
    for (uint32_t i = 0; i < pair->copies; i++) {
        for (uint32_t j = i % common; j < pair->next_copies; j += common) {
            links->channels[link_at(links, pair->from + i, pair->to + j)]++;
            links->channels[link_at(links, pair->to + j, pair->from + i)]++;
        }
    }
}

static uint64_t slower_rate(uint64_t a, uint64_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;  // 0: bytes cost nothing
}

// Of the last so many micro-batches of the shorter run.
static void count_late(const struct seen_links *links, const struct pair *pair, uint64_t late,
                       struct crewed_stage *stage)
{
    const uint64_t all = 2 * (uint64_t)links->crews->micro_batches;
    stage->late = stage->late_bytes_per_second = 0;
    for (uint64_t i = all - late; i < all; i++) {
        for (int back = 0; back < 2; back++) {
            const uint32_t link = link_of(links, pair, i, back);
            const uint64_t rate = links->network->links[link].bytes_per_second;
            if (links->channels[link] < 2 || rate == 0)
                continue;
            stage->late++;
            stage->late_bytes_per_second = slower_rate(stage->late_bytes_per_second, rate);
        }
    }
}

// On the way back, of the micro-batches from one on.
static void count_carried(const struct seen_links *links, const struct pair *pair, uint64_t from,
                          struct crewed_stage *stage)
{
    const uint64_t all = 3 * (uint64_t)links->crews->micro_batches;
    stage->carried = stage->carried_bytes_per_second = 0;
    for (uint64_t i = from; i < all; i++)
        links->messages[link_of(links, pair, i, true)] = 0;
    for (uint64_t i = from; i < all; i++) {
        const uint32_t link = link_of(links, pair, i, true);
        const uint64_t count = ++links->messages[link], rate = links->network->links[link].bytes_per_second;
        const uint64_t before = stage->carried_bytes_per_second;
        if (rate > 0 && (before == 0 || (double)count / (double)rate > (double)stage->carried / (double)before)) {
            stage->carried = count;
            stage->carried_bytes_per_second = rate;
        }
    }
}

// The quickest between the two stages.
static struct link best_between(const struct seen_links *links, const struct pair *pair)
{
    struct link best = links->network->links[link_at(links, pair->from, pair->to)];
    for (uint32_t i = 0; i < pair->copies; i++) {
        for (uint32_t j = 0; j < pair->next_copies; j++) {
            const uint32_t from = pair->from + i, to = pair->to + j;
            best = crew_better_link(best, links->network->links[link_at(links, from, to)]);
            best = crew_better_link(best, links->network->links[link_at(links, to, from)]);
        }
    }
    return best;
}

// That between two of the copies on which all weights take longest.
static struct link worst_among(const struct seen_links *links, uint32_t rank, uint32_t copies, uint64_t bytes)
{
    struct link worst = { 0 };
    for (uint32_t i = 0; i < copies; i++) {
        for (uint32_t j = 0; j < copies; j++) {
            const struct link *link = &links->network->links[link_at(links, rank + i, rank + j)];
            if (i != j && transfer_ns(bytes, link->bytes_per_second, link->latency_ns)
                              >= transfer_ns(bytes, worst.bytes_per_second, worst.latency_ns))
                worst = *link;
        }
    }
    return worst;
}

// The latest micro-batch with which any stage goes on behind the run of 2m.
static uint64_t latest_forward(const struct crews *crews, const struct crewed_stage *stages, uint32_t ranks)
{
    uint64_t latest = 0;
    for (uint32_t s = 0; s < crews->stage_count; ranks -= stages[s++].copies) {
        const struct crew_run run = { crews->micro_batches, stages[s].copies, ranks };
        const uint64_t next = crew_next_forward(&run);
        latest = next > latest ? next : latest;
    }
    return latest;
}

static void see(const struct seen_links *links, struct crewed_stage *stages)
{
    const struct crews *crews = links->crews;
    const struct crew_run first = { crews->micro_batches, stages[0].copies, links->network->ranks };
    const uint64_t late = crew_late(&first), from = latest_forward(crews, stages, links->network->ranks);
    for (int counts = 1; counts >= 0; counts--) {
        for (uint32_t s = 0, rank = 0; s < crews->stage_count; rank += stages[s++].copies) {
            struct crewed_stage *stage = &stages[s];
            if (counts && stage->copies > 1)
                stage->among = worst_among(links, rank, stage->copies, stage->weights[crews->layers]);
            if (s + 1 == crews->stage_count)
                continue;
            const struct pair pair = { rank, rank + stage->copies, stage->copies, stages[s + 1].copies };
            if (counts) {
                count_channels(links, &pair);
                continue;
            }
            stage->next = best_between(links, &pair);
            count_late(links, &pair, late, stage);
            count_carried(links, &pair, from, stage);
        }
    }
}

bool crew_see_links(const struct crews *crews, struct crewed_stage *stages, const struct network *network,
                    struct error *error)
{
    struct seen_links links = { .network = network, .crews = crews };
    links.channels = calloc((size_t)network->link_count + 1, sizeof links.channels[0]);
    links.messages = calloc((size_t)network->link_count + 1, sizeof links.messages[0]);
    const bool good = links.channels && links.messages;
    if (good)
        see(&links, stages);
    free(links.channels);
    free(links.messages);
    return good || error_no_memory(error, "the bounds of a plan");
}
