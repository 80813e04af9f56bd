// Kernels of models that read clicks: bags of rows of tables, what joins their vectors, and the loss of a yes or no.
// The rules of kernels.h hold here too. All of these kernels need a device in fp32; others refuse them.
//
// The CPU gives the same bits by every instruction set. So do GPUs, but for logarithms and
// losses: each product is rounded before it is added, and additions have a stated order.
#ifndef DEVICE_TABLE_KERNELS_H
#define DEVICE_TABLE_KERNELS_H

#include "device/kernels.h"
#include "device/row_list.h"

// torch.nn.EmbeddingBag: a bag is a list of ids, which are rows of one matrix. Bags lie one behind the other:
//
//     ids    4 7 7 | 2 | | 9 1        ends    3 4 4 6
//
// The number of ids is known to the device alone, so `most` says how many there is room for. An id outside of the rows,
// and an end before the one in front of it or past `most`, fail the queue.
struct bags {
    const int32_t *ids, *ends;  // bag b has the ids from ends[b - 1], or from 0, up to ends[b]
    const float *weights;       // of each id; NULL: all are 1
    // The place of each row in the matrix that is given. A row with a negative one is not there, and adds nothing.
    // NULL: a row's place is its number.
    const int32_t *places;
    size_t count, most;         // bags, and ids at most
    size_t rows, columns;
    bool is_mean;               // the sum of a bag is divided by its ids
};
// out[bag] = the sum of weight * matrix[place], one id after the other. An empty bag gives zeros.
void kernel_bag(struct queue *queue, const struct bags *bags, struct values *out, const struct values *matrix);
// The gradient of the matrix; *added to*. Each id adds its own, and those of one row do so in the order of the ids. So
// the sum goes on over several calls with the bits of one call with all bags.
void kernel_bag_backward(struct queue *queue, const struct bags *bags, float *matrix_gradient,
                         const struct values *out_gradient);

// Adds the rows that bags name to a list. Those that are new there get sums of 0. The queue fails if there is no room.
// With the list's places and sums, kernel_bag_backward() then adds up the gradient by rows.
void kernel_list_rows(struct queue *queue, const struct row_list *list, const struct bags *bags);

// Adds the sums of another list of the same matrix. Rows that are new there get what they have in the other one. The
// other list needs no places. The queue fails if there is no room.
void kernel_add_list(struct queue *queue, const struct row_list *list, const struct row_list *other);

// Updates of the rows in a list, whose sums are their gradients; `gradients` of the span is not read. The span is the
// whole matrix, and other rows of it are neither read nor written. SGD and Adagrad give each row the bits that
// kernel_sgd() and kernel_adagrad() give it.
//
// With `is_by_row`, Adagrad keeps one number for each row (FBGEMM's exact row-wise Adagrad), to which it adds the mean
// of the squares. They are added up in sums 0 to 15, column c in c % 16, and those by halves. Nothing decays then.
//
// Adam is that of torch.optim.SparseAdam (is_lazy in struct adamw): moments of rows without a gradient stay as they
// are.
void kernel_sgd_rows(struct queue *queue, const struct sgd *sgd, const struct row_list *list,
                     const struct optimizer_span *span);
void kernel_adagrad_rows(struct queue *queue, const struct adagrad *adagrad, const struct row_list *list,
                         const struct optimizer_span *span, bool is_by_row);
void kernel_adamw_rows(struct queue *queue, const struct adamw *adamw, const struct row_list *list,
                       const struct optimizer_span *span);

// Copies the rows of a matrix that are in a list to the list's sums. With `swaps` they change places with the sums, so
// that a second call undoes the first.
void kernel_move_rows(struct queue *queue, const struct row_list *list, float *matrix, bool swaps);

// The norm of the gradient of rows from number `first` on, in double. The squares of a row are added up as above, and
// then row by row in the order of their numbers, whatever their order in the list. On a GPU that order depends on the
// number of these rows.
void kernel_norm_rows(struct queue *queue, float *norm, const struct row_list *list, size_t first);

// The interaction of DLRM. With T = [bottom; vector 1; ..; vector n] of each sample:
//
//     out = | bottom | T1 T0 | T2 T0 | T2 T1 | T3 T0 | ..    the products below the diagonal of T T^t, row by row
//
// Without a bottom (NULL), T has the vectors only.
struct interaction {
    const struct values *bottom, *vectors;  // [samples][columns], [samples][count][columns]
    size_t samples, count, columns;
};
static inline size_t interaction_rows(size_t count, bool has_bottom)
{
    return count + has_bottom;
}
static inline size_t interaction_width(size_t count, size_t columns, bool has_bottom)
{
    const size_t rows = interaction_rows(count, has_bottom);
    return (has_bottom ? columns : 0) + rows * (rows - 1) / 2;
}
void kernel_interaction(struct queue *queue, const struct interaction *interaction, struct values *out);
void kernel_interaction_backward(struct queue *queue, const struct interaction *interaction,
                                 struct values *bottom_gradient, struct values *vectors_gradient,
                                 const struct values *out_gradient);

// The cross of DCN v2: out = first * y + add, where y is W (V add) + b. The backward gives the gradients of first, y
// and add. If add_gradient is NULL, `add` is `first`, and its gradient is part of that one's.
void kernel_cross(struct queue *queue, struct values *out, const struct values *first, const struct values *y,
                  const struct values *add, size_t count);
void kernel_cross_backward(struct queue *queue, struct values *first_gradient, struct values *y_gradient,
                           struct values *add_gradient, const struct values *out_gradient, const struct values *first,
                           const struct values *y, size_t count);

// out[row] = the sum of the row's numbers; *added to* out unless `is_first`. The backward copies a row's gradient to
// each of its numbers.
void kernel_sum_rows(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns,
                     bool is_first);
void kernel_sum_rows_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                              size_t rows, size_t columns);

// out = log(max(x, 0) + 1): counts of anything become numbers of a small range.
void kernel_log_counts(struct queue *queue, struct values *out, const struct values *in, size_t count);

// torch.nn.BCEWithLogitsLoss: the probability of a yes (target 1) is 1 / (1 + exp(-logit)). A row with NO_TARGET has no
// loss, and its gradient is 0. Any other target than 0, 1 and NO_TARGET fails the queue.
struct binary_cross_entropy {
    const struct values *logits;
    const int32_t *targets;
    size_t rows;
    float scale;
};
// sum = scale * the sum over the rows of their losses, which go to `losses`. The gradient is that of `sum`; NULL: it is
// not wanted.
void kernel_binary_cross_entropy(struct queue *queue, const struct binary_cross_entropy *loss, float *sum,
                                 float *losses, struct values *logits_gradient);

#endif
