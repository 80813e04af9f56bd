// Whether all of our kernels are loaded when a device is opened: this program is the CUDA runtime that they register
// with when it starts, and that is asked for their attributes. CUDA's own, where it is linked all the same because its
// objects want more of it than stands here, takes precedence.
#include "device/cuda/launch.h"

#include "tests/test.h"

#pragma weak cudaFuncGetAttributes
#pragma weak cudaFuncSetAttribute
#pragma weak cudaLaunchKernelExC
#pragma weak __cudaRegisterFatBinary
#pragma weak __cudaRegisterFatBinaryEnd
#pragma weak __cudaUnregisterFatBinary
#pragma weak __cudaRegisterFunction
#pragma weak __cudaInitModule
#pragma weak __cudaPopCallConfiguration
#pragma weak __cudaGetKernel
#pragma weak __cudaLaunchKernel

static struct kernel {
    const void *address;
    const char *name;
    bool is_loaded;
} kernels[1000];
static size_t kernel_count;

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *address)
{
    (void)attributes;
    for (size_t i = 0; i < kernel_count; i++)
        if (kernels[i].address == address) {
            kernels[i].is_loaded = true;
            return cudaSuccess;
        }
    return cudaErrorInvalidDeviceFunction;
}

// --- what nvcc's objects call when they start (crt/host_runtime.h) -----------------------

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *address, char *function, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp);
char __cudaInitModule(void **handle);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *address, char *function, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp)
{
    (void)handle, (void)function, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (kernel_count < sizeof kernels / sizeof kernels[0])
        kernels[kernel_count++] = (struct kernel){ address, name, false };
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 0;
}

// --- what launches would call --------------------------------------------------------------

cudaError_t __cudaPopCallConfiguration(void);
cudaError_t __cudaGetKernel(void);
cudaError_t __cudaLaunchKernel(void);

cudaError_t __cudaPopCallConfiguration(void)
{
    abort();
}

cudaError_t __cudaGetKernel(void)
{
    abort();
}

cudaError_t __cudaLaunchKernel(void)
{
    abort();
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments)
{
    (void)config, (void)kernel, (void)arguments;
    abort();
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    (void)kernel, (void)attribute, (void)value;
    abort();
}

// -------------------------------------------------------------------------------------------

static void every_kernel_is_loaded(void **state)
{
    (void)state;
    if (kernel_count == 0)
        TEST_SKIP("kernels register in another way than this test knows");
    assert_true(kernel_count < sizeof kernels / sizeof kernels[0]);
    assert_int_equal(cuda_load_kernels(), cudaSuccess);
    for (size_t i = 0; i < kernel_count; i++)
        if (!kernels[i].is_loaded)
            fail_msg("cuda_load_kernels() leaves out %s", kernels[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_loaded),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
