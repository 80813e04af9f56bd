// Captures what a queue is given as a CUDA graph: the stream records calls instead of doing them. Its calls become
// nodes, each after the one before.
//
// During a capture the thread does nothing else: it launches kernels, and zeroes and copies memory within the device.
// All these functions have been called before, so that nothing is looked up, loaded or allocated. Other threads are
// not affected, whatever they do (cudaStreamCaptureModeThreadLocal).
#include "device/cuda/cuda.h"

static cudaStream_t stream_of(struct queue *queue)
{
    return cuda_launch_of(queue)->stream;
}

static bool begin_capture(struct queue *queue)
{
    return cuda_check(queue, cudaStreamBeginCapture(stream_of(queue), cudaStreamCaptureModeThreadLocal),
                      "beginning a capture");
}

// Uploads the graph to the device at once, so that its first launch takes no longer than later ones.
static cudaGraphExec_t make_ready(struct queue *queue, cudaGraph_t graph)
{
    cudaGraphExec_t ready = NULL;
    if (!cuda_check(queue, cudaGraphInstantiate(&ready, graph, 0), "making a graph"))
        return NULL;
    if (cuda_check(queue, cudaGraphUpload(ready, stream_of(queue)), "bringing a graph to the GPU"))
        return ready;
    cudaGraphExecDestroy(ready);
    return NULL;
}

// A call that could not be captured has broken the capture, which must be ended all the same.
static void *end_capture(struct queue *queue)
{
    cudaGraph_t graph = NULL;
    const bool good = cuda_check(queue, cudaStreamEndCapture(stream_of(queue), &graph), "capturing");
    const cudaGraphExec_t ready = good && !queue_has_failed(queue) ? make_ready(queue, graph) : NULL;
    if (graph)
        cudaGraphDestroy(graph);
    return ready;
}

static void launch_captured(struct queue *queue, void *captured)
{
    cuda_check(queue, cudaGraphLaunch(captured, stream_of(queue)), "launching a graph");
}

static void free_captured(struct device *device, void *captured)
{
    cuda_enter(device);
    cudaGraphExecDestroy(captured);
}

const struct capture_functions cuda_captures = {
    .begin = begin_capture,
    .end = end_capture,
    .launch = launch_captured,
    .free = free_captured,
};
