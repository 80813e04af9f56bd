#include "common/alike.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/number.h"

// The letters and digits of a name, in lower case. Returns their number, or 0 if there are too many.
static unsigned letters_of(const char *name, char letters[ALIKE_SIZE])
{
    unsigned count = 0;
    for (; *name; name++) {
        if (strchr("-_ .", *name))
            continue;
        if (count == ALIKE_SIZE - 1)
            return 0;
        letters[count++] = (char)tolower((unsigned char)*name);
    }
    letters[count] = '\0';
    return count;
}

// The edit distance: the fewest letters to add, drop, change or swap with a neighbour to turn a into b. Row i has
// the distances of the first i letters of a to the first j of b.
static unsigned distance(const char *a, unsigned a_count, const char *b, unsigned b_count)
{
    unsigned rows[ALIKE_SIZE][ALIKE_SIZE];
    for (unsigned j = 0; j <= b_count; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_count; i++) {
        rows[i][0] = i;
        for (unsigned j = 1; j <= b_count; j++) {
            const unsigned changed = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            const unsigned shorter = rows[i - 1][j] + 1, longer = rows[i][j - 1] + 1;
            rows[i][j] = (unsigned)min_u64(changed, min_u64(shorter, longer));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                rows[i][j] = (unsigned)min_u64(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    }
    return rows[a_count][b_count];
}

void alike_try_as(struct alike *alike, const char *given, const char *theirs, const char *ours)
{
    enum { LETTERS_OF_A_FAULT = 5, SHORTEST = 4 };  // names shorter than this are too similar to each other
    char a[ALIKE_SIZE], b[ALIKE_SIZE];
    const unsigned a_count = letters_of(given, a), b_count = letters_of(theirs, b);
    if (a_count == 0 || b_count == 0 || strlen(ours) >= ALIKE_SIZE)
        return;
    const unsigned most = b_count < SHORTEST ? 0 : (b_count + LETTERS_OF_A_FAULT - 1) / LETTERS_OF_A_FAULT;
    const unsigned apart = distance(a, a_count, b, b_count);
    if (apart > most || (alike->name[0] && apart >= alike->distance))
        return;
    snprintf(alike->name, sizeof alike->name, "%s", ours);
    alike->distance = apart;
}

void alike_try(struct alike *alike, const char *given, const char *known)
{
    alike_try_as(alike, given, known, known);
}

const char *alike_said(const struct alike *alike, char said[ALIKE_SAID])
{
    said[0] = '\0';
    if (alike->name[0])
        snprintf(said, ALIKE_SAID, ": did you mean %s?", alike->name);
    return said;
}
