#include "trainer/data/click_fields.h"

#include <math.h>
#include <string.h>

const char *const click_splits[] = { [CLICK_SPLIT_RANDOM] = "random", [CLICK_SPLIT_LAST] = "last",
                                     [CLICK_SPLIT_TIME] = "time", NULL };

// Samples are read where they lie in the file, which has the lower byte first.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "clicks are read in place");

// --- where things are ----------------------------------------------------------------------

// Puts a part behind the others.
static bool lay(struct click_layout *layout, uint64_t *first, uint64_t samples, uint64_t each, uint64_t bytes)
{
    uint64_t all;
    *first = layout->bytes;
    return !__builtin_mul_overflow(samples, each * bytes, &all)
        && !__builtin_add_overflow(layout->bytes, all, &layout->bytes) && layout->bytes <= JSON_MAX;
}

bool click_layout_find(const struct click_fields *fields, uint64_t samples, struct click_layout *layout)
{
    *layout = (struct click_layout){ 0 };
    return lay(layout, &layout->starts, samples, 1, sizeof(uint64_t))
        && lay(layout, &layout->numbers, samples, fields->number_count, sizeof(float))
        && lay(layout, &layout->ends, samples, fields->slot_count, sizeof(uint32_t))
        && lay(layout, &layout->ids, fields->occurrences, 1, sizeof(uint32_t))
        && lay(layout, &layout->labels, samples, 1, 1);
}

// --- the document ----------------------------------------------------------------------------

static void read_numbers(struct json *root, struct click_fields *fields)
{
    struct json list = json_array(root, "numbers"), item;
    while (json_next(&list, &item)) {
        if (fields->number_count == CLICK_NUMBERS) {
            json_refuse(&list, "has more than %d numbers", CLICK_NUMBERS);
            return;
        }
        const char *name = json_item_string(&item);
        if (strlen(name) >= CLICK_NAME) {
            json_refuse(&item, "has more than %d bytes", CLICK_NAME - 1);
            return;
        }
        strcpy(fields->numbers[fields->number_count], name);
        for (size_t i = 0; i < fields->number_count; i++)
            if (strcmp(fields->numbers[i], name) == 0)
                json_refuse(&item, "is the name of two numbers");
        fields->number_count++;
    }
}

static void read_slots(struct json *root, struct click_fields *fields)
{
    struct json list = json_array(root, "slots"), object;
    while (json_next(&list, &object)) {
        if (fields->slot_count == CLICK_SLOTS) {
            json_refuse(&list, "has more than %d slots", CLICK_SLOTS);
            return;
        }
        struct click_slot *slot = &fields->slots[fields->slot_count];
        json_string_into(&object, "name", slot->name, sizeof slot->name);
        slot->ids = json_u64(&object, "ids", 1, (uint64_t)UINT32_MAX + 1);
        slot->most = json_u64(&object, "most", 1, UINT32_MAX);
        json_end(&object);
        for (size_t i = 0; i < fields->slot_count; i++)
            if (strcmp(fields->slots[i].name, slot->name) == 0)
                json_refuse_key(&object, "name", "is the name of two slots");
        fields->slot_count++;
    }
    if (fields->slot_count == 0)
        json_refuse(&list, "clicks have at least one slot");
}

void click_fields_read(struct json *root, struct click_fields *fields)
{
    fields->split = (enum click_split)json_choice(root, "split", click_splits);
    fields->is_generated = json_has(root, "seed");
    if (fields->is_generated) {
        fields->seed = json_u64(root, "seed", 0, JSON_MAX);
        fields->best_auc_ppm = (uint32_t)json_u64(root, "best_auc_ppm", 0, 1000000);
    }
    read_numbers(root, fields);
    read_slots(root, fields);
    fields->occurrences = json_u64(root, "occurrences", 0, JSON_MAX / 8);
}

void click_fields_put(const struct click_fields *fields, struct json_writer *writer)
{
    json_put_string(writer, "split", click_splits[fields->split]);
    if (fields->is_generated) {
        json_put_u64(writer, "seed", fields->seed);
        json_put_u64(writer, "best_auc_ppm", fields->best_auc_ppm);
    }
    json_begin_array(writer, "numbers", JSON_INLINE);
    for (size_t i = 0; i < fields->number_count; i++)
        json_put_string(writer, NULL, fields->numbers[i]);
    json_close(writer);
    json_begin_array(writer, "slots", JSON_LINES);
    for (size_t s = 0; s < fields->slot_count; s++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "name", fields->slots[s].name);
        json_put_u64(writer, "ids", fields->slots[s].ids);
        json_put_u64(writer, "most", fields->slots[s].most);
        json_close(writer);
    }
    json_close(writer);
    json_put_u64(writer, "occurrences", fields->occurrences);
}

// --- the numbers -----------------------------------------------------------------------------

static bool check_sample(const struct click_fields *fields, uint64_t number, const uint32_t *ids, const uint32_t *ends,
                         const char *path, struct error *error)
{
    for (size_t s = 0; s < fields->slot_count; s++) {
        const struct click_slot *slot = &fields->slots[s];
        const uint32_t first = s > 0 ? ends[s - 1] : 0;
        if (ends[s] - first > slot->most)
            return error_named(error, "%s: sample %llu has %u ids in slot %s, and its document says at most %llu", path,
                               (unsigned long long)number, ends[s] - first, slot->name, (unsigned long long)slot->most);
        for (uint32_t i = first; i < ends[s]; i++)
            if (ids[i] >= slot->ids)
                return error_named(error, "%s: sample %llu has id %u in slot %s, and its document says that all are"
                                   " below %llu", path, (unsigned long long)number, ids[i], slot->name,
                                   (unsigned long long)slot->ids);
    }
    return true;
}

// Whether each sample's ids begin where those of the sample before it end, and the last end with the part.
static bool check_ends(const struct click_fields *fields, uint64_t samples, const uint64_t *starts,
                       const uint32_t *ends, const char *path, struct error *error)
{
    uint64_t start = 0;
    for (uint64_t i = 0; i < samples; i++) {
        const uint32_t *own = ends + i * fields->slot_count;
        bool good = starts[i] == start;
        for (size_t s = 1; s < fields->slot_count; s++)
            good = good && own[s - 1] <= own[s];
        start += own[fields->slot_count - 1];
        if (!good || start > fields->occurrences)
            return error_named(error, "%s: the ids of sample %llu do not begin and end among its document's %llu", path,
                               (unsigned long long)i, (unsigned long long)fields->occurrences);
    }
    return start == fields->occurrences
        || error_named(error, "%s: its samples have %llu ids, and its document says %llu", path,
                       (unsigned long long)start, (unsigned long long)fields->occurrences);
}

bool click_fields_check(const struct click_fields *fields, uint64_t samples, const unsigned char *bytes,
                        const char *path, struct error *error)
{
    struct click_layout layout;
    if (!click_layout_find(fields, samples, &layout))
        return error_named(error, "%s: its numbers are too many to count", path);
    const uint64_t *starts = (const void *)(bytes + layout.starts);
    const float *numbers = (const void *)(bytes + layout.numbers);
    const uint32_t *ends = (const void *)(bytes + layout.ends), *ids = (const void *)(bytes + layout.ids);
    if (!check_ends(fields, samples, starts, ends, path, error))
        return false;
    for (uint64_t i = 0; i < samples; i++) {
        for (size_t n = 0; n < fields->number_count; n++)
            if (!isfinite(numbers[i * fields->number_count + n]))
                return error_named(error, "%s: %s of sample %llu is no finite number", path, fields->numbers[n],
                                   (unsigned long long)i);
        if (bytes[layout.labels + i] > 1)
            return error_named(error, "%s: the label of sample %llu is %u, and is 0 or 1", path, (unsigned long long)i,
                               bytes[layout.labels + i]);
        if (!check_sample(fields, i, ids + starts[i], ends + i * fields->slot_count, path, error))
            return false;
    }
    return true;
}
