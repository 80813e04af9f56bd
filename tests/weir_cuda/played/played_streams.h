// Private to the played GPU: what stands behind CUDA's streams and events.
#ifndef TESTS_PLAYED_STREAMS_H
#define TESTS_PLAYED_STREAMS_H

#include "tests/weir_cuda/played/played.h"

cudaError_t played_stream_open(cudaStream_t *stream);
void played_stream_close(cudaStream_t stream);
bool played_stream_is_done(cudaStream_t stream);

cudaError_t played_event_open(cudaEvent_t *event, bool is_timed);
void played_event_close(cudaEvent_t event);
cudaError_t played_event_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t played_event_await(cudaEvent_t event, cudaStream_t stream);
bool played_event_is_done(cudaEvent_t event);
cudaError_t played_event_elapsed(float *ms, cudaEvent_t from, cudaEvent_t to);

// A function of the host, in a thread that has no other work, as CUDA has one.
cudaError_t played_call_host(cudaStream_t stream, played_work *function, void *data);

cudaError_t played_capture_begin(cudaStream_t stream);
cudaError_t played_capture_end(cudaStream_t stream, cudaGraph_t *graph);
void played_graph_free(cudaGraph_t graph);
cudaError_t played_graph_ready(cudaGraphExec_t *ready, cudaGraph_t graph);
void played_ready_free(cudaGraphExec_t ready);
cudaError_t played_graph_launch(cudaGraphExec_t ready, cudaStream_t stream);

#endif
