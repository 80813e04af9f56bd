#include "runtime/guard/fence.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/number.h"

enum { LEAST_ZONE = 64 * 1024 };

bool fence_create(struct fence *fence, uint64_t bytes, struct error *error)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t whole = (bytes + page - 1) / page * page;  // bytes of the buffer's pages
    const uint64_t zone = (max_u64(LEAST_ZONE, whole) + page - 1) / page * page;
    const size_t mapped_bytes = page + zone + whole + zone + page;
    unsigned char *mapped =
        mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return error_no_memory(error, "a buffer of a layer and the zones around it");
    *fence = (struct fence){ .at = mapped + page + zone, .bytes = bytes, .before = zone,
                             .behind = whole - bytes + zone, .mapped = mapped, .mapped_bytes = mapped_bytes };
    if (mprotect(mapped, page, PROT_NONE) == 0 && mprotect(mapped + mapped_bytes - page, page, PROT_NONE) == 0)
        return true;
    fence_clear(fence);
    return error_no_memory(error, "the pages around a buffer of a layer");
}

void fence_clear(struct fence *fence)
{
    if (fence->mapped)
        munmap(fence->mapped, fence->mapped_bytes);
    *fence = (struct fence){ .at = NULL };
}

void fence_fill(struct fence *fence, unsigned char fill)
{
    memset(fence->at - fence->before, fill, fence->before);
    memset(fence->at + fence->bytes, fill, fence->behind);
}

bool fence_is_damaged(const struct fence *fence, unsigned char fill, uint64_t *before, uint64_t *behind)
{
    const unsigned char *first = fence->at - fence->before, *end = fence->at + fence->bytes;
    *before = fence->before;
    *behind = fence->behind;
    while (*before > 0 && first[fence->before - *before] == fill)
        --*before;
    while (*behind > 0 && end[*behind - 1] == fill)
        --*behind;
    return *before > 0 || *behind > 0;
}

bool fence_has(const struct fence *fence, const void *address)
{
    const uintptr_t first = (uintptr_t)fence->mapped, position = (uintptr_t)address;
    return fence->mapped && position >= first && position < first + fence->mapped_bytes;
}
