#include "trainer/data/click_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"

void click_writer_add_number(struct click_writer *writer, const char *name)
{
    assert(writer->fields.number_count < CLICK_NUMBERS);
    snprintf(writer->fields.numbers[writer->fields.number_count++], CLICK_NAME, "%s", name);
}

void click_writer_add_slot(struct click_writer *writer, const char *name, uint64_t ids)
{
    assert(writer->fields.slot_count < CLICK_SLOTS);
    struct click_slot *slot = &writer->fields.slots[writer->fields.slot_count++];
    snprintf(slot->name, sizeof slot->name, "%s", name);
    slot->ids = ids;
    slot->most = 1;
}

void click_writer_add_numbered(struct click_writer *writer, uint64_t numbers, uint64_t slots, uint64_t ids)
{
    char name[CLICK_NAME];
    for (uint64_t n = 1; n <= numbers; n++) {
        snprintf(name, sizeof name, "I%u", (unsigned)n);
        click_writer_add_number(writer, name);
    }
    for (uint64_t s = 1; s <= slots; s++) {
        snprintf(name, sizeof name, "C%u", (unsigned)s);
        click_writer_add_slot(writer, name, ids);
    }
}

static void add(struct text *text, const void *from, size_t bytes)
{
    text_add_bytes(text, from, bytes);
}

void click_writer_add(struct click_writer *writer, const struct click_sample *sample)
{
    struct click_fields *fields = &writer->fields;
    const char label = (char)sample->label;
    uint32_t first = 0;
    for (size_t s = 0; s < fields->slot_count; s++) {
        fields->slots[s].most = max_u64(fields->slots[s].most, sample->ends[s] - first);
        first = sample->ends[s];
    }
    fields->occurrences += first;
    add(&writer->numbers, sample->numbers, fields->number_count * sizeof sample->numbers[0]);
    add(&writer->ends, sample->ends, fields->slot_count * sizeof sample->ends[0]);
    add(&writer->ids, sample->ids, first * sizeof sample->ids[0]);
    add(&writer->labels, &label, 1);
    writer->samples++;
}

static uint64_t *starts_of(const struct click_writer *writer)
{
    const size_t slots = writer->fields.slot_count;
    const uint32_t *ends = (const void *)writer->ends.data;
    uint64_t *starts = malloc((writer->samples + 1) * sizeof *starts);
    for (uint64_t i = 0, start = 0; starts && i < writer->samples; i++) {
        starts[i] = start;
        start += ends[i * slots + slots - 1];
    }
    return starts;
}

bool click_writer_save(struct click_writer *writer, const char *kind, const char *licence, uint64_t train,
                       const char *path, struct error *error)
{
    const bool is_whole = !writer->numbers.failed && !writer->ends.failed && !writer->ids.failed
                       && !writer->labels.failed;
    uint64_t *starts = is_whole ? starts_of(writer) : NULL;
    if (!starts)
        return error_no_memory(error, "samples of clicks");
    struct sample_data data = { .train = train, .held = writer->samples - train, .clicks = writer->fields };
    snprintf(data.kind, sizeof data.kind, "%s", kind);
    snprintf(data.licence, sizeof data.licence, "%s", licence);
    const struct output_part parts[] = {
        { starts, writer->samples * sizeof *starts },
        { writer->numbers.data, writer->numbers.length },
        { writer->ends.data, writer->ends.length },
        { writer->ids.data, writer->ids.length },
        { writer->labels.data, writer->labels.length },
    };
    const bool good = sample_data_save(&data, parts, sizeof parts / sizeof parts[0], path, error);
    free(starts);
    return good;
}

void click_writer_clear(struct click_writer *writer)
{
    text_clear(&writer->numbers);
    text_clear(&writer->ends);
    text_clear(&writer->ids);
    text_clear(&writer->labels);
}
