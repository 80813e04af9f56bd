// Memory of the played GPU, and pinned memory of its host:
//
//     | nobody's page | 5a 5a .. | bytes, NaN at first | 5a | nobody's page |
//                                ^ a multiple of 256         ^ so near that what reads behind the end stops here
//
// What is given back is nobody's from then on, and its addresses are not used again for a long time.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/weir_cuda/played/played.h"

enum { PAGE = 4096, NAN_BYTE = 0xff, GUARD_BYTE = 0x5a, MOST_FREED = 4096 };

struct block {
    unsigned char *memory;
    size_t bytes;
    enum played_place place;
    unsigned char *all;  // with what is around it
    size_t all_bytes;
};

static struct {
    pthread_mutex_t lock;
    struct block *blocks;
    size_t count, capacity;
    struct block freed[MOST_FREED];  // a ring
    size_t freed_count;
    size_t used;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

size_t played_room(void)
{
    const char *said = getenv("PLAYED_MEMORY");
    return said ? strtoull(said, NULL, 10) : (size_t)80 << 30;
}

size_t weir_played_used(void)
{
    pthread_mutex_lock(&table.lock);
    const size_t used = table.used;
    pthread_mutex_unlock(&table.lock);
    return used;
}

// --- what touches memory that is not there ------------------------------------------------

static bool holds(const struct block *block, const unsigned char *address)
{
    return address >= block->all && address < block->all + block->all_bytes;
}

static const char *name_of(enum played_place place)
{
    return place == ON_GPU ? "the GPU's memory" : "pinned memory";
}

// An access that a page has stopped: the process ends here, so whatever it holds does not matter.
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    const unsigned char *address = info->si_addr;
    for (size_t i = 0; i < table.count; i++)
        if (holds(&table.blocks[i], address))
            played_complain("an access at byte %td of %zu bytes of %s", address - table.blocks[i].memory,
                            table.blocks[i].bytes, name_of(table.blocks[i].place));
    for (size_t i = 0; i < table.freed_count && i < MOST_FREED; i++)
        if (holds(&table.freed[i], address))
            played_complain("an access at byte %td of %zu bytes of %s that were given back",
                            address - table.freed[i].memory, table.freed[i].bytes, name_of(table.freed[i].place));
    signal(signal_number, SIG_DFL);  // it is not ours: it happens again
}

static void watch_faults(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

// --- taking and giving ----------------------------------------------------------------------

static size_t rounded(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static bool map(struct block *block)
{
    const size_t whole = rounded(block->bytes, 256), inner = rounded(whole, PAGE);
    block->all_bytes = inner + 2 * PAGE;
    block->all = mmap(NULL, block->all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block->all == MAP_FAILED || mprotect(block->all + PAGE, inner, PROT_READ | PROT_WRITE) != 0)
        return false;
    madvise(block->all + PAGE, inner, MADV_HUGEPAGE);  // workspaces of 32 MiB are written whole: quicker, if it is to be had
    block->memory = block->all + PAGE + (inner - whole);
    memset(block->all + PAGE, GUARD_BYTE, inner - whole);
    memset(block->memory, NAN_BYTE, block->bytes);
    memset(block->memory + block->bytes, GUARD_BYTE, whole - block->bytes);
    return true;
}

static bool add(const struct block *block)
{
    if (table.count == table.capacity) {
        const size_t capacity = table.capacity ? 2 * table.capacity : 64;
        struct block *grown = realloc(table.blocks, capacity * sizeof *grown);
        if (!grown)
            return false;
        table.blocks = grown;
        table.capacity = capacity;
    }
    table.blocks[table.count++] = *block;
    return true;
}

bool played_take(void **memory, size_t bytes, enum played_place place)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct block block = { .bytes = bytes, .place = place };
    pthread_once(&once, watch_faults);
    pthread_mutex_lock(&table.lock);
    const bool taken = (place == ON_HOST || bytes <= played_room() - table.used) && map(&block) && add(&block);
    if (taken && place == ON_GPU)
        table.used += bytes;
    pthread_mutex_unlock(&table.lock);
    *memory = taken ? block.memory : NULL;
    return taken;
}

static void look_at_guards(const struct block *block)
{
    const unsigned char *first = block->all + PAGE, *end = block->all + block->all_bytes - PAGE;
    for (const unsigned char *at = first; at < block->memory; at++)
        if (*at != GUARD_BYTE)
            played_complain("something was written %td bytes in front of %zu bytes of %s", block->memory - at,
                            block->bytes, name_of(block->place));
    for (const unsigned char *at = block->memory + block->bytes; at < end; at++)
        if (*at != GUARD_BYTE)
            played_complain("something was written %td bytes behind the end of %zu bytes of %s",
                            at - (block->memory + block->bytes), block->bytes, name_of(block->place));
}

void played_look_at_guards(void)
{
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.count; i++)
        look_at_guards(&table.blocks[i]);
    pthread_mutex_unlock(&table.lock);
}

// The oldest of those that were freed has its addresses given back.
static void retire(const struct block *block)
{
    struct block *place = &table.freed[table.freed_count++ % MOST_FREED];
    if (place->all)
        munmap(place->all, place->all_bytes);
    *place = *block;
    if (mprotect(block->all, block->all_bytes, PROT_NONE) != 0
        || madvise(block->all, block->all_bytes, MADV_DONTNEED) != 0)
        played_complain("the system takes no memory back");
}

bool played_give(void *memory, enum played_place place)
{
    size_t bytes = 0;
    pthread_mutex_lock(&table.lock);
    size_t i = 0;
    while (i < table.count && (table.blocks[i].memory != memory || table.blocks[i].place != place))
        i++;
    const bool found = i < table.count;
    bytes = found ? table.blocks[i].bytes : 0;
    pthread_mutex_unlock(&table.lock);
    const char *user = found ? played_is_in_use(memory, bytes) : NULL;
    if (user)
        played_complain("%zu bytes of %s are given back while %s is to use them", bytes, name_of(place), user);
    if (!found)
        return false;
    pthread_mutex_lock(&table.lock);
    for (i = 0; table.blocks[i].memory != memory;)
        i++;
    look_at_guards(&table.blocks[i]);
    if (place == ON_GPU)
        table.used -= bytes;
    retire(&table.blocks[i]);
    table.blocks[i] = table.blocks[--table.count];
    pthread_mutex_unlock(&table.lock);
    return true;
}

// --- looking ------------------------------------------------------------------------------------

bool played_is_inside(const void *memory, size_t bytes)
{
    const unsigned char *first = memory;
    bool inside = false;
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.count && !inside; i++) {
        const struct block *block = &table.blocks[i];
        inside = first >= block->memory && first <= block->memory + block->bytes
              && bytes <= (size_t)(block->memory + block->bytes - first);
    }
    pthread_mutex_unlock(&table.lock);
    return inside;
}

void played_must_be_inside(const void *memory, size_t bytes, const char *what)
{
    if (bytes > 0 && !played_is_inside(memory, bytes))
        played_complain("%s of %zu bytes reaches beyond memory that a GPU knows", what, bytes);
}
