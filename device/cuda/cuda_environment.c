// What CUDA and NCCL read from the environment, once, when they are called first. That
// connections and launch order are needed is shown by tests/runtime/test_recorded.c, which
// plays CUDA's and NCCL's rules with them and without.
#include <pthread.h>
#include <stdlib.h>

#include "device/cuda/cuda.h"

static struct device_setting settings[] = {
    // Streams take turns on the connections to the GPU, 8 unless it is said, 32 at most. What has begun to wait on one,
    // such as a receive behind another, holds up whatever was given behind it on any stream of that connection; a rank
    // has up to five streams, and NCCL two more for each wire.
    { .name = "CUDA_DEVICE_MAX_CONNECTIONS", .value = "32",
      .why = "on fewer connections a message can wait for another stream's" },
    // With 1 every kernel of NCCL's starts after all that were launched before it on the device, so a send waits for a
    // receive that was posted early; and that its threads launch for several communicators at a time is an error.
    { .name = "NCCL_LAUNCH_ORDER_IMPLICIT", .value = "0",
      .why = "otherwise a message waits for all that were asked for before it" },
    // CUDA's own choice since 12.2. All at once would be all of cuBLASLt, NCCL and cuDNN in each process; our own kernels
    // are loaded when a device is opened, theirs when each action is rehearsed.
    { .name = "CUDA_MODULE_LOADING", .value = "LAZY", .why = "otherwise each process loads all kernels of all libraries" },
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };

static void set_all(void)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        settings[i].given = getenv(settings[i].name);
        setenv(settings[i].name, settings[i].value, 0);
    }
    // It would give all communicators one and the same address; rank 0 has been told of it by now (runtime/processes).
    unsetenv("NCCL_COMM_ID");
}

const struct device_setting *cuda_environment(size_t *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_all);
    *count = SETTINGS;
    return settings;
}
