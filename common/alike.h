// Similar names: finds the known name that a wrong one may stand for.
//
//     struct alike alike = { 0 };
//     for (each known name)
//         alike_try(&alike, given, known);
//     error_set(error, "there is no schedule named \"%s\"%s", given, alike_said(&alike, said));
//
// "1F1B" matches 1f1b and "zbv" matches zb-v: case and the characters between words make no difference. In addition,
// a fifth of the letters may be missing, extra, different, or swapped with a neighbour. If several names are equally
// close, the first is chosen.
#ifndef COMMON_ALIKE_H
#define COMMON_ALIKE_H

enum { ALIKE_SIZE = 64 };  // longer names are not compared

struct alike {
    char name[ALIKE_SIZE];  // empty: no name is close
    unsigned distance;
};

void alike_try(struct alike *alike, const char *given, const char *known);

// The same for another project's name of the thing: "Interleaved1F1B" is our interleaved.
void alike_try_as(struct alike *alike, const char *given, const char *theirs, const char *ours);

// Writes ": did you mean zb-v?", or nothing, to `said`, and returns it.
enum { ALIKE_SAID = ALIKE_SIZE + 24 };
const char *alike_said(const struct alike *alike, char said[ALIKE_SAID]);

#endif
