#include "device/cpu_onednn.h"

dnnl_status_t onednn_make_primitive(dnnl_primitive_t *primitive, dnnl_status_t status, dnnl_primitive_desc_t described)
{
    if (status == dnnl_success)
        status = dnnl_primitive_create(primitive, described);
    if (described)
        dnnl_primitive_desc_destroy(described);
    return status;
}

onednn_layout onednn_layout_wanted(dnnl_primitive_t primitive, int argument)
{
    const_dnnl_primitive_desc_t described = NULL;
    return dnnl_primitive_get_primitive_desc(primitive, &described) == dnnl_success
             ? dnnl_primitive_desc_query_md(described, dnnl_query_exec_arg_md, argument)
             : NULL;
}

uint64_t onednn_scratchpad_bytes(dnnl_primitive_t primitive)
{
    const onednn_layout scratchpad = onednn_layout_wanted(primitive, DNNL_ARG_SCRATCHPAD);
    return scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
}

dnnl_status_t onednn_run(dnnl_engine_t engine, dnnl_primitive_t primitive, const struct onednn_bound *bounds,
                         size_t count)
{
    enum { MOST = 5 };
    dnnl_exec_arg_t arguments[MOST] = { { 0 } };
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (size_t i = 0; status == dnnl_success && i < count; i++) {
        arguments[i].arg = bounds[i].argument;
        status = dnnl_memory_create(&arguments[i].memory, onednn_layout_wanted(primitive, bounds[i].argument), engine,
                                    (void *)(uintptr_t)bounds[i].address);
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(primitive, stream, (int)count, arguments);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    for (size_t i = 0; i < count; i++)
        if (arguments[i].memory)
            dnnl_memory_destroy(arguments[i].memory);
    if (stream)
        dnnl_stream_destroy(stream);
    return status;
}
