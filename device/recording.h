// Private: the calls that a queue is given while it records, and where they go.
//
//     kernels.c      the kernel of a queue that records
//         |
//     recorded_kernels.c     a kind of call for each: how it is made, when two are the same, what of it may vary
//         |
//     recorded.c     notes it, or finds it noted
//         |
//     struct capture_functions     a maker's way to be given many calls as one (maker.h)
//
// Some data varies from pass to pass in calls that are otherwise the same: the key of a dropout, the factors of an
// update. To a captured call such data is a *word* in device memory. The words are uploaded before the captured
// calls.
#ifndef DEVICE_RECORDING_H
#define DEVICE_RECORDING_H

#include "device/maker.h"

struct word {
    _Alignas(8) unsigned char bytes[16];
};

// A kind of call.
struct call {
    void (*give)(struct queue *queue, const void *arguments);  // to the maker. NULL: a cut, which is never captured
    bool (*is_same)(const void *a, const void *b);             // apart from their words
    // The varying data: the word in the arguments, and where the arguments store the word's address. False: nothing
    // varies.
    bool (*varies)(void *arguments, struct word *word, const void ***address);
    size_t bytes;  // of arguments
};
enum { MOST_ARGUMENTS = 288 };

// Gives a call to a queue that is well and records.
void recorded_meet(struct queue *queue, const struct call *call, const void *arguments);
// Says that a call given by itself comes next: all that was given before must then have gone to the device.
void recorded_cut(struct queue *queue, const struct call *cut);

extern const struct call call_zero, call_copy;                                            // arguments: struct moving
extern const struct call cut_upload, cut_download, cut_transfer, cut_call, cut_event, cut_wait_event, cut_wait,
    cut_exchange;
extern const struct kernel_functions recorded_kernels;

struct moving {
    void *to;
    const void *from;
    uint64_t bytes;
};

#endif
