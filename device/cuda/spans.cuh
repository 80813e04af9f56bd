// Private: the data that optimizers read and write, and sums of squares.
#ifndef DEVICE_CUDA_SPANS_CUH
#define DEVICE_CUDA_SPANS_CUH

#include "device/cuda/reduce.cuh"

// A weight as optimizers use it. They read `master` if there is one, else `now`, and write `next`, and `master` too.
template <class T>
struct weights {
    T *next;
    const T *now;
    float *master;

    template <int N>
    __device__ pack<N> read(size_t i) const
    {
        return master ? load<N>(master + i) : load<N>(now + i);
    }

    template <int N>
    __device__ void write(size_t i, const pack<N> &w) const
    {
        if (master)
            store<N>(master + i, w);
        store<N>(next + i, w);
    }
};

template <class T>
inline weights<T> weights_of(const struct optimizer_span *span)
{
    return { (T *)span->next, (const T *)span->weights, span->master };
}

// Everything but `next` is floats, or nearly everything: four floats fill 16 bytes.
enum { UPDATE_PACK = 4 };

template <class T>
inline size_t head_of_span(const struct optimizer_span *span)
{
    const weights<T> w = weights_of<T>(span);
    const T *now = w.master ? NULL : w.now;
    return head_of<UPDATE_PACK>(span->count, w.next, now, w.master, span->gradients, span->first, span->second);
}

static __device__ inline double square(float x)
{
    return (double)x * (double)x;
}

#endif
