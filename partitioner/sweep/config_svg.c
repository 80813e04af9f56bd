// Draws a sweep over configurations as a picture. Each planned configuration is a dot, and a staircase joins those
// that are the quickest in their memory.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/sweep/config_sweep.h"
#include "partitioner/sweep/front_axes.h"
#include "schedules/pictures/drawing.h"

static void draw_head(const struct config_sweep *sweep, struct text *text)
{
    const struct config_request *request = &sweep->request;
    front_axes_head(text);
    text_add(text, "<text x=\"%d\" y=\"34\" font-size=\"18\" fill=\"#111\">", AXES_LEFT);
    drawing_escape(request->model->name, text);
    text_add(text, " on %u ", request->devices);
    drawing_escape(request->device->name, text);
    text_add(text,
             ": time against memory</text>\n<text x=\"%d\" y=\"56\" class=\"mark\">An iteration of %llu sequences of"
             " %llu tokens, estimated. A dot is a configuration that was planned; full where nothing is as quick in"
             " its memory.</text>\n",
             AXES_LEFT, (unsigned long long)request->global_batch, (unsigned long long)request->how.sequence);
}

static void draw_dot(const struct front_axes *axes, const struct config_row *row, struct text *text)
{
    char peak[NUMBER_SIZE], time[NUMBER_SIZE];
    text_add(text, "<circle r=\"%s\" stroke-width=\"1.4\" stroke=\"#922a74\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\">",
             row->is_on_front ? "4.8" : "3", row->is_on_front ? "#922a74" : "#fff",
             front_axes_x(axes, (double)row->peak_bytes), front_axes_y(axes, (double)row->iteration_ns));
    text_add(text,
             "<title>tensor %u, context %u, expert %u, pipeline %u, data %u, as %s, shared: %s; %u x %u by %s, %u: %s"
             " in %s</title></circle>\n",
             row->tensor, row->context, row->expert, row->ranks, row->data, config_placement_names[row->placement],
             estimate_shard_words[row->shard], row->micro_batches, row->micro_batch, row->schedule, row->chunks,
             time_format(row->iteration_ns, time), bytes_format(row->peak_bytes, peak));
}

static int by_time(const void *a, const void *b)
{
    const struct config_row *const *x = a, *const *y = b;
    if ((*x)->iteration_ns != (*y)->iteration_ns)
        return (*x)->iteration_ns < (*y)->iteration_ns ? -1 : 1;
    return (*x)->peak_bytes < (*y)->peak_bytes ? -1 : (*x)->peak_bytes > (*y)->peak_bytes;
}

// From ample memory, at the right edge, down to the least.
static void draw_stair(const struct front_axes *axes, const struct config_row *const *front, size_t count,
                       struct text *text)
{
    text_add(text, "<path class=\"stair\" stroke=\"#922a74\" d=\"M%d,%.1f", AXES_LEFT + AXES_WIDTH,
             front_axes_y(axes, (double)front[0]->iteration_ns));
    for (size_t i = 0; i < count; i++) {
        text_add(text, "H%.1f", front_axes_x(axes, (double)front[i]->peak_bytes));
        if (i + 1 < count)
            text_add(text, "V%.1f", front_axes_y(axes, (double)front[i + 1]->iteration_ns));
    }
    text_add(text, "\"/>\n");
}

void config_draw(const struct config_sweep *sweep, struct text *text)
{
    struct front_axes axes = front_axes_begin();
    const struct config_row **front = calloc(sweep->count + 1, sizeof front[0]);
    size_t count = 0;
    if (!front) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        if (row->outcome == CONFIG_PLANNED)
            front_axes_stretch(&axes, (double)row->peak_bytes, (double)row->iteration_ns);
        if (row->is_on_front)
            front[count++] = row;
    }
    qsort(front, count, sizeof front[0], by_time);
    draw_head(sweep, text);
    if (count > 0) {
        front_axes_pad(&axes);
        front_axes_draw(&axes, text);
        draw_stair(&axes, front, count, text);
    }
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->rows[i].outcome == CONFIG_PLANNED)
            draw_dot(&axes, &sweep->rows[i], text);
    text_add(text, "</svg>\n");
    free(front);
}
