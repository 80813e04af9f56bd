// The ascending order of numbers and of texts, for qsort():
//
//     qsort(times, count, sizeof times[0], ascending_u64s);
#ifndef COMMON_ASCENDING_H
#define COMMON_ASCENDING_H

// Compare what the pointers point to, which is of the type in the name. The result is below 0, 0 or above 0.
int ascending_u64s(const void *a, const void *b);
int ascending_u32s(const void *a, const void *b);
int ascending_doubles(const void *a, const void *b);
int ascending_texts(const void *a, const void *b);  // what pointers point to, by strcmp()

#endif
