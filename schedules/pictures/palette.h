// The colours of actions, in every picture the same.
//
// Chosen so that any two kinds stay apart, in every shade, for people who see red
// and green alike (deuteranopia, protanopia) or blue and green (tritanopia), and
// in grey print by their letters; tests/schedules/test_palette.c measures it. The
// usual set of eight (Okabe and Ito) does less well here, where two of the eight
// must also differ from lighter shades of the others.
#ifndef SCHEDULES_PALETTE_H
#define SCHEDULES_PALETTE_H

#include "schedules/schedule.h"

struct rgb {
    uint8_t red, green, blue;
};

// A rank's stages are told apart by shade: full colour, lighter, lightest.
enum { SHADES = 3 };

// SENDs and RECVs take no time and have no colour of their own.
struct rgb palette_box(unsigned kind, unsigned shade);
struct rgb palette_ink(unsigned kind, unsigned shade);  // black or white, whichever reads better on the box

// The nearest of the 256 colours that nearly every terminal has.
unsigned palette_terminal(struct rgb colour);
struct rgb palette_of_terminal(unsigned number);  // from 16

#endif
