// A self-contained SVG. It has a lane per rank, a box per action, idle time hatched, and a thin arrow per message. A
// rank that exchanges has a second, thin lane with a box per exchange. The time axis is below. The legend is above, in
// as many rows as the width requires. Actions at the same time share the lane's height.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/costs.h"
#include "schedules/pictures/lanes.h"
#include "schedules/pictures/palette.h"

// In pixels.
enum {
    LEFT = 74,
    RIGHT = 24,
    PEAKS = 76,            // additional width to the right, if peaks are shown
    TOP = 74,              // with one row of legend
    LEGEND = 42, ROW = 20, // where the legend begins, and the height of a row of it
    SWATCH = 14,
    LANE = 30,
    THIN = 12, NEAR = 2,   // a lane of exchanges, and its distance from that of its rank
    GAP = 8,
    AXIS = 40,
    LETTER = 7,            // approximate width of a letter
    SIZE = 11,             // of a label
    LEAST = 1,             // of a label without enough room
    HEADING = 16,          // of the title
    MARK = 100,            // least distance of two marks of the axis
    MOST_ARROWS = 20000,   // of messages; more would look like a grey cloud
};

struct page {
    const struct svg_chart *chart;
    struct lanes lanes;
    unsigned width, plot;  // of the whole picture, and of the lanes
    double top, height;
    double *tops;          // per lane
};

static double x_of(const struct page *page, uint64_t time_ns)
{
    const struct extent extent = page->lanes.extent;
    const double length = (double)(extent.last_ns - extent.first_ns);
    return length > 0 ? LEFT + page->plot * (double)(time_ns - extent.first_ns) / length : LEFT;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static unsigned height_of(const struct page *page, uint32_t lane)
{
    return lane < page->lanes.timeline->ranks ? LANE : THIN;
}

// Returns where they end.
static double place_lanes(struct page *page)
{
    double y = page->top;
    for (uint32_t rank = 0; rank < page->lanes.timeline->ranks; rank++) {
        const uint32_t exchanges = lanes_of_exchanges(&page->lanes, rank);
        page->tops[rank] = y;
        y += LANE;
        if (exchanges != NO_LANE) {
            page->tops[exchanges] = y + NEAR;
            y += NEAR + THIN;
        }
        y += GAP;
    }
    return y;
}

// A time in the page's form: without its unit if costs have none.
static const char *time_of(const struct page *page, uint64_t ns, char buffer[NUMBER_SIZE])
{
    return costs_format(page->lanes.timeline->unit_ns, ns, buffer);
}

// --- frame ------------------------------------------------------------------------

// The CSS class of a kind and shade: "F1" is forwards in shade 1.
static void add_class(struct text *text, unsigned kind, unsigned shade)
{
    char letter[ACTION_SIZE];
    text_add(text, "%s%u", drawing_letter(kind, letter), shade);
}

static void draw_style(const struct page *page, struct text *text)
{
    const unsigned kinds = drawing_kinds(page->lanes.timeline);
    text_add(text, "<style>\n.label{fill:#333;font-size:12px}.mark{fill:#666}"
                   ".grid{stroke:#d5d8dc;stroke-width:1}.message{stroke:#444;stroke-width:.6;opacity:.55}\n"
                   "rect.box{stroke:#fff;stroke-width:.6}text.in{text-anchor:middle;pointer-events:none}\n");
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        for (unsigned shade = 0; shade < SHADES && (kinds >> kind & 1); shade++) {
            const struct rgb box = palette_box(kind, shade), ink = palette_ink(kind, shade);
            text_add(text, "rect.");
            add_class(text, kind, shade);
            text_add(text, "{fill:#%02x%02x%02x}text.", box.red, box.green, box.blue);
            add_class(text, kind, shade);
            text_add(text, "{fill:#%02x%02x%02x}\n", ink.red, ink.green, ink.blue);
        }
    }
    text_add(text, "</style>\n<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                   "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f4f5f6\"/><rect "
                   "width=\"1.2\" height=\"6\" fill=\"#d3d7db\"/></pattern><marker id=\"tip\" viewBox=\"0 0 6 6\" "
                   "refX=\"6\" refY=\"3\" markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\"><path "
                   "d=\"M0,0L6,3L0,6z\" fill=\"#444\"/></marker></defs>\n");
}

// Characters that a list of fonts cannot contain become spaces.
static void add_font(const char *font, struct text *text)
{
    for (const char *letter = font; *letter; letter++) {
        const unsigned char byte = (unsigned char)*letter;
        text_add_bytes(text, isalnum(byte) || byte >= 0x80 || strchr(",-'._", *letter) ? letter : " ", 1);
    }
}

// The heading on top: one line, in a smaller size if it is too long.
static void write_heading(const struct page *page, struct text *heading)
{
    char time[NUMBER_SIZE];
    text_add(heading, "%s; %s, makespan bubble %.1f %%", page->chart->title,
             time_of(page, page->lanes.extent.last_ns - page->lanes.extent.first_ns, time),
             100 * lanes_bubble(&page->lanes));
}

static void draw_head(const struct page *page, struct text *text)
{
    struct text heading = { 0 };
    write_heading(page, &heading);
    text->failed |= heading.failed;
    const char *words = heading.failed ? "" : heading.data;
    const double letters = (double)strlen(words) * LETTER / SIZE + 1;
    text_add(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %.0f\" width=\"%u\" height=\"%.0f\" "
                   "role=\"img\" font-family=\"", page->width, page->height, page->width, page->height);
    add_font(page->chart->font ? page->chart->font : "DejaVu Sans, Helvetica, Arial, sans-serif", text);
    text_add(text, "\" font-size=\"11\">\n<title>");
    drawing_escape(words, text);
    text_add(text, "</title>\n");
    draw_style(page, text);
    text_add(text, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"26\" font-size=\"%.4g\" "
                   "fill=\"#111\">", LEFT, smaller(HEADING, (page->width - LEFT) / letters));
    drawing_escape(words, text);
    text_add(text, "</text>\n");
    text_clear(&heading);
}

// --- legend -----------------------------------------------------------------------

// The position of the next legend item. Without a text, the legend is only measured.
struct legend {
    const struct page *page;
    unsigned x, row;
    struct text *text;
};

static void place_item(struct legend *legend, size_t letters)
{
    const unsigned length = 38 + LETTER * (unsigned)letters;
    if (legend->x > LEFT && legend->x + length > legend->page->width) {
        legend->x = LEFT;
        legend->row++;
    }
}

static void draw_legend_item(struct legend *legend, const char *swatch, unsigned height, const char *label)
{
    place_item(legend, strlen(label));
    const unsigned x = legend->x, y = LEGEND + ROW * legend->row;
    if (legend->text)
        text_add(legend->text, "<rect %s x=\"%u\" y=\"%u\" width=\"%d\" height=\"%u\"/><text class=\"label\" x=\"%u\" "
                               "y=\"%u\">%s</text>\n", swatch, x, y + (SWATCH - height) / 2, SWATCH, height, x + 20,
                 y + 11, label);
    legend->x = x + 38 + LETTER * (unsigned)strlen(label);
}

// Returns its number of rows.
static unsigned draw_legend(const struct page *page, struct text *text)
{
    static const char lighter[] = "lighter: later stages of a rank";
    const unsigned kinds = drawing_kinds(page->lanes.timeline);
    struct legend legend = { .page = page, .x = LEFT, .text = text };
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        const bool thin = kind == ACTION_SEND_F || kind == ACTION_SEND_B;
        char letter[ACTION_SIZE], swatch[ACTION_SIZE + 32], label[ACTION_SIZE + 64];
        if (!(kinds >> kind & 1))
            continue;
        drawing_letter(kind, letter);
        snprintf(swatch, sizeof swatch, "class=\"box %s0\"", letter);
        snprintf(label, sizeof label, "%s: %s", letter, drawing_kind(kind));
        draw_legend_item(&legend, swatch, thin ? SWATCH / 2 : SWATCH, label);
    }
    draw_legend_item(&legend, "fill=\"url(#idle)\" stroke=\"#d3d7db\" stroke-width=\".6\"", SWATCH, "idle");
    if (page->lanes.chunks > 1) {
        place_item(&legend, strlen(lighter));
        if (text)
            text_add(text, "<text class=\"label\" x=\"%u\" y=\"%u\">%s</text>\n", legend.x,
                     LEGEND + ROW * legend.row + 11, lighter);
    }
    return legend.row + 1;
}

// --- axis and lanes ---------------------------------------------------------------

static void draw_axis(const struct page *page, struct text *text)
{
    const uint64_t length = page->lanes.extent.last_ns - page->lanes.extent.first_ns;
    const uint64_t unit_ns = page->lanes.timeline->unit_ns;
    const uint64_t mark = drawing_mark_ns(page->lanes.extent, page->plot / MARK, unit_ns);
    const double bottom = page->height - AXIS;
    for (uint64_t time = 0; time <= length; time += mark) {
        char label[40];
        const double x = x_of(page, page->lanes.extent.first_ns + time);
        text_add(text, "<line class=\"grid\" x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\"/><text class=\"mark\" "
                       "text-anchor=\"middle\" x=\"%.2f\" y=\"%.0f\">%s</text>\n", x, page->top - 6, x, bottom + 4, x,
                 bottom + 20, drawing_mark(time, mark, unit_ns, label, sizeof label));
    }
}

static void draw_lane(const struct page *page, uint32_t lane, const char *name, struct text *text)
{
    const unsigned height = height_of(page, lane);
    text_add(text, "<rect fill=\"url(#idle)\" x=\"%d\" y=\"%.0f\" width=\"%u\" height=\"%u\"/><text "
                   "class=\"label\" text-anchor=\"end\" x=\"%d\" y=\"%.0f\">%s</text>\n", LEFT, page->tops[lane],
             page->plot, height, LEFT - 10, page->tops[lane] + height / 2 + 4, name);
}

static void draw_lanes(const struct page *page, struct text *text)
{
    if (page->chart->peak_bytes)
        text_add(text, "<text class=\"label\" x=\"%u\" y=\"%.0f\">live peak</text>\n", LEFT + page->plot + 10,
                 page->top - 8);
    for (uint32_t rank = 0; rank < page->lanes.timeline->ranks; rank++) {
        const uint32_t exchanges = lanes_of_exchanges(&page->lanes, rank);
        char name[24], peak[NUMBER_SIZE];
        snprintf(name, sizeof name, "rank %u", rank);
        draw_lane(page, rank, name, text);
        if (page->chart->peak_bytes)
            text_add(text, "<text class=\"label\" x=\"%u\" y=\"%.0f\">%s</text>\n", LEFT + page->plot + 10,
                     page->tops[rank] + LANE / 2 + 4, bytes_format(page->chart->peak_bytes[rank], peak));
        if (exchanges != NO_LANE)
            draw_lane(page, exchanges, "exchange", text);
    }
}

// --- contents of the lanes -----------------------------------------------------------

// Every box has a label, at its usual size if there is room. Otherwise the label is as large as the box allows,
// horizontally or vertically, whichever is larger. The smallest labels become legible when the picture is enlarged.
static void draw_label(const struct page *page, uint32_t lane, const struct lane_box *box, const char *label,
                       struct text *text)
{
    const double x = x_of(page, box->span->start_ns), width = x_of(page, box->span->end_ns) - x;
    const double height = (double)height_of(page, lane) / box->rows, y = page->tops[lane] + height * box->row;
    const double letters = (double)strlen(label) * LETTER / SIZE;  // its length relative to its height
    const double along = smaller((width - 2) / letters, height - 2), up = smaller((height - 2) / letters, width - 1);
    const bool turned = along < SIZE && up > along;
    const double fits = turned ? up : along, size = fits > SIZE ? SIZE : fits < LEAST ? LEAST : fits;
    text_add(text, "<text class=\"in ");
    add_class(text, box->span->action.kind, lanes_shade(&page->lanes, box));
    text_add(text, "\"");
    if (size < SIZE)
        text_add(text, " font-size=\"%.1f\"", size);
    if (turned)
        text_add(text, " transform=\"translate(%.2f %.1f) rotate(-90)\">%s</text>", x + width / 2 + size * .36,
                 y + height / 2, label);
    else
        text_add(text, " x=\"%.2f\" y=\"%.1f\">%s</text>", x + width / 2, y + height / 2 + size * .36, label);
}

static void draw_title(const struct page *page, const struct span *span, struct text *text)
{
    char whole[ACTION_SIZE], start[NUMBER_SIZE], end[NUMBER_SIZE], length[NUMBER_SIZE];
    const uint64_t first_ns = page->lanes.extent.first_ns;
    text_add(text, "<title>%s: %s, from %s to %s</title>", action_format(span->action, whole),
             time_of(page, span->end_ns - span->start_ns, length), time_of(page, span->start_ns - first_ns, start),
             time_of(page, span->end_ns - first_ns, end));
}

static void draw_box(const struct page *page, uint32_t lane, const struct lane_box *box, struct text *text)
{
    char label[ACTION_SIZE];
    const struct span *span = box->span;
    const double x = x_of(page, span->start_ns), width = x_of(page, span->end_ns) - x;
    const double height = (double)height_of(page, lane) / box->rows, y = page->tops[lane] + height * box->row;
    const unsigned shade = lanes_shade(&page->lanes, box);
    text_add(text, "<g>");
    draw_title(page, span, text);
    text_add(text, "<rect class=\"box ");
    add_class(text, span->action.kind, shade);
    text_add(text, "\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>", x, y, width, height);
    if (span->recompute_ns > 0 && span->action.kind != ACTION_R)
        text_add(text, "<rect class=\"box R0\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>", x,
                 y + height * 4 / 5, x_of(page, span->start_ns + span->recompute_ns) - x, height / 5);
    drawing_label(span->action, label);
    draw_label(page, lane, box, label, text);
    text_add(text, "</g>\n");
}

static void draw_boxes(const struct page *page, uint32_t lane, struct text *text)
{
    for (size_t i = page->lanes.first[lane]; i < page->lanes.first[lane + 1]; i++) {
        if (page->lanes.boxes[i].span->end_ns > page->lanes.boxes[i].span->start_ns)
            draw_box(page, lane, &page->lanes.boxes[i], text);
    }
}

static void draw_messages(const struct page *page, struct text *text)
{
    const struct timeline *timeline = page->lanes.timeline;
    for (size_t i = 0; i < timeline->message_count && timeline->message_count <= MOST_ARROWS; i++) {
        const struct message *message = &timeline->messages[i];
        const bool down = message->to > message->from;
        if (is_exchange(message))
            continue;
        text_add(text, "<line class=\"message\" marker-end=\"url(#tip)\" x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" "
                       "y2=\"%.0f\"/>\n", x_of(page, message->start_ns), page->tops[message->from] + (down ? LANE : 0),
                 x_of(page, message->end_ns), page->tops[message->to] + (down ? 0 : LANE));
    }
}

void timeline_draw_svg(const struct timeline *timeline, const struct svg_chart *chart, struct text *text)
{
    const unsigned sides = LEFT + RIGHT + (chart->peak_bytes ? PEAKS : 0);
    const unsigned width = chart->width ? chart->width : SVG_USUAL_WIDTH + (chart->peak_bytes ? PEAKS : 0);
    struct page page = { .chart = chart, .width = width, .plot = width - sides };
    const bool good = lanes_create(&page.lanes, timeline);
    page.tops = calloc(page.lanes.count + (size_t)1, sizeof *page.tops);
    if (!good || !page.tops) {
        text->failed = true;
        free(page.tops);
        lanes_clear(&page.lanes);
        return;
    }
    page.top = TOP + ROW * (draw_legend(&page, NULL) - 1);
    page.height = place_lanes(&page) + AXIS;
    draw_head(&page, text);
    draw_legend(&page, text);
    draw_lanes(&page, text);
    draw_axis(&page, text);
    for (uint32_t lane = 0; lane < page.lanes.count; lane++)
        draw_boxes(&page, lane, text);
    if (chart->messages)
        draw_messages(&page, text);
    text_add(text, "</svg>\n");
    free(page.tops);
    lanes_clear(&page.lanes);
}
