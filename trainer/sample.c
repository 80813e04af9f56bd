#include "trainer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "device/device_names.h"
#include "device/half.h"
#include "trainer/held_out.h"

enum { BYTES = 256 };

// A text as long as the model's sequence, used like held-out text. Positions after the bytes so far do not matter,
// since no earlier position depends on them.
struct text_window {
    struct text_data data;
    size_t length;  // of the model's sequence
};

static bool window_open(struct text_window *window, size_t length, struct error *error)
{
    window->length = length;
    window->data = (struct text_data){ .held = calloc(length + 1, sizeof(uint16_t)), .held_count = length + 1,
                                       .vocabulary = BYTES };
    return window->data.held || error_no_memory(error, "a text");
}

// Puts the last bytes of a text into the window; returns the position of the last one.
static size_t window_put(struct text_window *window, const struct text *text)
{
    const size_t count = text->length < window->length ? text->length : window->length;
    memset(window->data.held, 0, (window->length + 1) * sizeof window->data.held[0]);
    for (size_t i = 0; i < count; i++)
        window->data.held[i] = (unsigned char)text->data[text->length - count + i];
    return count - 1;
}

static unsigned likeliest(const double logits[BYTES])
{
    unsigned best = 0;
    for (unsigned i = 1; i < BYTES; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static unsigned draw(const double logits[BYTES], double temperature, uint64_t *seed)
{
    const unsigned best = likeliest(logits);
    double weights[BYTES], sum = 0;
    if (temperature == 0)
        return best;
    for (unsigned i = 0; i < BYTES; i++)
        sum += weights[i] = exp((logits[i] - logits[best]) / temperature);
    double left = random_unit(seed) * sum;
    for (unsigned i = 0; i < BYTES; i++) {
        left -= weights[i];
        if (left < 0)
            return i;
    }
    return best;  // only after a rounding error at the end
}

static bool draw_all(const struct held_out *held, struct text_window *window, const struct sample_settings *settings,
                     struct text *text, struct error *error)
{
    const struct model *model = held->model;
    const struct layer *head = &model->layers[model->layer_count - 1];
    struct text all = { 0 };
    uint64_t seed = settings->seed;
    bool good = true;
    text_add(&all, "%s", settings->prompt);
    for (size_t i = 0; good && !all.failed && i < settings->tokens; i++) {
        const size_t row = window_put(window, &all);
        double logits[BYTES];
        float loss;
        good = twin_loss(held->twin, 0, 0, &loss, error);
        const struct values *found = layer_logits(head, twin_saved(held->twin, model->layer_count - 1), row);
        for (size_t b = 0; good && b < BYTES; b++)
            logits[b] = (double)number_of(found, model->sizes.precision, b);
        if (good && !isfinite(logits[likeliest(logits)]))
            good = error_set_kind(error, ERROR_ANSWER, "the model's logits are no numbers");
        if (good)
            text_add_bytes(&all, &(char){ (char)draw(logits, settings->temperature, &seed) }, 1);
    }
    good = good && text_ok(&all, "a text", error);
    if (good)
        text_add_bytes(text, all.data + strlen(settings->prompt), all.length - strlen(settings->prompt));
    text_clear(&all);
    return good;
}

bool sample_text(const struct kept_model *kept, const struct sample_settings *settings, struct text *text,
                 struct error *error)
{
    struct model_sizes sizes = kept->model->sizes;
    struct held_out held = { 0 };
    struct text_window window = { 0 };
    if (kept->model->family != FAMILY_TEXT)
        return error_set(error, "model %s is of %s, and writes no text", kept->model->name,
                         kept->model->family == FAMILY_PICTURES ? "pictures" : "clicks");
    if (kept->model->vocabulary != BYTES)
        return error_set(error, "model %s is of %zu tokens, and only those of bytes write text here", kept->model->name,
                         kept->model->vocabulary);
    sizes.micro_batch = 1;
    struct model *model = model_create(kept->model->name, &sizes, error);
    struct device *device = model ? device_open(device_name_in(sizes.precision), error) : NULL;
    bool good = device && window_open(&window, sizes.sequence, error)
             && held_out_open(&held, model, device, &window.data, 0, error);
    if (good)
        kept_model_put(kept, held.twin);
    good = good && draw_all(&held, &window, settings, text, error);
    held_out_close(&held);
    device_close(device);
    model_free(model);
    free(window.data.held);
    return good;
}
