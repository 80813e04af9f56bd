// A chip that cuDNN is told of where there is no GPU. It then goes all the way but the loading of its kernels into a
// driver. For that there must be a driver; the toolkit's stub, which answers every call with an error, will do.
#ifndef TESTS_WEIR_CUDA_DESCRIBED_CHIP_H
#define TESTS_WEIR_CUDA_DESCRIBED_CHIP_H

#include <cudnn.h>
#include <dlfcn.h>
#include <stdbool.h>

static const char hopper[] =
    "{\"deviceName\":\"a Hopper\",\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
    "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":85029158912}";

static inline bool has_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) || dlopen(CUDA_STUBS "/libcuda.so", RTLD_NOW | RTLD_GLOBAL);
}

// NULL where this cuDNN reads another description.
static inline cudnnBackendDescriptor_t describe_chip(void)
{
    cudnnBackendDescriptor_t chip = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &chip) != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (cudnnBackendSetAttribute(chip, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof hopper,
                                 hopper) == CUDNN_STATUS_SUCCESS
        && cudnnBackendFinalize(chip) == CUDNN_STATUS_SUCCESS)
        return chip;
    cudnnBackendDestroyDescriptor(chip);
    return NULL;
}

#endif
