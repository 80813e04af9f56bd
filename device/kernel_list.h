// All kernels, one entry each, for whoever keeps their calls to make them later. Included
// where KERNEL is defined, with no guard, as often as there are things to make of the list:
//
//     KERNEL(name, (parameters), what is kept of them;, how they are taken, (how they are given), the kept members)
//
// What is kept is a copy, structs included: x->member of a struct kept_for_NAME *x.
#ifndef LIST
#define LIST(...) __VA_ARGS__
#endif

KERNEL(matmul, (struct queue *queue, const struct matmul *matmul),
       struct matmul matmul;,
       LIST(*matmul),
       (queue, &x->matmul),
       LIST(matmul))
KERNEL(fill, (struct queue *queue, struct values *out, float value, size_t count),
       struct values *out; float value; size_t count;,
       LIST(out, value, count),
       (queue, x->out, x->value, x->count),
       LIST(out, value, count))
KERNEL(fill_normal, (struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                     size_t count),
       struct values *out; float deviation; uint64_t key; uint64_t first; size_t count;,
       LIST(out, deviation, key, first, count),
       (queue, x->out, x->deviation, x->key, x->first, x->count),
       LIST(out, deviation, key, first, count))
KERNEL(add, (struct queue *queue, struct values *out, const struct values *a, const struct values *b, size_t count),
       struct values *out; const struct values *a; const struct values *b; size_t count;,
       LIST(out, a, b, count),
       (queue, x->out, x->a, x->b, x->count),
       LIST(out, a, b, count))
KERNEL(scale, (struct queue *queue, float *out, const float *in, float factor, size_t count),
       float *out; const float *in; float factor; size_t count;,
       LIST(out, in, factor, count),
       (queue, x->out, x->in, x->factor, x->count),
       LIST(out, in, factor, count))
KERNEL(add_floats, (struct queue *queue, float *out, const float *a, const float *b, size_t count),
       float *out; const float *a; const float *b; size_t count;,
       LIST(out, a, b, count),
       (queue, x->out, x->a, x->b, x->count),
       LIST(out, a, b, count))
KERNEL(widen, (struct queue *queue, float *out, const struct values *in, size_t count),
       float *out; const struct values *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count),
       LIST(out, in, count))
KERNEL(narrow, (struct queue *queue, struct values *out, const float *in, size_t count),
       struct values *out; const float *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count),
       LIST(out, in, count))
KERNEL(dropout, (struct queue *queue, struct values *out, const struct values *in, size_t count,
                 struct dropout dropout),
       struct values *out; const struct values *in; size_t count; struct dropout dropout;,
       LIST(out, in, count, dropout),
       (queue, x->out, x->in, x->count, x->dropout),
       LIST(out, in, count, dropout))
KERNEL(relu, (struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count),
       struct values *out; uint8_t *passed; const struct values *in; size_t count;,
       LIST(out, passed, in, count),
       (queue, x->out, x->passed, x->in, x->count),
       LIST(out, passed, in, count))
KERNEL(relu_backward, (struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                       const uint8_t *passed, size_t count),
       struct values *in_gradient; const struct values *out_gradient; const uint8_t *passed; size_t count;,
       LIST(in_gradient, out_gradient, passed, count),
       (queue, x->in_gradient, x->out_gradient, x->passed, x->count),
       LIST(in_gradient, out_gradient, passed, count))
KERNEL(add_branch, (struct queue *queue, struct values *out, const struct values *trunk, const struct values *branch,
                    const struct values *bias, size_t rows, size_t columns, struct dropout dropout),
       struct values *out; const struct values *trunk; const struct values *branch; const struct values *bias;
       size_t rows; size_t columns; struct dropout dropout;,
       LIST(out, trunk, branch, bias, rows, columns, dropout),
       (queue, x->out, x->trunk, x->branch, x->bias, x->rows, x->columns, x->dropout),
       LIST(out, trunk, branch, bias, rows, columns, dropout))
KERNEL(sum_columns, (struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns),
       float *sums; const struct values *in; size_t rows; size_t columns;,
       LIST(sums, in, rows, columns),
       (queue, x->sums, x->in, x->rows, x->columns),
       LIST(sums, in, rows, columns))
KERNEL(gelu, (struct queue *queue, struct values *out, const struct values *in, size_t count),
       struct values *out; const struct values *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count),
       LIST(out, in, count))
KERNEL(gelu_backward, (struct queue *queue, struct values *in_gradient, struct values *out,
                       const struct values *out_gradient, const struct values *in, size_t count),
       struct values *in_gradient; struct values *out; const struct values *out_gradient; const struct values *in;
       size_t count;,
       LIST(in_gradient, out, out_gradient, in, count),
       (queue, x->in_gradient, x->out, x->out_gradient, x->in, x->count),
       LIST(in_gradient, out, out_gradient, in, count))
KERNEL(softmax, (struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns),
       struct values *out; const struct values *in; size_t rows; size_t columns;,
       LIST(out, in, rows, columns),
       (queue, x->out, x->in, x->rows, x->columns),
       LIST(out, in, rows, columns))
KERNEL(layer_norm, (struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean, float *rstd),
       struct layer_norm norm; struct values *out; float *mean; float *rstd;,
       LIST(*norm, out, mean, rstd),
       (queue, &x->norm, x->out, x->mean, x->rstd),
       LIST(norm, out, mean, rstd))
KERNEL(layer_norm_again, (struct queue *queue, const struct layer_norm *norm, struct values *out, const float *mean,
                          const float *rstd),
       struct layer_norm norm; struct values *out; const float *mean; const float *rstd;,
       LIST(*norm, out, mean, rstd),
       (queue, &x->norm, x->out, x->mean, x->rstd),
       LIST(norm, out, mean, rstd))
KERNEL(layer_norm_backward_input, (struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                   const struct values *out_gradient, const struct values *add, const float *mean,
                                   const float *rstd),
       struct layer_norm norm; struct values *in_gradient; const struct values *out_gradient; const struct values *add;
       const float *mean; const float *rstd;,
       LIST(*norm, in_gradient, out_gradient, add, mean, rstd),
       (queue, &x->norm, x->in_gradient, x->out_gradient, x->add, x->mean, x->rstd),
       LIST(norm, in_gradient, out_gradient, add, mean, rstd))
KERNEL(layer_norm_backward_weight, (struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                    float *offset_gradient, const struct values *out_gradient, const float *mean,
                                    const float *rstd),
       struct layer_norm norm; float *gain_gradient; float *offset_gradient; const struct values *out_gradient;
       const float *mean; const float *rstd;,
       LIST(*norm, gain_gradient, offset_gradient, out_gradient, mean, rstd),
       (queue, &x->norm, x->gain_gradient, x->offset_gradient, x->out_gradient, x->mean, x->rstd),
       LIST(norm, gain_gradient, offset_gradient, out_gradient, mean, rstd))
KERNEL(embedding, (struct queue *queue, const struct embedding *embedding, struct values *out,
                   const struct values *words, const struct values *positions),
       struct embedding embedding; struct values *out; const struct values *words; const struct values *positions;,
       LIST(*embedding, out, words, positions),
       (queue, &x->embedding, x->out, x->words, x->positions),
       LIST(embedding, out, words, positions))
KERNEL(embedding_backward, (struct queue *queue, const struct embedding *embedding, float *words_gradient,
                            float *positions_gradient, const struct values *out_gradient),
       struct embedding embedding; float *words_gradient; float *positions_gradient; const struct values *out_gradient;,
       LIST(*embedding, words_gradient, positions_gradient, out_gradient),
       (queue, &x->embedding, x->words_gradient, x->positions_gradient, x->out_gradient),
       LIST(embedding, words_gradient, positions_gradient, out_gradient))
KERNEL(attention, (struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                   const struct values *qkv, void *workspace),
       struct attention attention; struct values *out; float *log_sums; const struct values *qkv; void *workspace;,
       LIST(*attention, out, log_sums, qkv, workspace),
       (queue, &x->attention, x->out, x->log_sums, x->qkv, x->workspace),
       LIST(attention, out, log_sums, qkv, workspace))
KERNEL(attention_backward, (struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                            const struct values *out_gradient, const struct values *out, const float *log_sums,
                            const struct values *qkv, void *workspace),
       struct attention attention; struct values *qkv_gradient; const struct values *out_gradient;
       const struct values *out; const float *log_sums; const struct values *qkv; void *workspace;,
       LIST(*attention, qkv_gradient, out_gradient, out, log_sums, qkv, workspace),
       (queue, &x->attention, x->qkv_gradient, x->out_gradient, x->out, x->log_sums, x->qkv, x->workspace),
       LIST(attention, qkv_gradient, out_gradient, out, log_sums, qkv, workspace))
KERNEL(cross_entropy, (struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums),
       struct cross_entropy loss; float *sum; float *log_sums;,
       LIST(*loss, sum, log_sums),
       (queue, &x->loss, x->sum, x->log_sums),
       LIST(loss, sum, log_sums))
KERNEL(cross_entropy_both, (struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                            struct values *logits_gradient, float gradient_scale),
       struct cross_entropy loss; float *sum; float *losses; struct values *logits_gradient; float gradient_scale;,
       LIST(*loss, sum, losses, logits_gradient, gradient_scale),
       (queue, &x->loss, x->sum, x->losses, x->logits_gradient, x->gradient_scale),
       LIST(loss, sum, losses, logits_gradient, gradient_scale))
KERNEL(cross_entropy_part, (struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                            float *target_logits),
       struct cross_entropy loss; float *log_sums; float *target_logits;,
       LIST(*loss, log_sums, target_logits),
       (queue, &x->loss, x->log_sums, x->target_logits),
       LIST(loss, log_sums, target_logits))
KERNEL(cross_entropy_join, (struct queue *queue, const struct cross_entropy_parts *parts, float *sum, float *log_sums),
       struct cross_entropy_parts parts; float *sum; float *log_sums;,
       LIST(*parts, sum, log_sums),
       (queue, &x->parts, x->sum, x->log_sums),
       LIST(parts, sum, log_sums))
KERNEL(cross_entropy_backward, (struct queue *queue, const struct cross_entropy *loss, struct values *logits_gradient,
                                const float *log_sums),
       struct cross_entropy loss; struct values *logits_gradient; const float *log_sums;,
       LIST(*loss, logits_gradient, log_sums),
       (queue, &x->loss, x->logits_gradient, x->log_sums),
       LIST(loss, logits_gradient, log_sums))
KERNEL(adamw, (struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span),
       struct adamw adamw; struct optimizer_span span;,
       LIST(*adamw, *span),
       (queue, &x->adamw, &x->span),
       LIST(adamw, span))
KERNEL(sgd, (struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span),
       struct sgd sgd; struct optimizer_span span;,
       LIST(*sgd, *span),
       (queue, &x->sgd, &x->span),
       LIST(sgd, span))
KERNEL(lars, (struct queue *queue, const struct lars *lars, const struct optimizer_span *span),
       struct lars lars; struct optimizer_span span;,
       LIST(*lars, *span),
       (queue, &x->lars, &x->span),
       LIST(lars, span))
KERNEL(lamb, (struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span),
       struct lamb lamb; struct optimizer_span span;,
       LIST(*lamb, *span),
       (queue, &x->lamb, &x->span),
       LIST(lamb, span))
KERNEL(adafactor, (struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span),
       struct adafactor adafactor; struct factored_span span;,
       LIST(*adafactor, *span),
       (queue, &x->adafactor, &x->span),
       LIST(adafactor, span))
KERNEL(adam8bit, (struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span),
       struct adamw adamw; struct eight_bit_span span;,
       LIST(*adamw, *span),
       (queue, &x->adamw, &x->span),
       LIST(adamw, span))
KERNEL(add_where, (struct queue *queue, float *sums, const float *in, float factor, const float *where, size_t count),
       float *sums; const float *in; float factor; const float *where; size_t count;,
       LIST(sums, in, factor, where, count),
       (queue, x->sums, x->in, x->factor, x->where, x->count),
       LIST(sums, in, factor, where, count))
KERNEL(take_signs, (struct queue *queue, struct sign_block *blocks, float *numbers, const float *where, size_t count),
       struct sign_block *blocks; float *numbers; const float *where; size_t count;,
       LIST(blocks, numbers, where, count),
       (queue, x->blocks, x->numbers, x->where, x->count),
       LIST(blocks, numbers, where, count))
KERNEL(add_signs, (struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                   const float *where, size_t count),
       float *sums; const struct sign_block *blocks; float factor; const float *where; size_t count;,
       LIST(sums, blocks, factor, where, count),
       (queue, x->sums, x->blocks, x->factor, x->where, x->count),
       LIST(sums, blocks, factor, where, count))
KERNEL(norm, (struct queue *queue, float *norm, const float *in, size_t count),
       float *norm; const float *in; size_t count;,
       LIST(norm, in, count),
       (queue, x->norm, x->in, x->count),
       LIST(norm, in, count))
KERNEL(clip, (struct queue *queue, const struct clip *clip, float *gradients, size_t count),
       struct clip clip; float *gradients; size_t count;,
       LIST(*clip, gradients, count),
       (queue, &x->clip, x->gradients, x->count),
       LIST(clip, gradients, count))

#undef KERNEL
