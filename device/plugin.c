#include "device/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The folder of a file; the empty string if the name has no folder.
static void folder_of(const char *file, char folder[PATH_MAX])
{
    const char *slash = strrchr(file, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - file) : 0, file);
}

static bool is_there(char path[PATH_MAX], const char *folder, const char *below, const char *name)
{
    return snprintf(path, PATH_MAX, "%s%s/weir-%s.so", folder, below, name) < PATH_MAX && access(path, F_OK) == 0;
}

static bool find_in_folder_of(char path[PATH_MAX], const char *file, const char *name)
{
    static const char *const below[] = { "/weir", "", "/../lib/weir", "/../lib" };
    char folder[PATH_MAX];
    folder_of(file, folder);
    for (size_t i = 0; folder[0] && i < sizeof below / sizeof below[0]; i++)
        if (is_there(path, folder, below[i], name))
            return true;
    return false;
}

// The shared library that this code is a part of. "" in a program, whose name here is whatever its caller called it.
static const char *own_library(void)
{
    static const char here;
    Dl_info ignored;
    struct link_map *library;
    const bool is_known = dladdr1(&here, &ignored, (void **)&library, RTLD_DL_LINKMAP) != 0;
    return is_known && library->l_name ? library->l_name : "";
}

static bool find(char path[PATH_MAX], const char *name, struct error *error)
{
    const char *given = getenv("WEIR_PLUGINS");
    if (given) {
        if (is_there(path, given, "", name))
            return true;
        return error_set_kind(error, ERROR_MACHINE, "there is no weir-%s.so in $WEIR_PLUGINS, which is \"%s\"", name,
                              given);
    }
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    if (find_in_folder_of(path, own_library(), name) || find_in_folder_of(path, program, name))
        return true;
    return error_set_kind(error, ERROR_MACHINE,
                          "weir-%s.so is not installed, in lib/weir beside the program's bin (\"scons %s=yes install\""
                          " builds it; WEIR_PLUGINS names a folder that has it)",
                          name, name);
}

// Calls the function by which a plug-in describes itself: weir_NAME_plugin().
static const struct plugin *ask(void *object, const char *name)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "weir_%s_plugin", name);
    const struct plugin *(*tell)(void);
    void *found = dlsym(object, symbol);
    memcpy(&tell, &found, sizeof tell);  // C knows no cast from an object to a function
    return found ? tell() : NULL;
}

// Opens the shared object at `path`, which is weir-NAME.so or a variant of it.
static const struct plugin *open_at(const char *path, const char *name, struct error *error)
{
    // Never closed: CUDA's libraries have threads and exit handlers of their own.
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return error_null(error_set_kind(error, ERROR_MACHINE, "weir-%s.so cannot be opened: %s", name, dlerror()));
    const struct plugin *plugin = ask(object, name);
    if (!plugin)
        error_set_kind(error, ERROR_MACHINE, "%s is no plug-in of Weir's", path);
    else if (strcmp(plugin->version, WEIR_VERSION) != 0)
        error_set_kind(error, ERROR_MACHINE, "%s is of Weir %s, and this is Weir %s (install both from one build)",
                       path, plugin->version, WEIR_VERSION);
    else if (strcmp(plugin->boundary, WEIR_BOUNDARY) != 0)
        error_set_kind(error, ERROR_MACHINE, "%s is of another build of Weir %s (install both from one build)", path,
                       WEIR_VERSION);
    else
        return plugin;
    return NULL;
}

const struct plugin *plugin_open(const char *name, struct error *error)
{
    char path[PATH_MAX];
    return find(path, name, error) ? open_at(path, name, error) : NULL;
}

const struct plugin *plugin_open_mpi(struct error *error)
{
    const char *of_launcher = getenv("OMPI_COMM_WORLD_RANK") ? "mpi-openmpi" : getenv("PMI_RANK") ? "mpi-mpich" : NULL;
    char path[PATH_MAX];
    if (of_launcher && find(path, of_launcher, &(struct error){ 0 }))
        return open_at(path, "mpi", error);
    return plugin_open("mpi", error);
}
