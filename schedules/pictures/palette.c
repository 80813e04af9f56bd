#include "schedules/pictures/palette.h"

static const struct rgb boxes[ACTION_KINDS] = {
    [ACTION_F] = { 0x14, 0x5c, 0xcb },         // blue
    [ACTION_B] = { 0xf6, 0xb8, 0x19 },         // gold
    [ACTION_I] = { 0xd9, 0x3f, 0x18 },         // vermilion
    [ACTION_W] = { 0x70, 0xe0, 0xc4 },         // mint
    [ACTION_R] = { 0x8e, 0x5b, 0x95 },         // mauve
    [ACTION_SEND_F] = { 0x14, 0x5c, 0xcb },    // those of F and B, in a lane of their own
    [ACTION_SEND_B] = { 0xf6, 0xb8, 0x19 },
    [ACTION_EVICT] = { 0x9a, 0x9a, 0xd8 },     // lavender
    [ACTION_PREFETCH] = { 0x3f, 0x7d, 0x20 },  // green
    [ACTION_REDUCE] = { 0x47, 0x0c, 0x6f },    // indigo
    [ACTION_STEP] = { 0x10, 0x10, 0x17 },      // black
    [ACTION_VALIDATE] = { 0x5b, 0x5c, 0x51 },  // grey
};

// How much white is mixed in, in percent.
static const unsigned lightened[SHADES] = { 0, 20, 40 };

static uint8_t lighten(uint8_t part, unsigned shade)
{
    return (uint8_t)(part + (255u - part) * lightened[shade] / 100);
}

struct rgb palette_box(unsigned kind, unsigned shade)
{
    const struct rgb box = boxes[kind];
    return (struct rgb){ lighten(box.red, shade), lighten(box.green, shade), lighten(box.blue, shade) };
}

// The weights of the three colours in perceived brightness, by ITU-R BT.601.
static unsigned brightness(struct rgb colour)
{
    return (299u * colour.red + 587u * colour.green + 114u * colour.blue) / 1000;
}

struct rgb palette_ink(unsigned kind, unsigned shade)
{
    enum { BRIGHT = 140 };
    return brightness(palette_box(kind, shade)) < BRIGHT ? (struct rgb){ 255, 255, 255 } : (struct rgb){ 16, 20, 28 };
}

// Colours 16 to 231 are a cube of six steps per side; 232 to 255 are greys.
struct rgb palette_of_terminal(unsigned number)
{
    static const uint8_t steps[] = { 0, 95, 135, 175, 215, 255 };
    const unsigned place = number - 16;
    if (number >= 232)
        return (struct rgb){ (uint8_t)(8 + 10 * (number - 232)), (uint8_t)(8 + 10 * (number - 232)),
                             (uint8_t)(8 + 10 * (number - 232)) };
    return (struct rgb){ steps[place / 36], steps[place / 6 % 6], steps[place % 6] };
}

static unsigned distance(struct rgb a, struct rgb b)
{
    const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
    return (unsigned)(red * red + green * green + blue * blue);
}

unsigned palette_terminal(struct rgb colour)
{
    unsigned best = 16;
    for (unsigned number = 17; number < 256; number++) {
        if (distance(palette_of_terminal(number), colour) < distance(palette_of_terminal(best), colour))
            best = number;
    }
    return best;
}
