// Names that are alike: which of those that are known somebody may have meant.
//
//     struct alike alike = { 0 };
//     for (each known name)
//         alike_try(&alike, given, known);
//     error_set(error, "there is no schedule named \"%s\"%s", given, alike_said(&alike, said));
//
// "1F1B" is 1f1b and "zbv" is zb-v: case, and what joins the words of a name, make no difference. Beyond that a fifth
// of the letters may be missing, too many, others, or have changed places; of names that are as near the first is meant.
#ifndef COMMON_ALIKE_H
#define COMMON_ALIKE_H

enum { ALIKE_SIZE = 64 };  // longer names are not compared

struct alike {
    char name[ALIKE_SIZE];  // empty: none is near
    unsigned distance;
};

void alike_try(struct alike *alike, const char *given, const char *known);

// The same of what others call it: "Interleaved1F1B" is our interleaved.
void alike_try_as(struct alike *alike, const char *given, const char *theirs, const char *ours);

// ": did you mean zb-v?", or nothing.
enum { ALIKE_SAID = ALIKE_SIZE + 24 };
const char *alike_said(const struct alike *alike, char said[ALIKE_SAID]);

#endif
