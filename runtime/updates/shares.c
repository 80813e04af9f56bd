#include "runtime/updates/shares.h"

#include <stdlib.h>

#include "common/number.h"
#include "runtime/transport/transport.h"
#include "common/public/weir_layer.h"

// Where a tensor begins, as an element of the stage. (Optimizers that update by tensors are in fp32.)
static uint64_t tensor_first(const struct stage_part *part, size_t tensor)
{
    return part->first + part->tensors[tensor].first_byte / sizeof(float);
}

// The last place, at or before an element of a part, where a share may begin.
static uint64_t place_before(const struct stage *stage, const struct stage_part *part, uint64_t position)
{
    uint64_t place = part->first;
    if (stage->unit == UPDATES_BLOCKS)
        return position - (position - part->first) % OPTIMIZER_8BIT_BLOCK;
    for (size_t t = 0; t < part->tensor_count && tensor_first(part, t) <= position; t++)
        place = tensor_first(part, t);
    return place;
}

static uint64_t share_edge(const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies)
{
    const uint64_t edge = share_first(count, copy, copies);
    for (size_t i = 0; stage->unit != UPDATES_PARAMETERS && i < stage->part_count; i++)
        if (stage->parts[i].first <= edge && edge < stage->parts[i].end)
            return place_before(stage, &stage->parts[i], edge);
    return edge;
}

static bool open_exempt(struct share *share, const struct stage *stage, struct error *error)
{
    share->exempt = calloc(stage->exempt_count + 1, sizeof *share->exempt);
    if (!share->exempt)
        return error_no_memory(error, "a share of a stage");
    for (size_t i = 0; i < stage->exempt_count; i++) {
        const uint64_t first = max_u64(stage->exempt[i].first, share->first);
        const uint64_t end = min_u64(stage->exempt[i].end, share->first + share->count);
        if (first < end)
            share->exempt[share->exempt_count++] = (struct exempt){ first - share->first, end - share->first };
    }
    return true;
}

// --- what a share has of a layer ---------------------------------------------------------

// The tensors of a part that are in the share: `count` in a row from `first`. The part may be cut.
static void find_tensors(const struct share *share, const struct stage_part *part, size_t *first, size_t *count)
{
    *first = *count = 0;
    for (size_t t = 0; t < part->tensor_count; t++) {
        const uint64_t start = tensor_first(part, t);
        *first += start < share->first;
        *count += share->first <= start && start < share->first + share->count;
    }
}

// The state of whole tensors in blocks (adafactor's) is where it would be without shares: after that of the first
// `tensors`.
static uint64_t state_behind(const struct stage_part *part, size_t tensors)
{
    uint64_t numbers = 0;
    for (size_t t = 0; t < tensors; t++) {
        const uint64_t rows = part->tensors[t].rows;
        numbers += optimizer_factored((struct shape){ rows > 1 ? rows : 1, part->tensors[t].columns });
    }
    return tensors == part->tensor_count ? part->state_end : part->state + numbers * sizeof(float);
}

// Puts the share's tensors of a part at `to`, their places moved by `moved` elements. `to` is NULL if they are not
// wanted.
static void put_tensors(const struct share *share, const struct stage_part *part, uint64_t moved,
                        struct weir_tensor *to, struct stage_part *within)
{
    size_t first, count;
    find_tensors(share, part, &first, &count);
    within->state = first > 0 ? state_behind(part, first) : part->state;
    within->state_end = state_behind(part, first + count);
    within->tensors = to;
    within->tensor_count = count;
    for (size_t t = 0; to && t < count; t++) {
        to[t] = part->tensors[first + t];
        to[t].first_byte -= moved * sizeof(float);
    }
}

// What the share has of a part. With blocks its state begins at `state`; with tensors these are put at `tensors`.
static struct stage_part part_within(const struct share *share, const struct stage *stage,
                                     const struct stage_part *part, uint64_t state, struct weir_tensor *tensors)
{
    const uint64_t first = max_u64(part->first, share->first), end = min_u64(part->end, share->first + share->count);
    const uint64_t numbers = min_u64(stage_part_end(part), end);
    if (first >= numbers)
        return (struct stage_part){ 0 };
    struct stage_part within = { .layer = part->layer, .first = first - share->first, .end = end - share->first,
                                 .is_copy = part->is_copy, .is_frozen = part->is_frozen,
                                 .rate_factor = part->rate_factor, .numbers = numbers - first, .state = state };
    if (stage->unit == UPDATES_BLOCKS)
        within.state_end = state + optimizer_block_bytes(within.numbers);
    else if (stage->unit == UPDATES_TENSORS)
        put_tensors(share, part, first - part->first, tensors, &within);
    const bool has_none = stage->unit == UPDATES_TENSORS && within.tensor_count == 0 && part->tensor_count > 0;
    return has_none ? (struct stage_part){ 0 } : within;  // only zeros before the first tensor
}

static size_t count_tensors(const struct stage *stage)
{
    size_t count = 0;
    for (size_t i = 0; i < stage->part_count; i++)
        count += stage->parts[i].tensor_count;
    return count;
}

static bool open_parts(struct share *share, const struct stage *stage, uint64_t count, struct error *error)
{
    const bool is_even = stage->unit == UPDATES_PARAMETERS;
    share->edges = is_even ? NULL : calloc(share->copies + 1u, sizeof *share->edges);
    share->parts = calloc(stage->part_count + 1, sizeof *share->parts);
    share->tensors = calloc(count_tensors(stage) + 1, sizeof *share->tensors);
    if ((!share->edges && !is_even) || !share->parts || !share->tensors)
        return error_no_memory(error, "a share of a stage");
    for (uint32_t copy = 0; share->edges && copy <= share->copies; copy++)
        share->edges[copy] = share_edge(stage, count, copy, share->copies);
    uint64_t state = 0;
    struct weir_tensor *tensors = share->tensors;
    for (size_t i = 0; i < stage->part_count; i++) {
        const struct stage_part part = part_within(share, stage, &stage->parts[i], state, tensors);
        if (part.first == part.end)
            continue;
        state = part.state_end;
        tensors += part.tensor_count;
        share->parts[share->part_count++] = part;
    }
    return true;
}

struct share share_range(const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies)
{
    struct share share = { .count = count, .copies = stage->shard == SHARD_NONE ? 1 : copies };
    if (share.copies == 1)
        return share;
    share.first = share_edge(stage, count, copy, copies);
    share.count = share_edge(stage, count, copy + 1, copies) - share.first;
    return share;
}

bool share_open(struct share *share, const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies,
                struct error *error)
{
    *share = share_range(stage, count, copy, copies);
    return share->copies == 1 || (open_exempt(share, stage, error) && open_parts(share, stage, count, error));
}

bool share_fits(const struct share *share, const struct stage *stage, enum optimizer_kind kind, struct error *error)
{
    const struct stage_bytes *bytes = &stage->bytes;
    const uint64_t needs = share->count * sizeof(float);
    uint64_t state = optimizer_copies(kind) * needs;
    for (size_t i = 0; optimizer_keeps_blocks(kind) && i < share->part_count; i++)
        state = max_u64(state, share->parts[i].state_end);
    return !share->edges
        || (state <= max_u64(bytes->optimizer, bytes->host.optimizer)
            && (bytes->room_gradients == 0 || needs <= bytes->gradients - bytes->room_gradients)
            && (bytes->room_weights == 0 || needs <= bytes->weights - bytes->room_weights))
        || error_set(error, "a replica's share of whole tensors is larger than the plan has counted, since layers have"
                     " larger ones than their profile says: profile the model, and partition, anew");
}

void share_close(struct share *share)
{
    free(share->edges);
    free(share->parts);
    free(share->tensors);
    free(share->exempt);
    *share = (struct share){ 0 };
}

struct share_pieces share_pieces(const struct share *share, uint64_t first, uint64_t count)
{
    const uint64_t from = max_u64(first, share->first), end = min_u64(first + count, share->first + share->count);
    return from < end ? (struct share_pieces){ { { from, end - from, from - share->first } }, 1 }
                      : (struct share_pieces){ .count = 0 };
}

// | scales of first moments | of second ones | codes of first moments | of second ones |, of the layer and of the piece
static struct share_pieces block_pieces(const struct stage_part *whole, const struct stage_part *piece, uint64_t before)
{
    const uint64_t scale = sizeof(float), all = stage_part_end(whole) - whole->first;
    const uint64_t all_scales = scale * optimizer_block_count(all), skip = scale * (before / OPTIMIZER_8BIT_BLOCK);
    const uint64_t codes = piece->numbers, scales = scale * optimizer_block_count(codes);
    return (struct share_pieces){ {
        { whole->state + skip, scales, piece->state },
        { whole->state + all_scales + skip, scales, piece->state + scales },
        { whole->state + 2 * all_scales + before, codes, piece->state + 2 * scales },
        { whole->state + 2 * all_scales + all + before, codes, piece->state + 2 * scales + codes },
    }, MOST_SHARE_PIECES };
}

struct share_pieces share_block_pieces(const struct share *share, const struct stage *stage, uint64_t first)
{
    uint64_t state = 0;
    for (size_t i = 0; i < stage->part_count; i++) {
        const struct stage_part *whole = &stage->parts[i];
        const struct stage_part piece = part_within(share, stage, whole, state, NULL);
        if (piece.first == piece.end)
            continue;
        if (whole->state == first && stage->unit == UPDATES_TENSORS)
            return (struct share_pieces){ { { piece.state, piece.state_end - piece.state, piece.state } }, 1 };
        if (whole->state == first)
            return block_pieces(whole, &piece, share->first + piece.first - whole->first);
        state = piece.state_end;
    }
    return (struct share_pieces){ .count = 0 };
}

struct optimizer_buffers share_buffers(const struct share *share, enum precision precision,
                                       struct optimizer_buffers whole)
{
    if (share->copies == 1)
        return whole;
    struct optimizer_buffers buffers = whole;
    buffers.next = values_at(whole.next, precision, share->first);
    buffers.weights = values_at(whole.weights, precision, share->first);
    buffers.gradients = whole.gradients + share->first;
    buffers.count = share->count;
    buffers.exempt = share->exempt;
    buffers.exempt_count = share->exempt_count;
    buffers.parts = share->parts;
    buffers.part_count = share->part_count;
    return buffers;
}
