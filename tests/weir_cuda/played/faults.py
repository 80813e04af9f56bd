"""Faults that the played GPU must find: each is planted in the plug-in's own code, one at a time, by SConscript.

A row: its name, the file of device/cuda, what stands there, what stands there then, and what must not end well with it
(tests/cli/played_faults.sh). A row whose text is not there (once) any more is planted nowhere, and that test fails.
"""

FAULTS = [
    ('wait-missing', 'cuda_event.c',
     'cuda_check(queue, cudaStreamWaitEvent(cuda_launch_of(queue)->stream, event_of(event), 0), "waiting for an event");',
     '(void)queue, (void)event;',
     'verify 1f1b cuda'),
    ('freed-in-use', 'cuda_matmul.c',
     '    if (check(queue, status, matmul) && prepared->ends_separately)',
     '    struct error error = { 0 };  // a workspace for each product\n'
     '    cuda_give_workspace(queue->device, cublas->workspace, WORKSPACE_BYTES);\n'
     '    cuda_take_workspace(queue->device, &cublas->workspace, WORKSPACE_BYTES, &error);\n'
     '    if (check(queue, status, matmul) && prepared->ends_separately)',
     'kernels cuda'),
    ('leading-dimension', 'cuda_matmul.c',
     'matrix->rows, matrix->columns, matrix->leading);',
     'matrix->rows, matrix->columns, (int64_t)matrix->rows);',
     'layers cuda'),
    ('short-workspace', 'cuda_attention.c',
     'shape->batch * shape->heads * shape->sequence * sizeof(float);',
     'shape->batch * shape->heads * shape->sequence;',
     'kernels cuda:bf16'),
    ('lost-scale', 'cudnn_attention.c',
     'cudnn_both(graph, CUDNN_POINTWISE_MUL, weighed, scale, gradients);',
     'cudnn_both(graph, CUDNN_POINTWISE_MUL, weighed, cudnn_scalar(graph, ATTENTION_ONE), gradients);',
     'kernels cuda:bf16'),
    ('lost-bias', 'cuda_matmul.c',
     'return product->has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;',
     'return CUBLASLT_EPILOGUE_GELU_AUX;',
     'layers cuda:bf16'),
    ('event-too-early', 'cuda_communicator.c',
     '*ready = end->status == ncclSuccess;',
     '*ready = end->status == ncclSuccess || end->status == ncclInProgress;',
     'processes 1f1b cuda'),
    ('slot-too-early', 'cuda_queue.c',
     '        if (!cuda_check(queue, cudaMemcpyAsync((char *)to + offset, slot->memory, count,',
     '        cudaEventRecord(slot->done, stream);\n'
     '        slot = &(struct cuda_slot){ .memory = slot->memory, .done = cuda_device_of(queue->device)->clock.tries[0] };\n'
     '        if (!cuda_check(queue, cudaMemcpyAsync((char *)to + offset, slot->memory, count,',
     'queues'),
    ('download-unseen', 'cuda_event.c',
     'cuda_hand_over();',
     '',
     'queues'),
    ('illegal-in-capture', 'cuda_queue.c',
     'cuda_check(queue, cudaMemsetAsync(memory, 0, bytes, launch->stream), "zeroing memory");',
     'if (cudaStreamQuery(launch->stream) != cudaErrorLaunchFailure)\n'
     '        cuda_check(queue, cudaMemsetAsync(memory, 0, bytes, launch->stream), "zeroing memory");',
     'verify 1f1b cuda:graphs'),
    ('alignment', 'cuda_matmul.c',
     'return product->is_aligned ? 16 : number_bytes;',
     'return product->is_aligned ? 16 : 4 * number_bytes;',
     'kernels cuda:fp16'),
    ('messages-exchanged', 'cuda_communicator.c',
     'ncclSend(ends[i].data, ends[i].bytes,',
     'ncclSend(ends[i ^ (i + 1 < count || i % 2)].data, ends[i].bytes,',
     'processes replicas cuda'),
]


def planted(fault, text):
    """The file's text with the fault in it; None where it cannot be."""
    _, _, there, then, _ = fault
    return text.replace(there, then) if text.count(there) == 1 else None
