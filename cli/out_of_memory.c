#include "cli/out_of_memory.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

typedef void handler(void);
typedef handler *set_handler(handler *new_handler);

// Must not allocate, nor run exit handlers.
static void end_for_want_of_memory(void)
{
    static const char sentence[] = "weir: no memory for oneDNN's matrix products\n";
    (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
    _exit(ERROR_MACHINE);
}

void out_of_memory_say(void)
{
    // std::set_new_handler: the handler is called before operator new throws. oneDNN provides the function, and is
    // itself linked dynamically.
    void *found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    set_handler *set;
    memcpy(&set, &found, sizeof set);  // ISO C has no cast from an object to a function pointer
    if (found)
        set(end_for_want_of_memory);
}
