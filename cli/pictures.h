// How charts look on a terminal and in files: the options, and what the terminal supports.
//
// Colours are used on a terminal unless NO_COLOR is set or the terminal is dumb, and always with --color always.
// Plain letters instead of box characters are used with --ascii, and on standard output if the locale does not have
// UTF-8.
#ifndef CLI_PICTURES_H
#define CLI_PICTURES_H

#include <argp.h>

#include "cli/options.h"
#include "schedules/timeline.h"

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct picture_options {
    enum color color;
    bool ascii, messages;
    uint64_t width;  // in columns, for an SVG in pixels; 0: that of the terminal, or the usual one
    const char *title, *font;  // of an SVG; NULL: the usual ones
};

enum { KEY_COLOR = KEY_PICTURE, KEY_ASCII, KEY_WIDTH, KEY_MESSAGES, KEY_TITLE, KEY_FONT };

#define CHART_OPTIONS(WIDTH) \
    { "color", KEY_COLOR, "WHEN", 0, "Colours in the text chart: auto (on a terminal, unless NO_COLOR is set), " \
      "always, never", 0 }, \
    { "ascii", KEY_ASCII, 0, 0, "Draw the text chart without box characters", 0 }, \
    { "width", KEY_WIDTH, "N", 0, WIDTH, 0 }
// For commands that also draw an SVG.
#define SVG_OPTIONS \
    { "messages", KEY_MESSAGES, 0, 0, "Draw messages into the SVG, a thin arrow each", 0 }, \
    { "title", KEY_TITLE, "TEXT", 0, "What stands on top of the SVG or the page", 0 }, \
    { "font", KEY_FONT, "NAME", 0, "The SVG's font (DejaVu Sans, ..)", 0 }

// The settings of an SVG. The array `peak_bytes` may be NULL, and `title` is used unless --title gives another one.
struct svg_chart picture_svg(const struct picture_options *options, const char *title, const uint64_t *peak_bytes);

// Parses one of these options; returns ARGP_ERR_UNKNOWN for any other key.
error_t picture_option(int key, char *argument, struct picture_options *options, struct argp_state *state);

// The settings of a chart on standard output, or in a file, which is not a terminal (any `output` but NULL and "-").
// The caller adds peaks and idle shares.
struct text_chart picture_chart(const struct picture_options *options, const char *output);

#endif
