#include "common/utf8.h"

#include <string.h>

//   first byte   second byte   and so on    why the second is narrowed
//   00..7f
//   c2..df       80..bf                     c0 and c1 would be longer than needed
//   e0           a0..bf        80..bf       below would be longer than needed
//   ed           80..9f        80..bf       above are surrogates
//   e1..ef       80..bf        80..bf
//   f0           90..bf        80..bf x 2   below would be longer than needed
//   f1..f3       80..bf        80..bf x 2
//   f4           80..8f        80..bf x 2   above is past U+10FFFF
size_t utf8_length(const char *bytes, size_t left)
{
    const unsigned char *b = (const unsigned char *)bytes;
    if (left == 0)
        return 0;
    if (b[0] < 0x80)
        return 1;
    const size_t length = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > left)
        return 0;
    const unsigned char least = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    bool good = b[1] >= least && b[1] <= most;
    for (size_t i = 2; i < length; i++)
        good = good && (b[i] & 0xc0) == 0x80;
    return good ? length : 0;
}

bool utf8_is_printable(const char *bytes, size_t length)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return length == 1 ? b[0] >= 0x20 && b[0] != 0x7f : length > 1 && !(b[0] == 0xc2 && b[1] < 0xa0);
}

void utf8_make_printable(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (char *next = text; *next;) {
        const size_t length = utf8_length(next, strlen(next));
        if (utf8_is_printable(next, length))
            next += length;
        else
            *next++ = '?';
    }
}
