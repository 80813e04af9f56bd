// What of a stage is kept for each micro-batch: classes with slots of their own (schedules/slots.h). Where sequences
// go through in parts a slot is for a part, and a class is rounded up once, as a whole (stage_bytes_of_split):
//
//     three tensors of 256 in two parts     all together     768 / 2 = 384  ->  512
//                                           each by itself   128  ->  256, three times
//
// So what one more tensor takes depends on the others.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_CLASS_H
#define PARTITIONER_SEARCH_RECOMPUTE_CLASS_H

#include "common/number.h"
#include "schedules/slots.h"

enum recompute_class { CLASS_KEPT, CLASS_THROUGH, CLASS_HELD, CLASSES };

static inline uint32_t class_slots(const struct slots *slots, enum recompute_class class)
{
    return class == CLASS_KEPT ? slots->kept : class == CLASS_THROUGH ? slots->kept_through : slots->held;
}

// What a class takes that has so many bytes of a whole micro-batch.
static inline uint64_t class_bytes(const struct slots *slots, uint32_t splits, enum recompute_class class,
                                   uint64_t bytes)
{
    const uint64_t part = bytes / splits + (bytes % splits > 0);
    return multiply_clamped(class_slots(slots, class), splits == 1 ? part : round_to_256(part));
}

#endif
