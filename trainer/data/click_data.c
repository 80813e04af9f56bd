#include "trainer/data/click_data.h"

#include <assert.h>

void click_data_at(const struct sample_data *data, struct sample_place place, struct click_sample *sample)
{
    const struct click_fields *fields = &data->clicks;
    const unsigned char *bytes = data->numbers;
    struct click_layout layout;
    const bool is_counted = click_layout_find(fields, data->train + data->held, &layout);
    assert(is_counted && place.sample < data->train + data->held);
    (void)is_counted;
    const uint64_t *starts = (const void *)(bytes + layout.starts);
    *sample = (struct click_sample){
        .label = bytes[layout.labels + place.sample],
        .numbers = (const float *)(const void *)(bytes + layout.numbers) + place.sample * fields->number_count,
        .ids = (const uint32_t *)(const void *)(bytes + layout.ids) + starts[place.sample],
        .ends = (const uint32_t *)(const void *)(bytes + layout.ends) + place.sample * fields->slot_count,
    };
}

bool sample_data_click(const struct sample_data *data, bool held_out, uint64_t number, struct click_sample *sample)
{
    if (data->clicks.slot_count == 0 || number >= (held_out ? data->held : data->train))
        return false;
    click_data_at(data, (struct sample_place){ held_out ? data->train + number : number, 0 }, sample);
    return true;
}

size_t click_data_slots(const struct sample_data *data)
{
    return data->clicks.slot_count;
}

size_t click_data_numbers(const struct sample_data *data)
{
    return data->clicks.number_count;
}

const char *click_data_slot_name(const struct sample_data *data, size_t slot)
{
    assert(slot < data->clicks.slot_count);
    return data->clicks.slots[slot].name;
}

uint64_t click_data_ids(const struct sample_data *data, size_t slot)
{
    assert(slot < data->clicks.slot_count);
    return data->clicks.slots[slot].ids;
}

uint64_t click_data_most(const struct sample_data *data, size_t slot)
{
    assert(slot < data->clicks.slot_count);
    return data->clicks.slots[slot].most;
}

uint64_t click_data_positives(const struct sample_data *data, bool held_out)
{
    uint64_t positives = 0;
    struct click_sample sample;
    for (uint64_t i = 0; sample_data_click(data, held_out, i, &sample); i++)
        positives += (uint64_t)sample.label;
    return positives;
}
