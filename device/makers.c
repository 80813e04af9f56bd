// The list of makers. It is separate from device.c so that a plug-in, which has its own copy of device.c, contains no
// other maker.
#include <stdlib.h>
#include <string.h>

#include "device/maker.h"
#include "device/plugin.h"

static const struct maker {
    const char *name;
    const struct device_functions *functions;  // NULL: they are in the plug-in of that name
} makers[] = {
    { "cpu", &cpu_functions },
    { "cuda", NULL },
};

// The maker that "NAME" or "NAME:detail" asks for; *detail is what follows the colon.
static const struct maker *maker_find(const char *name, const char **detail)
{
    const size_t length = strcspn(name, ":");
    *detail = name[length] ? name + length + 1 : "";
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (strlen(makers[i].name) == length && memcmp(makers[i].name, name, length) == 0)
            return &makers[i];
    return NULL;
}

static const struct device_functions *functions_of(const struct maker *maker, struct error *error)
{
    if (maker->functions)
        return maker->functions;
    const struct plugin *plugin = plugin_open(maker->name, error);
    return plugin ? plugin->device : NULL;
}

static const struct maker *maker_of(const char *name, const char **detail, struct error *error)
{
    const struct maker *maker = maker_find(name, detail);
    if (!maker)
        error_set(error, "there is no device %s (the devices are: cpu and cuda)", name);
    return maker;
}

bool device_environment(const char *name, const struct device_setting **settings, size_t *count, struct error *error)
{
    const char *detail;
    const struct maker *maker = maker_of(name, &detail, error);
    const struct device_functions *functions = maker ? functions_of(maker, error) : NULL;
    *settings = functions && functions->environment ? functions->environment(count) : NULL;
    if (!*settings)
        *count = 0;
    return functions != NULL;
}

struct device *device_open(const char *name, struct error *error)
{
    const char *detail;
    const struct maker *maker = maker_of(name, &detail, error);
    const struct device_functions *functions = maker ? functions_of(maker, error) : NULL;
    if (!functions)
        return NULL;
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_null(error_no_memory(error, "a device"));
    device->name = maker->name;
    device->functions = functions;
    pthread_mutex_init(&device->lock, NULL);
    if (!device->functions->open(device, detail, error)) {
        pthread_mutex_destroy(&device->lock);
        free(device);
        return NULL;
    }
    if (!device->communicators)
        device->communicators = device->functions->communicators;
    return device;
}

struct device *device_open_host(const struct device *device, struct error *error)
{
    return device_open(device->host, error);
}
