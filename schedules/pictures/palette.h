// The colours of actions, the same in every picture.
//
// They are chosen so that any two kinds can be told apart, in every shade. This holds for people who see red and
// green alike (deuteranopia, protanopia), or blue and green (tritanopia). In grey print the letters tell them apart.
// tests/schedules/test_palette.c measures it. The usual set of eight (Okabe and Ito) is less suitable here, since
// two of the eight must also differ from lighter shades of the others.
#ifndef SCHEDULES_PALETTE_H
#define SCHEDULES_PALETTE_H

#include "schedules/schedule.h"

struct rgb {
    uint8_t red, green, blue;
};

// The stages of a rank have different shades: full colour, lighter, lightest.
enum { SHADES = 3 };

// An exchange, which is a SEND, has the colour of F or B. RECVs take no time and have no colour.
struct rgb palette_box(unsigned kind, unsigned shade);
struct rgb palette_ink(unsigned kind, unsigned shade);  // black or white, whichever is more legible on the box

// The nearest of the 256 colours that nearly every terminal has.
unsigned palette_terminal(struct rgb colour);
struct rgb palette_of_terminal(unsigned number);  // for numbers from 16

#endif
