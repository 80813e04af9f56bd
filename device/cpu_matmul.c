// Matrix products by oneDNN's sgemm, whose C signature is the same in 2.x and 3.x.
#include <oneapi/dnnl/dnnl.h>

#include "device/cpu.h"

// Functions of OpenMP, declared here since not every compiler finds its <omp.h>.
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int threads);

int cpu_begin_alone(void)
{
    const int threads = omp_get_max_threads();
    if (threads != 1)
        omp_set_num_threads(1);
    return threads;
}

void cpu_end_alone(int threads)
{
    if (threads != 1)
        omp_set_num_threads(threads);
}

void cpu_product(struct queue *queue, const struct matmul *matmul)
{
    const struct matmul *x = matmul;
    const int threads = cpu_begin_alone();
    const dnnl_status_t status
        = dnnl_sgemm(x->transpose_a ? 'T' : 'N', x->transpose_b ? 'T' : 'N', (dnnl_dim_t)x->m, (dnnl_dim_t)x->n,
                     (dnnl_dim_t)x->k, 1, floats_of(x->a), (dnnl_dim_t)x->lda, floats_of(x->b), (dnnl_dim_t)x->ldb,
                     x->sums ? 1 : 0, x->sums ? x->sums : floats(x->c), (dnnl_dim_t)x->ldc);
    cpu_end_alone(threads);
    if (status == dnnl_out_of_memory)
        queue_fail(queue, "oneDNN had no memory for a matrix product");
    else if (status != dnnl_success)
        queue_fail(queue, "oneDNN refused a matrix product");
}
