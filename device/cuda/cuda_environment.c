// The variables that CUDA and NCCL read from the environment, once, when they are first called. The test
// tests/runtime/ranks/test_recorded.c shows that the connections and the launch order are needed. It follows CUDA's
// and NCCL's rules with these settings and without.
#include <pthread.h>
#include <stdlib.h>

#include "device/cuda/cuda.h"

static struct device_setting settings[] = {
    // Streams share the connections to the GPU: 8 by default, 32 at most. A call that has begun to wait on a
    // connection, such as a receive behind another, holds up all later calls on any stream of that connection. A rank
    // has up to five streams, and NCCL two more for each wire.
    { .name = "CUDA_DEVICE_MAX_CONNECTIONS", .value = "32",
      .why = "on fewer connections a message can wait for another stream's" },
    // With 1 every kernel of NCCL starts after all kernels that were launched before it on the device. A send then
    // waits for a receive that was posted early. It would also be an error if the device's threads
    // launched for several communicators at a time.
    { .name = "NCCL_LAUNCH_ORDER_IMPLICIT", .value = "0",
      .why = "otherwise a message waits for all that were asked for before it" },
    // CUDA's own default since 12.2. Eager loading would load all of cuBLASLt, NCCL and cuDNN in each process. Our
    // own kernels are loaded when a device is opened, and those of libraries when each action is rehearsed.
    { .name = "CUDA_MODULE_LOADING", .value = "LAZY",
      .why = "otherwise each process loads all kernels of all libraries" },
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };

static void set_all(void)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        settings[i].given = getenv(settings[i].name);
        setenv(settings[i].name, settings[i].value, 0);
    }
    // NCCL_COMM_ID would give all communicators one and the same address. By now rank 0 has read the user's value
    // (runtime/groups/processes).
    unsetenv("NCCL_COMM_ID");
}

const struct device_setting *cuda_environment(size_t *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_all);
    *count = SETTINGS;
    return settings;
}
