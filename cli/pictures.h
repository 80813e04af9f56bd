// How charts look on a terminal and in files: the options, and what the terminal
// is like.
//
// Colours and box characters only where they are understood: colours on a terminal
// unless NO_COLOR is set or it is dumb, or with --color always; plain letters with
// --ascii, or on standard output where the locale does not have UTF-8.
#ifndef CLI_PICTURES_H
#define CLI_PICTURES_H

#include <argp.h>

#include "cli/options.h"
#include "schedules/timeline.h"

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct picture_options {
    enum color color;
    bool ascii, messages;
    uint64_t width;  // in columns, of an SVG in pixels; 0: the terminal's, or usual
    const char *title, *font;  // of an SVG; NULL: usual
};

enum { KEY_COLOR = KEY_PICTURE, KEY_ASCII, KEY_WIDTH, KEY_MESSAGES, KEY_TITLE, KEY_FONT };

#define CHART_OPTIONS(WIDTH) \
    { "color", KEY_COLOR, "WHEN", 0, "Colours in the text chart: auto (on a terminal, unless NO_COLOR is set), " \
      "always, never", 0 }, \
    { "ascii", KEY_ASCII, 0, 0, "Draw the text chart without box characters", 0 }, \
    { "width", KEY_WIDTH, "N", 0, WIDTH, 0 }
// For a command that draws an SVG, too.
#define SVG_OPTIONS \
    { "messages", KEY_MESSAGES, 0, 0, "Draw messages into the SVG, a thin arrow each", 0 }, \
    { "title", KEY_TITLE, "TEXT", 0, "What stands on top of the SVG or the page", 0 }, \
    { "font", KEY_FONT, "NAME", 0, "The SVG's font (DejaVu Sans, ..)", 0 }

// What an SVG is told of them. `peak_bytes` may be NULL, and `title` is what it is called where nobody says otherwise.
struct svg_chart picture_svg(const struct picture_options *options, const char *title, const uint64_t *peak_bytes);

// Takes one of these options; ARGP_ERR_UNKNOWN for any other key.
error_t picture_option(int key, char *argument, struct picture_options *options, struct argp_state *state);

// For standard output, or for a file (anything but NULL and "-"), which is no terminal.
// Peaks and idle shares are the caller's to add.
struct text_chart picture_chart(const struct picture_options *options, const char *output);

#endif
