// The clock rates of a GPU, by NVML, which comes with the driver. The few functions needed are looked up at run time,
// since the toolkit may come without NVML's header.
#include <dlfcn.h>
#include <string.h>

#include "device/cuda/cuda.h"

enum { NVML_GOOD = 0, NVML_CHIP = 1, NVML_MEMORY = 2 };  // its success, and its clocks of multiprocessors and memory

struct nvml {
    int (*init)(void);
    int (*shut_down)(void);
    int (*find)(const char *bus, void **gpu);
    int (*clock)(void *gpu, int which, unsigned *mhz);
};

static bool find_function(void *library, const char *name, void *into)
{
    void *found = dlsym(library, name);
    memcpy(into, &found, sizeof found);  // C knows no cast from an object to a function
    return found != NULL;
}

static bool read_clocks(const struct nvml *nvml, const char *bus, struct device_clocks *clocks)
{
    void *gpu;
    if (nvml->init() != NVML_GOOD)
        return false;
    const bool good = nvml->find(bus, &gpu) == NVML_GOOD && nvml->clock(gpu, NVML_CHIP, &clocks->chip_mhz) == NVML_GOOD
        && nvml->clock(gpu, NVML_MEMORY, &clocks->memory_mhz) == NVML_GOOD;
    nvml->shut_down();
    return good;
}

bool cuda_clocks(const struct device *device, struct device_clocks *clocks)
{
    struct nvml nvml;
    char bus[32];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    const bool good = find_function(library, "nvmlInit_v2", &nvml.init)
        && find_function(library, "nvmlShutdown", &nvml.shut_down)
        && find_function(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.find)
        && find_function(library, "nvmlDeviceGetClockInfo", &nvml.clock)
        && cudaDeviceGetPCIBusId(bus, sizeof bus, cuda_device_of(device)->ordinal) == cudaSuccess
        && read_clocks(&nvml, bus, clocks);
    dlclose(library);
    return good;
}
