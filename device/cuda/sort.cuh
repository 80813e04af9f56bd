// Private: rows sorted by a key, equal keys by row, without atomics.
//
//     keys          7 2 7 | 2 9 2       (CHUNK rows each; here 3)
//     1. ranked     2 7 7 | 2 2 9       each chunk by itself: a row's place is the
//        rows       1 0 2 | 3 5 4       number of rows that go before it
//     2. merged     2 2 2 7 7 9         a row's place grows by how many of each other
//        rows       1 3 5 0 2 4         chunk go before it, found by bisection
//
// More than PART rows are sorted in parts by the caller, one after the other.
#ifndef DEVICE_CUDA_SORT_CUH
#define DEVICE_CUDA_SORT_CUH

#include "device/cuda/reduce.cuh"

constexpr uint32_t CHUNK = 1024, PART = 1 << 20;
constexpr uint32_t NO_KEY = 0xffffffffu;  // of a row that is left out; sorted last

struct sorting {
    uint32_t rows;
    uint32_t *ranked_keys, *ranked_rows;  // by chunk
    uint32_t *sorted_keys, *sorted_rows;
    const uint32_t *keys, *order;         // the sorted ones, which of one chunk are the ranked ones
};

// In the scratch, of which it takes SORT_BYTES.
constexpr size_t SORT_BYTES = 4 * PART * sizeof(uint32_t);
static_assert(SORT_BYTES <= CUDA_SCRATCH_BYTES, "a part is sorted in the scratch");

inline sorting sorting_in(const struct cuda_launch *launch, uint32_t rows)
{
    uint32_t *const scratch = (uint32_t *)launch->scratch;
    const bool one_chunk = rows <= CHUNK;
    uint32_t *const sorted_keys = scratch + 2 * PART, *const sorted_rows = scratch + 3 * PART;
    return { rows, scratch, scratch + PART, sorted_keys, sorted_rows, one_chunk ? scratch : sorted_keys,
             one_chunk ? scratch + PART : sorted_rows };
}

template <class Key>
__global__ void __launch_bounds__(CHUNK) rank_kernel(const sorting sort, const Key key)
{
    SHARED(uint32_t, keys, [CHUNK]);
    const uint32_t start = blockIdx.x * CHUNK, row = start + threadIdx.x;
    const uint32_t count = sort.rows - start < CHUNK ? sort.rows - start : CHUNK;
    const uint32_t own = row < sort.rows ? key.at(row) : NO_KEY;
    keys[threadIdx.x] = own;
    __syncthreads();
    if (row >= sort.rows)
        return;
    uint32_t place = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < count; i++)
        place += keys[i] < own || (keys[i] == own && i < threadIdx.x);
    sort.ranked_keys[start + place] = own;
    sort.ranked_rows[start + place] = row;
}

// How many of `count` ascending keys are below `key`.
__device__ inline uint32_t how_many_below(const uint32_t *keys, uint32_t count, uint64_t key)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

template <class>
__global__ void __launch_bounds__(CHUNK) merge_kernel(const sorting sort)
{
    SHARED(uint32_t, keys, [CHUNK]);
    const uint32_t start = blockIdx.x * CHUNK, i = start + threadIdx.x;
    const bool mine = i < sort.rows;
    const uint32_t own = mine ? sort.ranked_keys[i] : NO_KEY;
    uint32_t place = threadIdx.x;
    for (uint32_t other = 0; other < sort.rows; other += CHUNK) {
        if (other == start)
            continue;
        const uint32_t count = sort.rows - other < CHUNK ? sort.rows - other : CHUNK;
        if (threadIdx.x < count)
            keys[threadIdx.x] = sort.ranked_keys[other + threadIdx.x];
        __syncthreads();
        // Among equal keys, those of earlier chunks come first.
        place += how_many_below(keys, count, (uint64_t)own + (other < start));
        __syncthreads();
    }
    if (mine) {
        sort.sorted_keys[place] = own;
        sort.sorted_rows[place] = sort.ranked_rows[i];
    }
}

template <class Key>
cudaError_t sort_rows(const struct cuda_launch *launch, const sorting &sort, const Key &key)
{
    const size_t chunks = blocks_for(sort.rows, CHUNK);
    const cudaError_t status = launch_blocks(launch, rank_kernel<Key>, chunks, CHUNK, 0, sort, key);
    if (status != cudaSuccess || chunks == 1)
        return status;
    return launch_blocks(launch, merge_kernel<Key>, chunks, CHUNK, 0, sort);
}

// The end of the run of equal keys that begins at `first`; `first` itself if none begins there.
__device__ inline uint32_t end_of_run(const uint32_t *keys, uint32_t count, uint32_t first)
{
    if (first >= count)
        return first;
    const uint32_t key = keys[first];
    if (key == NO_KEY || (first > 0 && keys[first - 1] == key))
        return first;
    uint32_t within = 1;  // most runs are short: look twice as far each time, then search back
    while (within < count - first && keys[first + within] == key)
        within *= 2;
    const uint32_t near = first + within / 2, left = count - near;
    const uint32_t most = within - within / 2 < left ? within - within / 2 : left;
    return near + how_many_below(keys + near, most, (uint64_t)key + 1);
}

#endif
