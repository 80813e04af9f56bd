#include "trainer/majority.h"

double majority_right(const struct sample_data *data, uint64_t classes)
{
    uint64_t counts[65536] = { 0 }, most = 0, right = 0;
    int32_t label;
    for (uint64_t i = 0; i < data->train; i++) {
        sample_data_targets(data, (struct sample_place){ i, 0 }, 0, NULL, &label);
        counts[label]++;
    }
    for (uint64_t k = 0; k < classes; k++)
        most = counts[k] > counts[most] ? k : most;
    for (uint64_t i = 0; i < data->held; i++) {
        sample_data_targets(data, sample_data_held_place(data, i), 0, NULL, &label);
        right += (uint64_t)label == most;
    }
    return (double)right / (double)data->held;
}
