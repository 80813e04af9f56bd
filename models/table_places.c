#include "models/table_places.h"

#include <stdlib.h>
#include <string.h>

// --- words -----------------------------------------------------------------------

enum { MOST_MEMBERS = 64 };

struct reading {
    const char *layer;
    size_t members, slot;
    struct table_shape *tables;
};

static bool refuse(const struct reading *reading, const char *word, size_t length, struct error *error)
{
    return error_set(error, "layer %s: table %zu cannot be placed by \"%.*s\" on %zu devices: say all, the number of a"
                     " device, slots, rows or columns, or rows0+1 with some of the devices", reading->layer,
                     reading->slot, (int)(length < 60 ? length : 60), word, reading->members);
}

static uint64_t everyone(size_t members)
{
    return members == MOST_MEMBERS ? UINT64_MAX : ((uint64_t)1 << members) - 1;
}

// Numbers of members with + between them, up to `end`; 0 if they are not that.
static uint64_t members_in(const char *words, const char *end, size_t members)
{
    uint64_t found = 0;
    while (words < end && *words >= '0' && *words <= '9') {
        char *behind;
        const unsigned long member = strtoul(words, &behind, 10);
        if (member >= members || (found >> member & 1))
            return 0;
        found |= (uint64_t)1 << member;
        if (behind == end)
            return found;
        if (*behind != '+')
            return 0;
        words = behind + 1;
    }
    return 0;
}

static bool begins(const char *word, size_t length, const char *name)
{
    return length >= strlen(name) && strncmp(word, name, strlen(name)) == 0;
}

static bool can_be_cut(const struct reading *reading, size_t parts, enum table_way way, struct error *error)
{
    const struct table_shape *tables = reading->tables;
    if (parts < 2)
        return error_set(error, "layer %s: table %zu is cut over %zu device: name two at least, or the device alone",
                         reading->layer, reading->slot, parts);
    if (way == TABLE_BY_ROWS && tables->rows[reading->slot] < parts)
        return error_set(error, "layer %s: %u rows of table %zu are too few for %zu devices: place it on one, or on"
                         " all", reading->layer, tables->rows[reading->slot], reading->slot, parts);
    return way == TABLE_BY_ROWS || tables->columns % parts == 0
        || error_set(error, "layer %s: %zu columns of table %zu cannot be cut evenly over %zu devices: take another"
                     " number of devices, or cut it by rows", reading->layer, tables->columns, reading->slot, parts);
}

static bool read_word(const struct reading *reading, const char *word, size_t length, bool has_room,
                      struct error *error)
{
    static const char mark[] = "@host";
    const size_t marked = sizeof mark - 1;
    const bool on_host = length > marked && strncmp(word + length - marked, mark, marked) == 0;
    if (on_host && !has_room)
        return error_set(error, "layer %s: table %zu is on the host, and no device has room for its rows: end the"
                         " places with :host50000, for so many rows of units", reading->layer, reading->slot);
    length -= on_host ? marked : 0;
    const bool by_rows = begins(word, length, "rows"), by_columns = begins(word, length, "columns");
    const size_t name = by_rows ? strlen("rows") : by_columns ? strlen("columns") : 0;
    const uint64_t some = members_in(word + name, word + length, reading->members);
    enum table_way way = TABLE_ON_ONE;
    uint64_t members = some;
    if (length == strlen("all") && begins(word, length, "all")) {
        way = TABLE_ON_ALL;
        members = everyone(reading->members);
    } else if (length == strlen("slots") && begins(word, length, "slots")) {
        members = (uint64_t)1 << reading->slot % reading->members;
    } else if (name > 0) {
        way = by_rows ? TABLE_BY_ROWS : TABLE_BY_COLUMNS;
        members = length == name ? everyone(reading->members) : some;
    }
    const size_t parts = (size_t)__builtin_popcountll(members);
    if (parts == 0 || (way == TABLE_ON_ONE && parts > 1))
        return refuse(reading, word, length, error);
    if (name > 0 && !can_be_cut(reading, parts, way, error))
        return false;
    reading->tables->places.of[reading->slot].way = way;
    reading->tables->places.of[reading->slot].members = members;
    reading->tables->places.of[reading->slot].on_host = on_host;
    return true;
}

// --- units -----------------------------------------------------------------------

static size_t part_columns(const struct table_shape *tables, size_t slot)
{
    const size_t parts = (size_t)__builtin_popcountll(tables->places.of[slot].members);
    return tables->places.of[slot].way == TABLE_BY_COLUMNS ? tables->columns / parts : tables->columns;
}

static void count_units(const struct reading *reading)
{
    struct table_shape *tables = reading->tables;
    struct table_places *places = &tables->places;
    bool are_dealt = false;
    for (size_t slot = 0; slot < tables->slots; slot++) {
        places->unit = greatest_common(places->unit, part_columns(tables, slot));
        are_dealt |= places->of[slot].way == TABLE_BY_ROWS;
    }
    places->weighs = tables->has_weights || (tables->is_mean && are_dealt);
    for (size_t member = 0; member < reading->members; member++) {
        size_t sent = 0;
        places->copied = 0;
        for (size_t slot = 0; slot < tables->slots; slot++) {
            const size_t units = part_columns(tables, slot) / places->unit;
            if (places->of[slot].way == TABLE_ON_ALL)
                places->copied += units;
            else if (places->of[slot].members >> member & 1)
                sent += units;
        }
        places->sent = sent > places->sent ? sent : places->sent;
    }
}

// Rows of units that a member has; on its host only, if that is asked for.
static uint64_t rows_of(const struct reading *reading, size_t member, bool on_host)
{
    const struct layer_shape shape = { .members = reading->members, .tables = *reading->tables };
    struct table_part part;
    uint64_t rows = 0;
    for (size_t slot = 0; slot < reading->tables->slots; slot++)
        if ((!on_host || reading->tables->places.of[slot].on_host) && table_part(&shape, slot, member, &part))
            rows += (uint64_t)part.rows * part.units;
    return rows;
}

static uint64_t most_rows(const struct reading *reading, bool on_host)
{
    uint64_t most = 0;
    for (size_t member = 0; member < reading->members; member++)
        most = max_u64(most, rows_of(reading, member, on_host));
    return most;
}

// A list of ids has 32 bits for each.
static bool can_be_named(const struct reading *reading, struct error *error)
{
    const struct table_shape *tables = reading->tables;
    for (size_t member = 0; member < reading->members; member++) {
        const uint64_t rows = rows_of(reading, member, false);
        if (rows > INT32_MAX)
            return error_set(error, "layer %s: device %zu would hold tables of %llu rows of %zu columns, and"
                             " 2,147,483,647 are possible: cut tables by rows, or all by columns", reading->layer,
                             member, (unsigned long long)rows, tables->places.unit);
    }
    return true;
}

size_t table_places_room(const char *words)
{
    static const char before[] = ":host";
    const char *behind = strchr(words, ':');
    char *end = NULL;
    unsigned long long room = 0;
    if (behind && strncmp(behind, before, strlen(before)) == 0 && behind[strlen(before)] >= '1'
        && behind[strlen(before)] <= '9')
        room = strtoull(behind + strlen(before), &end, 10);
    return end && *end == '\0' && room <= INT32_MAX ? room : 0;
}

// If no word says which tables are on the host, all are. Copies would have each row on the host several times.
static bool have_room(const struct reading *reading, size_t room, struct error *error)
{
    struct table_shape *tables = reading->tables;
    bool some = false;
    for (size_t slot = 0; slot < tables->slots; slot++)
        some |= tables->places.of[slot].on_host;
    for (size_t slot = 0; slot < tables->slots; slot++) {
        tables->places.of[slot].on_host |= !some;
        if (tables->places.of[slot].on_host && tables->places.of[slot].way == TABLE_ON_ALL)
            return error_set(error, "layer %s: table %zu is on all devices, and tables on the host have each row once:"
                             " place it on one device, by rows or by columns", reading->layer, slot);
    }
    const uint64_t most = most_rows(reading, true);
    if (room >= most)
        return error_set(error, "layer %s: room for %zu rows of %zu columns on each device is as much as one has of"
                         " tables on the host (%llu): leave them on the devices", reading->layer, room,
                         tables->places.unit, (unsigned long long)most);
    tables->room = room;
    return true;
}

bool table_places_read(const char *words, size_t members, const char *layer, struct table_shape *tables,
                       struct error *error)
{
    struct reading reading = { .layer = layer, .members = members, .tables = tables };
    const size_t all = strcspn(words, ":"), room = table_places_room(words);
    size_t word_count = 1;
    for (const char *c = words; c < words + all; c++)
        word_count += *c == '/';
    if (words[all] != '\0' && room == 0)
        return error_set(error, "layer %s: \"%.60s\" is no place of tables: behind the places goes :host50000, for room"
                         " for so many of their rows on each device", layer, words);
    if (word_count != 1 && word_count != tables->slots)
        return error_set(error, "layer %s: %zu places are named for %zu tables: name one for each, or one for all",
                         layer, word_count, tables->slots);
    if (members > MOST_MEMBERS)
        return error_set(error, "layer %s: tables have places on %d devices at most, not on %zu", layer, MOST_MEMBERS,
                         members);
    tables->places = (struct table_places){ .are_given = true };
    for (const char *word = words; reading.slot < tables->slots; reading.slot++) {
        const size_t length = strcspn(word, "/:");
        if (!read_word(&reading, word, length, room > 0, error))
            return false;
        word += word_count > 1 ? length + 1 : 0;
    }
    count_units(&reading);
    return can_be_named(&reading, error) && (room == 0 || have_room(&reading, room, error));
}

// --- parts -----------------------------------------------------------------------

bool table_part(const struct layer_shape *shape, size_t slot, size_t member, struct table_part *part)
{
    const struct table_shape *tables = &shape->tables;
    const uint64_t members = tables->places.of[slot].members;
    const enum table_way way = tables->places.of[slot].way;
    if (!(members >> member & 1))
        return false;
    const size_t parts = (size_t)__builtin_popcountll(members);
    const size_t number = (size_t)__builtin_popcountll(members & (((uint64_t)1 << member) - 1));
    *part = (struct table_part){ .rows = tables->rows[slot], .row_step = 1, .columns = part_columns(tables, slot),
                                 .is_copy = way == TABLE_ON_ALL, .number = (uint32_t)number };
    part->units = part->columns / tables->places.unit;
    if (way == TABLE_BY_COLUMNS)
        part->first_column = number * part->columns;
    if (way == TABLE_BY_ROWS) {
        part->first_row = number;
        part->row_step = parts;
        part->rows = (tables->rows[slot] - number + parts - 1) / parts;
    }
    return true;
}

static bool own_part(const struct layer *layer, size_t slot, struct table_part *part)
{
    return table_part(&layer->shape, slot, layer->shape.member, part);
}

enum part_group table_part_group(const struct layer_shape *shape, size_t slot)
{
    if (shape->tables.places.of[slot].on_host)
        return PART_ON_HOST;
    return shape->tables.places.of[slot].way == TABLE_ON_ALL ? PART_COPIED : PART_ON_DEVICE;
}

size_t table_group_first(const struct layer *layer, enum part_group group)
{
    const struct layer_shape *shape = &layer->shape;
    struct table_part part;
    size_t first = 0;
    for (size_t slot = 0; slot < shape->tables.slots && !shape->tables.places.only_host; slot++)
        if (table_part_group(shape, slot) < group && own_part(layer, slot, &part))
            first += part.rows * part.units;
    return first;
}

size_t table_places_common(const struct layer *layer)
{
    return table_group_first(layer, PART_ON_DEVICE) * layer->shape.tables.places.unit;
}

void placed_tensors(const struct layer *layer, const char *const *names, struct tensor *tensors, size_t *count)
{
    const struct table_shape *tables = &layer->shape.tables;
    const enum part_group first = tables->places.only_host ? PART_ON_HOST : PART_COPIED;
    const enum part_group last = tables->room > 0 ? PART_ON_DEVICE : PART_ON_HOST;
    struct table_part part;
    for (enum part_group group = first; group <= last; group++)
        for (size_t slot = 0; slot < tables->slots; slot++)
            if (table_part_group(&layer->shape, slot) == group && own_part(layer, slot, &part))
                tensor_add(tensors, count, (struct tensor){
                    .name = names[slot], .number = slot, .rows = part.rows, .columns = part.columns,
                    .adjoins = *count > 0, .split = part.is_copy ? SPLIT_NONE : SPLIT_PIECE,
                    .piece = { part.first_row, part.row_step, part.first_column, tables->columns },
                });
}

// --- memory ----------------------------------------------------------------------
//
//     vectors    for each member, those of its samples, which are sent; then those of copied tables
//     received   from each member, those of this member's samples
//     partial    two outputs of one table, to add up parts by rows
//
// An exchange behind the tables has the vectors as its input, and the gradient of them likewise. If they come as a
// message, that is what this member has received.

struct vectors {
    struct values *vectors, *received, *partial;
};

static size_t partial(const struct layer *layer)
{
    return layer->shape.batch * layer->shape.tables.columns;
}

size_t placed_share(const struct layer *layer)
{
    return layer->shape.batch * layer->shape.tables.places.sent * layer->shape.tables.places.unit;
}

static size_t shares(const struct layer *layer)
{
    return layer->shape.members * placed_share(layer);
}

size_t placed_numbers(const struct layer *layer)
{
    return shares(layer) + layer->shape.batch * layer->shape.tables.places.copied * layer->shape.tables.places.unit;
}

size_t placed_bags(const struct layer *layer)
{
    const struct table_places *places = &layer->shape.tables.places;
    return layer->shape.batch * (layer->shape.members * places->sent + places->copied);
}

struct bags placed_bags_of(const struct layer *layer, struct bags bags)
{
    const struct table_shape *tables = &layer->shape.tables;
    struct table_part part;
    bags.columns = tables->places.unit;
    bags.is_mean &= tables->has_weights || !tables->places.weighs;
    for (size_t slot = 0; slot < tables->slots; slot++)
        bags.rows += own_part(layer, slot, &part) ? part.rows * part.units : 0;
    if (tables->room > 0)
        bags.rows = table_group_first(layer, PART_ON_HOST) + tables->room;
    return bags;
}

static bool is_behind_tables(const struct layer *layer)
{
    return layer->kind->data != DATA_IDS;
}

static struct vectors vectors_in(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    struct vectors vectors = { .vectors = (struct values *)(uintptr_t)pass->base.input };
    if (!is_behind_tables(layer))
        vectors.vectors = walk_values(walk, layer, placed_numbers(layer));
    vectors.received = walk_values(walk, layer, shares(layer));
    if (layer->shape.tables.is_message)
        vectors.received = vectors.vectors;
    vectors.partial = walk_values(walk, layer, 2 * partial(layer));
    return vectors;
}

uint64_t placed_forward_bytes(const struct layer *layer)
{
    const struct layer_pass nowhere = { .base = { .queue = NULL } };
    struct walk walk = { 0 };
    vectors_in(layer, &nowhere, &walk);
    return walk.bytes;
}

uint64_t placed_input_bytes(const struct layer *layer)
{
    return layer_bytes(layer, shares(layer));
}

uint64_t placed_held_bytes(const struct layer *layer)
{
    return layer_bytes(layer, placed_numbers(layer));
}

size_t placed_touched_rows(const struct layer *layer)
{
    const struct layer_shape *shape = &layer->shape;
    return shape->batch * shape->members * shape->tables.places.sent * shape->tables.most;
}

// --- passes ----------------------------------------------------------------------

static struct vectors vectors_of(const struct layer *layer, const struct layer_pass *pass)
{
    return vectors_in(layer, pass, &(struct walk){ pass->base.workspace, 0 });
}

static struct shard_part to_all(const struct layer *layer, void *sent, void *received)
{
    return (struct shard_part){ .numbers = sent, .count = layer->shape.tables.is_message ? 0 : shares(layer),
                                .are_floats = true, .exchange = SHARD_ALL_TO_ALL, .received = received };
}

void placed_forward(const struct layer *layer, const struct layer_pass *pass, const struct bags *bags)
{
    kernel_bag(pass->base.queue, bags, vectors_of(layer, pass).vectors, pass->base.parameters);
}

struct shard_part placed_vectors(const struct layer *layer, const struct layer_pass *pass)
{
    const struct vectors vectors = vectors_of(layer, pass);
    return to_all(layer, vectors.vectors, vectors.received);
}

// The vectors of one part, as they lie among those of a sample.
struct columns {
    struct values *first;
    size_t stride, count;
};

// Calls `visit` with each part, and with two places of its vectors. One is within what is exchanged with its member, or
// behind that if it is a copy. The other is within the output. Parts of one table follow one another.
typedef void visit_part(void *self, const struct table_part *part, struct columns exchanged, struct columns output);

static void visit_parts(const struct layer *layer, struct values *exchanged, struct values *copies,
                        struct values *output, visit_part *visit, void *self)
{
    const struct table_shape *tables = &layer->shape.tables;
    const size_t unit = tables->places.unit, sent = tables->places.sent * unit, copied = tables->places.copied * unit;
    size_t used[MOST_MEMBERS] = { 0 }, used_copied = 0;
    for (size_t slot = 0; slot < tables->slots; slot++)
        for (size_t member = 0; member < layer->shape.members; member++) {
            struct table_part part;
            if (!table_part(&layer->shape, slot, member, &part) || (part.is_copy && member > 0))
                continue;
            size_t *at = part.is_copy ? &used_copied : &used[member];
            struct values *first = part.is_copy
                ? values_at(copies, PRECISION_FP32, *at)
                : values_at(exchanged, PRECISION_FP32, member * placed_share(layer) + *at);
            *at += part.columns;
            visit(self, &part, (struct columns){ first, part.is_copy ? copied : sent, part.columns },
                  (struct columns){ values_at(output, PRECISION_FP32, slot * tables->columns + part.first_column),
                                    tables->slots * tables->columns, part.columns });
        }
}

struct assembling {
    struct queue *queue;
    const struct layer *layer;
    struct values *sum, *next;  // of parts by rows
};

static void copy(const struct assembling *assembling, struct columns to, struct columns from)
{
    kernel_copy_columns(assembling->queue, to.first, from.first, assembling->layer->shape.batch, to.count, to.stride,
                        from.stride);
}

// Partial sums of a table that is dealt out by rows are added up in the order of members.
static void assemble(void *self, const struct table_part *part, struct columns received, struct columns output)
{
    const struct assembling *assembling = self;
    const struct columns sum = { assembling->sum, part->columns, part->columns };
    const struct columns next = { assembling->next, part->columns, part->columns };
    if (part->row_step == 1) {
        copy(assembling, output, received);
        return;
    }
    copy(assembling, part->number == 0 ? sum : next, received);
    if (part->number > 0)
        kernel_add(assembling->queue, sum.first, sum.first, next.first, partial(assembling->layer));
    if (part->number + 1 == part->row_step)
        copy(assembling, output, sum);
}

void placed_assemble(const struct layer *layer, const struct layer_pass *pass)
{
    const struct vectors vectors = vectors_of(layer, pass);
    struct assembling assembling = { pass->base.queue, layer, vectors.partial,
                                     values_at(vectors.partial, PRECISION_FP32, partial(layer)) };
    visit_parts(layer, vectors.received, values_at(vectors.vectors, PRECISION_FP32, shares(layer)), pass->base.output,
                assemble, &assembling);
}

static void spread(void *self, const struct table_part *part, struct columns sent, struct columns gradient)
{
    (void)part;
    copy(self, sent, gradient);
}

// The gradient of the vectors that this member has looked up: what W needs of other members, and behind that its own of
// copied tables.
static void *vectors_gradient(const struct layer *layer, const struct layer_pass *pass)
{
    return is_behind_tables(layer) ? pass->base.input_gradient : pass->base.held;
}

void placed_spread_gradient(const struct layer *layer, const struct layer_pass *pass)
{
    struct assembling assembling = { .queue = pass->base.queue, .layer = layer };
    void *gradient = vectors_gradient(layer, pass);
    visit_parts(layer, layer->shape.tables.is_message ? gradient : pass->base.workspace,
                values_at(gradient, PRECISION_FP32, shares(layer)),
                (struct values *)(uintptr_t)pass->base.output_gradient, spread, &assembling);
}

struct shard_part placed_gradients(const struct layer *layer, const struct layer_pass *pass)
{
    return to_all(layer, pass->base.workspace, vectors_gradient(layer, pass));
}
