/* A CUDA driver whose device memory is the host's, and whose streams do everything at once. Enough of the driver API for
   serving/runtime/tensorrt/cuda_driver.py and this_machine.py, so that the calls NVIDIA's bindings make are real ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Address;
typedef struct { size_t srcX, srcY; unsigned srcType; const void* srcHost; Address srcDevice; void* srcArray; size_t srcPitch;
                 size_t dstX, dstY; unsigned dstType; void* dstHost; Address dstDevice; void* dstArray; size_t dstPitch;
                 size_t width, height; } Copy2D;

enum { RECORDING = 8 << 20 };  /* what an instantiated graph takes of the GPU's gibibyte */
static size_t taken = 0;
static uint64_t handles = 0x100;
static Result handle(void** made) { *made = (void*)(handles += 0x10); return 0; }

Result cuInit(unsigned flags) { return 0; }
Result cuDriverGetVersion(int* version) { *version = 13030; return 0; }
Result cuDeviceGet(int* device, int number) { *device = number; return number == 0 ? 0 : 101; }
Result cuDeviceGetName(char* name, int length, int device) { strncpy(name, "NVIDIA Made Of Paper", length); return 0; }
Result cuDeviceGetAttribute(int* value, int which, int device) { *value = which == 75 ? 9 : which == 76 ? 0 : -1; return 0; }
Result cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = (size_t)1 << 30; return device == 0 ? 0 : 101; }
Result cuDevicePrimaryCtxRetain(void** context, int device) { return handle(context); }
Result cuDeviceGetDefaultMemPool(void** pool, int device) { return handle(pool); }
Result cuMemPoolSetAttribute(void* pool, int which, void* value) { return which == 4 && *(uint64_t*)value == ~0ull ? 0 : 1; }
Result cuCtxSetCurrent(void* context) { return context ? 0 : 201; }
Result cuStreamCreate(void** stream, unsigned flags) { return flags == 1 ? handle(stream) : 1; }
Result cuStreamSynchronize(void* stream) { return stream ? 0 : 400; }
Result cuStreamWaitEvent(void* stream, void* event, unsigned flags) { return stream && event ? 0 : 400; }
Result cuStreamBeginCapture(void* stream, int mode) { return mode == 1 ? 0 : 1; }
Result cuStreamEndCapture(void* stream, void** graph) { return handle(graph); }
Result cuEventCreate(void** event, unsigned flags) { return flags == 2 ? handle(event) : 1; }
Result cuEventRecord(void* event, void* stream) { return stream && event ? 0 : 400; }
Result cuEventSynchronize(void* event) { return event ? 0 : 400; }
Result cuMemAllocAsync(Address* made, size_t size, void* stream) { *made = (Address)malloc(size); return stream ? 0 : 400; }
Result cuMemFreeAsync(Address address, void* stream) { free((void*)address); return stream ? 0 : 400; }
Result cuMemHostAlloc(void** made, size_t size, unsigned flags) { *made = malloc(size); return flags; }
Result cuMemFreeHost(void* address) { free(address); return 0; }
Result cuMemsetD8Async(Address to, unsigned char value, size_t size, void* stream) { memset((void*)to, value, size); return 0; }
Result cuMemcpyHtoDAsync(Address to, const void* from, size_t size, void* stream) { memcpy((void*)to, from, size); return 0; }
Result cuMemcpyDtoHAsync(void* to, Address from, size_t size, void* stream) { memcpy(to, (void*)from, size); return 0; }
Result cuMemcpyDtoDAsync(Address to, Address from, size_t size, void* stream) { memcpy((void*)to, (void*)from, size); return 0; }
Result cuMemcpy2DAsync(const Copy2D* plan, void* stream) {
    if (plan->srcType != 2 || plan->dstType != 2) return 1;
    for (size_t line = 0; line < plan->height; ++line)
        memcpy((char*)plan->dstDevice + line * plan->dstPitch, (char*)plan->srcDevice + line * plan->srcPitch, plan->width);
    return 0;
}
Result cuMemGetInfo(size_t* left, size_t* total) { *left = ((size_t)1 << 30) - taken; *total = (size_t)1 << 30; return 0; }
Result cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long flags) {
    taken += RECORDING;
    return graph ? handle(ready) : 1;
}
Result cuGraphDestroy(void* graph) { return graph ? 0 : 1; }
Result cuGraphLaunch(void* ready, void* stream) { return ready && stream ? 0 : 400; }
Result cuGraphExecDestroy(void* ready) { taken -= RECORDING; return ready ? 0 : 400; }

Result cuGetProcAddress_v2(const char* name, void** found, int version, uint64_t flags, int* status) {
    Dl_info own;
    dladdr((void*)cuInit, &own);
    *found = dlsym(dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name);
    if (status) *status = *found ? 0 : 1;
    return *found ? 0 : 500;
}
Result cuGetProcAddress(const char* name, void** found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
