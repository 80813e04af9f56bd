// Tables that are split over members with rows of their own (models/table_places.h). What the members look up for each
// other is what one layer with all tables looks up, and the parts of their gradients make up its gradient.
#include "models/table_places.h"

#include <stdio.h>
#include <string.h>

#include "common/random.h"
#include "models/shards.h"
#include "tests/test.h"

enum { BATCH = 7, SLOTS = 4, COLUMNS = 12, IDS = 3, MOST = 4 };
static const uint32_t table_rows[SLOTS] = { 40, 6, 17, 90 };

static struct layer tables_layer(size_t ids, bool is_mean, bool has_weights)
{
    struct layer layer = { .name = "tables", .kind = &layer_tables, .index = 2,
                           .shape = { .batch = BATCH, .sequence = 1, .in = SLOTS * COLUMNS, .out = SLOTS * COLUMNS,
                                      .tables = { .slots = SLOTS, .columns = COLUMNS, .most = ids,
                                                  .is_mean = is_mean, .has_weights = has_weights } } };
    memcpy(layer.shape.tables.rows, table_rows, sizeof table_rows);
    return layer;
}

// --- parts -----------------------------------------------------------------------

// Each number of a table is in one part, or in that of each member.
static void expect_all_numbers(const char *words, size_t members)
{
    struct error error = { 0 };
    struct layer_shape shape = tables_layer(1, false, false).shape;
    shape.members = members;
    assert_good(table_places_read(words, members, "it", &shape.tables, &error), error);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        uint8_t seen[90 * COLUMNS] = { 0 };
        bool are_copies = false;
        for (size_t m = 0; m < members; m++) {
            struct table_part part;
            if (!table_part(&shape, slot, m, &part))
                continue;
            are_copies |= part.is_copy;
            assert_int_equal(part.units * shape.tables.places.unit, part.columns);
            for (size_t row = 0; row < part.rows; row++)
                for (size_t c = 0; c < part.columns; c++)
                    seen[(part.first_row + row * part.row_step) * COLUMNS + part.first_column + c]++;
        }
        for (size_t i = 0; i < (size_t)table_rows[slot] * COLUMNS; i++)
            assert_int_equal(seen[i], are_copies ? members : 1);
    }
}

static void parts_make_up_the_tables(void **state)
{
    (void)state;
    static const char *const words[] = { "all", "slots", "rows", "columns", "1", "0/rows/columns0+2/all",
                                         "rows0+1/rows1+2/columns1+2/2", "columns/columns0+1/all/0" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (size_t members = 3; members <= MOST; members++)
            expect_all_numbers(words[i], members);
}

static void expect_refused(const char *words, size_t members, const char *sentence)
{
    struct error error = { 0 };
    struct table_shape tables = tables_layer(1, false, false).shape.tables;
    assert_false(table_places_read(words, members, "it", &tables, &error));
    assert_error(error, sentence);
}

static void places_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    expect_refused("0/1", 2, "layer it: 2 places are named for 4 tables: name one for each, or one for all");
    expect_refused("columns", 5, "layer it: 12 columns of table 0 cannot be cut evenly over 5 devices: take another"
                   " number of devices, or cut it by rows");
    expect_refused("0/rows/0/0", 7, "layer it: 6 rows of table 1 are too few for 7 devices: place it on one, or on"
                   " all");
    expect_refused("0/0/rows1/0", 3, "layer it: table 2 is cut over 1 device: name two at least, or the device alone");
    static const char *const wrong[] = { "", "2", "-1", "0+1", "rows0+", "rows0+0", "columns0+2", "rows0 1", "alle",
                                         "0/0/0/", "everywhere", "99999999999999999999" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error error = { 0 };
        struct table_shape tables = tables_layer(1, false, false).shape.tables;
        assert_false(table_places_read(wrong[i], 2, "it", &tables, &error));
        assert_non_null(strstr(error.text, "say all, the number of a device, slots, rows or columns"));
    }
    struct table_shape large = { .slots = 2, .columns = 8, .rows = { 2000000000, 2000000000 } };
    struct error error = { 0 };
    assert_false(table_places_read("0", 2, "it", &large, &error));
    assert_non_null(strstr(error.text, "device 0 would hold tables of 4000000000 rows of 8 columns"));
    assert_true(table_places_read("0/1", 2, "it", &large, &(struct error){ 0 }));
}

// Behind the places may stand the rows for which a device has room. Here units have 6 columns, and member 0 has 40 * 2
// rows of table 0, half of the rows of table 1, and half of the columns of table 3.
static void room_for_rows_stands_behind_places(void **state)
{
    (void)state;
    static const char words[] = "0/rows/1/columns:host175";
    struct error error = { 0 };
    struct table_shape tables = tables_layer(1, false, false).shape.tables;
    assert_int_equal(table_places_room(words), 175);
    assert_good(table_places_read(words, 2, "it", &tables, &error), error);
    assert_int_equal(tables.room, 175);
    assert_int_equal(tables.places.unit, 6);
    expect_refused("0/rows/1/columns:host176", 2, "layer it: room for 176 rows of 6 columns on each device is as much"
                   " as one has of tables on the host (176): leave them on the devices");
    expect_refused("0/rows/all/1:host5", 2, "layer it: table 2 is on all devices, and tables on the host have each row"
                   " once: place it on one device, by rows or by columns");
    expect_refused("0/rows/1@host/columns", 2, "layer it: table 2 is on the host, and no device has room for its rows:"
                   " end the places with :host50000, for so many rows of units");
    struct layer layer = tables_layer(1, false, false);
    layer.shape.members = 2;
    assert_good(table_places_read("all/0@host/1/columns@host:host90", 2, "it", &layer.shape.tables, &error), error);
    for (size_t member = 0; member < 2; member++) {
        layer.shape.member = member;
        assert_int_equal(table_group_first(&layer, PART_ON_DEVICE), 40 * 2);
        assert_int_equal(table_group_first(&layer, PART_ON_HOST), 40 * 2 + (member == 1 ? 17 * 2 : 0));
    }
    static const char *const wrong[] = { "0:", "0:5", "0:host", "0:host0", "0:host05", "0:host5x", "0:host-5",
                                         "0:host5:host5", "0:host2147483648", "0:host99999999999999999999999" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error refused = { 0 };
        assert_false(table_places_read(wrong[i], 2, "it", &tables, &refused));
        assert_non_null(strstr(refused.text, "behind the places goes :host50000"));
    }
}

// --- passes ----------------------------------------------------------------------

// The ids of a micro-batch, by sample and slot.
struct samples {
    size_t counts[BATCH][SLOTS];
    uint32_t rows[BATCH][SLOTS][IDS];
    float weights[BATCH][SLOTS][IDS];
};

static void draw(struct samples *samples, size_t ids, uint64_t seed)
{
    for (size_t i = 0; i < BATCH; i++)
        for (size_t slot = 0; slot < SLOTS; slot++) {
            samples->counts[i][slot] = random_below(&seed, ids + 1);
            for (size_t k = 0; k < ids; k++) {
                samples->rows[i][slot][k] = (uint32_t)random_below(&seed, table_rows[slot]);
                samples->weights[i][slot][k] = (float)(1 + random_below(&seed, 7)) / 4;
            }
        }
}

// A layer with memory of its own, and the lists that it reads.
struct piece {
    struct layer layer;
    struct layer_sizes sizes;
    float *parameters, *gradients, *output, *output_gradient;
    void *saved, *held, *workspace;
    int32_t *rows, *ends;
    float *weights;
    size_t ids, lists;
};

struct stand {
    struct device *device;
    struct queue *queue;
    struct piece whole, members[MOST];
    size_t count;
};

static void *memory_of(const struct stand *s, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(s->device, bytes + 256, &error);
    assert_good(memory, error);
    memset(memory, 0xff, bytes + 256);  // NaNs: what nobody writes must not be read
    return memory;
}

static void piece_open(const struct stand *s, struct piece *piece)
{
    const struct layer_sizes sizes = piece->sizes = layer_sizes(&piece->layer);
    piece->parameters = memory_of(s, sizes.parameter_bytes);
    piece->gradients = memory_of(s, sizes.gradient_bytes);
    memset(piece->gradients, 0, sizes.gradient_bytes);
    piece->output = memory_of(s, sizes.output_bytes);
    piece->output_gradient = memory_of(s, sizes.output_bytes);
    piece->saved = memory_of(s, sizes.saved_bytes);
    piece->held = memory_of(s, sizes.held_for_weight_bytes);
    piece->workspace = memory_of(s, sizes.workspace_bytes + sizes.backward_workspace_bytes);
    piece->rows = memory_of(s, layer_most_ids(&piece->layer) * sizeof(int32_t));
    piece->ends = memory_of(s, layer_bags(&piece->layer) * sizeof(int32_t));
    piece->weights = memory_of(s, layer_most_ids(&piece->layer) * sizeof(float));
    layer_initialize(&piece->layer, s->queue, piece->parameters, 11);
}

static void piece_close(const struct stand *s, struct piece *piece)
{
    void *all[] = { piece->parameters, piece->gradients, piece->output, piece->output_gradient, piece->saved,
                    piece->held, piece->workspace, piece->rows, piece->ends, piece->weights };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(s->device, all[i]);
}

static struct layer_pass pass_of(const struct stand *s, struct piece *piece)
{
    return (struct layer_pass){
        .base = { .queue = s->queue, .parameters = piece->parameters, .gradients = piece->gradients,
                  .output = piece->output, .output_gradient = piece->output_gradient, .saved = piece->saved,
                  .held = piece->held, .workspace = piece->workspace },
        .training = true,
        .ids = { piece->rows, piece->ends, layer_weighs_ids(&piece->layer) ? piece->weights : NULL },
    };
}

// The lists as the header says them, one id at a time. Those of each unit that a member has a part of are for the
// samples of all members. Those of copied tables follow, for its own.
static void list_part(struct piece *piece, const struct samples *samples, size_t sample, size_t slot, size_t before,
                      const struct table_part *part)
{
    const struct table_shape *tables = &piece->layer.shape.tables;
    const size_t count = samples->counts[sample][slot];
    for (size_t unit = 0; unit < part->units; unit++) {
        for (size_t k = 0; k < count; k++) {
            const uint32_t row = samples->rows[sample][slot][k];
            if (row % part->row_step != part->first_row % part->row_step)
                continue;
            const float weight = samples->weights[sample][slot][k];
            piece->rows[piece->ids] = (int32_t)(before + row / part->row_step * part->units + unit);
            piece->weights[piece->ids++] = tables->has_weights ? weight : 1.0f / (float)count;
        }
        piece->ends[piece->lists++] = (int32_t)piece->ids;
    }
}

static void list_sample(struct piece *piece, const struct samples *samples, size_t sample, bool counts, bool are_copies)
{
    const struct table_shape *tables = &piece->layer.shape.tables;
    const size_t end = piece->lists + (are_copies ? tables->places.copied : tables->places.sent);
    size_t before = are_copies ? 0 : table_places_common(&piece->layer) / tables->places.unit;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct table_part part;
        if (!table_part(&piece->layer.shape, slot, piece->layer.shape.member, &part) || part.is_copy != are_copies)
            continue;
        if (counts)
            list_part(piece, samples, sample, slot, before, &part);
        before += part.rows * part.units;
    }
    while (piece->lists < end)
        piece->ends[piece->lists++] = (int32_t)piece->ids;
}

static void list_samples(struct piece *piece, const struct samples *samples, size_t member, bool are_copies)
{
    struct layer other = piece->layer;
    other.shape.member = member;
    const struct sample_share share = layer_samples(&other);
    for (size_t i = 0; i < piece->layer.shape.batch; i++)
        list_sample(piece, samples, share.first + i, i < share.count, are_copies);
}

static void list_whole(struct piece *piece, const struct samples *samples)
{
    for (size_t i = 0; i < BATCH; i++)
        for (size_t slot = 0, before = 0; slot < SLOTS; before += table_rows[slot++]) {
            for (size_t k = 0; k < samples->counts[i][slot]; k++) {
                piece->rows[piece->ids] = (int32_t)(before + samples->rows[i][slot][k]);
                piece->weights[piece->ids++] = samples->weights[i][slot][k];
            }
            piece->ends[piece->lists++] = (int32_t)piece->ids;
        }
}

static void stand_up(struct stand *s, const char *words, size_t members, struct layer whole, uint64_t seed)
{
    struct error error = { 0 };
    struct samples samples = { .counts = { { 0 } } };
    *s = (struct stand){ .count = members, .device = device_open(seed % 2 ? "cpu" : "cpu:queued", &error) };
    assert_good(s->device, error);
    s->queue = queue_create(s->device, &error);
    assert_good(s->queue, error);
    draw(&samples, whole.shape.tables.most, seed);
    s->whole.layer = whole;
    piece_open(s, &s->whole);
    list_whole(&s->whole, &samples);
    kernel_fill_normal(s->queue, (struct values *)(void *)s->whole.output_gradient, 0.7f, seed, 0,
                       (size_t)BATCH * SLOTS * COLUMNS);
    for (size_t m = 0; m < members; m++) {
        struct piece *member = &s->members[m];
        const struct sharding sharding = { .shards = members, .owns_rows = true, .places = words };
        assert_good(layer_shard(&whole, sharding, m, &member->layer, &error), error);
        piece_open(s, member);
        for (size_t from = 0; from < members; from++)
            list_samples(member, &samples, from, false);
        list_samples(member, &samples, m, true);
        assert_int_equal(member->lists, layer_bags(&member->layer));
    }
    assert_good(queue_wait(s->queue, &error), error);
    for (size_t m = 0; m < members; m++) {
        const struct sample_share share = layer_samples(&s->members[m].layer);
        memcpy(s->members[m].output_gradient, s->whole.output_gradient + share.first * SLOTS * COLUMNS,
               share.count * SLOTS * COLUMNS * sizeof(float));
    }
}

static void sit_down(struct stand *s)
{
    for (size_t m = 0; m < s->count; m++)
        piece_close(s, &s->members[m]);
    piece_close(s, &s->whole);
    queue_free(s->queue);
    device_close(s->device);
}

// With B at once, or as I and then W.
static void compute(struct stand *s, bool at_once)
{
    struct error error = { 0 };
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    const struct layer_pass pass = pass_of(s, &s->whole);
    layer_forward(&s->whole.layer, &pass);
    layer_backward(&s->whole.layer, &pass);
    for (size_t m = 0; m < s->count; m++) {
        layers[m] = s->members[m].layer;
        passes[m] = pass_of(s, &s->members[m]);
    }
    shards_forward(layers, passes, s->count);
    if (at_once) {
        shards_backward(layers, passes, s->count);
    } else {
        shards_backward_input(layers, passes, s->count);
        shards_backward_weight(layers, passes, s->count);
    }
    assert_good(queue_wait(s->queue, &error), error);
}

// Bit for bit. What a member has of a copied table is the gradient of its own samples: they are added up.
static void compare(const struct stand *s)
{
    float *joined = calloc(1, s->whole.sizes.gradient_bytes), *part = calloc(1, s->whole.sizes.gradient_bytes);
    const size_t all = s->whole.sizes.gradient_bytes / sizeof(float);
    assert_true(joined && part);
    for (size_t m = 0; m < s->count; m++) {
        const struct piece *member = &s->members[m];
        const struct sample_share share = layer_samples(&member->layer);
        assert_memory_equal(member->output, s->whole.output + share.first * SLOTS * COLUMNS,
                            share.count * SLOTS * COLUMNS * sizeof(float));
        shard_join(&member->layer, sizeof(float), member->parameters, joined);
        uint64_t first, end;
        shard_own_range(&member->layer, &first, &end);
        assert_int_equal(first, table_places_common(&member->layer));
        assert_int_equal(end, member->sizes.parameter_bytes / sizeof(float));
        assert_int_equal(member->sizes.parameter_bytes, s->members[0].sizes.parameter_bytes);
        shard_cut(&member->layer, sizeof(float), part, s->whole.parameters);
    }
    assert_memory_equal(joined, s->whole.parameters, s->whole.sizes.parameter_bytes);
    memset(joined, 0, s->whole.sizes.gradient_bytes);
    for (size_t m = 0; m < s->count; m++)
        shard_join(&s->members[m].layer, sizeof(float), s->members[m].gradients, joined);
    for (size_t i = 0, slot = 0, before = 0; i < all && slot < SLOTS; i++) {
        if (i == before + (size_t)table_rows[slot] * COLUMNS)
            before += (size_t)table_rows[slot++] * COLUMNS;
        if (slot < SLOTS && s->members[0].layer.shape.tables.places.of[slot].way != TABLE_ON_ALL
            && joined[i] != s->whole.gradients[i])
            fail_msg("gradient %zu of table %zu is %a, not %a", i - before, slot, (double)joined[i],
                     (double)s->whole.gradients[i]);
    }
    free(joined);
    free(part);
}

static void vectors_and_gradients_are_those_of_one_layer(void **state)
{
    (void)state;
    static const char *const words[] = { "slots", "columns", "0", "all", "columns0+2/1/all/columns" };
    for (uint64_t trial = 0; trial < 60; trial++) {
        struct stand s;
        stand_up(&s, words[trial % 5], 3, tables_layer(1 + trial % IDS, trial / 5 % 2, trial / 10 % 2), trial + 1);
        compute(&s, trial / 20 % 2);
        compare(&s);
        sit_down(&s);
    }
}

// Rows are dealt out, so that a sum over them is of one row's vector if there is one id, and else in another order.
static void rows_of_one_id_are_those_of_one_layer(void **state)
{
    (void)state;
    static const char *const words[] = { "rows", "rows0+1/rows/rows1+2/0", "rows0+2/columns/all/rows1+2" };
    for (uint64_t trial = 0; trial < 24; trial++) {
        struct stand s;
        stand_up(&s, words[trial % 3], 3, tables_layer(1, trial / 3 % 2, trial / 6 % 2), trial + 1);
        compute(&s, trial / 12 % 2);
        compare(&s);
        sit_down(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_up_the_tables),
        cmocka_unit_test(places_that_make_no_sense_are_refused),
        cmocka_unit_test(room_for_rows_stands_behind_places),
        cmocka_unit_test(vectors_and_gradients_are_those_of_one_layer),
        cmocka_unit_test(rows_of_one_id_are_those_of_one_layer),
    };
    return cmocka_run_group_tests_name("table_places", tests, NULL, NULL);
}
