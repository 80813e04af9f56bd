#include "cli/out_of_memory.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

typedef void handler(void);
typedef handler *set_handler(handler *new_handler);

// Nothing is allocated, and nothing run that others left for the end.
static void end_for_want_of_memory(void)
{
    static const char sentence[] = "weir: no memory for oneDNN's matrix products\n";
    (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
    _exit(ERROR_MACHINE);
}

void out_of_memory_say(void)
{
    // std::set_new_handler: called before operator new throws. oneDNN brings it, and is itself linked dynamically.
    void *found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    set_handler *set;
    memcpy(&set, &found, sizeof set);  // ISO C knows no cast from an object to a function
    if (found)
        set(end_for_want_of_memory);
}
