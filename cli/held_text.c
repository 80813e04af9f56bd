#include "cli/held_text.h"

#include <math.h>

void held_text_say(double bits, double order0_bits, double order1_bits, struct text *text)
{
    const double gain = order1_bits - bits;
    if (isnan(gain))
        text_add(text, "held-out text: %.3f bits per token\n", bits);
    else
        text_add(text, "held-out text: %.3f bits per byte; counting reaches %.3f (order 0) and %.3f (order 1):"
                       " %.3f bits %s\n",
                 bits, order0_bits, order1_bits, gain < 0 ? -gain : gain, gain < 0 ? "worse" : "better");
}
