// All kernels: the parameters of each, and a list from which tables and functions are made. A new kernel is its rows
// here, its prototype in kernels.h, picture_kernels.h, table_kernels.h or expert_kernels.h, and its functions for the
// processor and for CUDA.
//
//     V(type, name)     a parameter that is given as it is
//     S(struct, name)   a `const struct *`, of which a call that is kept has a copy
//
// KERNELS(K) is K(name, launch, words) for each kernel, whose parameters are PARAMETERS_name. A user of the list has a
// K, V and S of its own. `words` are for errors, and `launch` is how CUDA launches it:
//
//     ONE_PASS   the function of launch.h
//     SUMMING    the same with a scratch, since it adds up between two passes
//     LIBRARY    a function of its own, which asks cuBLASLt or cuDNN
#ifndef DEVICE_KERNEL_LIST_H
#define DEVICE_KERNEL_LIST_H

#define PARAMETERS_matmul(V, S) S(struct matmul, matmul)
#define PARAMETERS_fill(V, S) V(struct values *, out) V(float, value) V(size_t, count)
#define PARAMETERS_fill_normal(V, S) V(struct values *, out) V(float, deviation) V(uint64_t, key) \
    V(uint64_t, first) V(size_t, count)
#define PARAMETERS_add(V, S) V(struct values *, out) V(const struct values *, a) V(const struct values *, b) \
    V(size_t, count)
#define PARAMETERS_scale(V, S) V(float *, out) V(const float *, in) V(float, factor) V(size_t, count)
#define PARAMETERS_add_floats(V, S) V(float *, out) V(const float *, a) V(const float *, b) V(size_t, count)
#define PARAMETERS_widen(V, S) V(float *, out) V(const struct values *, in) V(size_t, count)
#define PARAMETERS_narrow(V, S) V(struct values *, out) V(const float *, in) V(size_t, count)
#define PARAMETERS_dropout(V, S) V(struct values *, out) V(const struct values *, in) V(size_t, count) \
    V(struct dropout, dropout)
#define PARAMETERS_relu(V, S) V(struct values *, out) V(uint8_t *, passed) V(const struct values *, in) \
    V(size_t, count)
#define PARAMETERS_relu_backward(V, S) V(struct values *, in_gradient) V(const struct values *, out_gradient) \
    V(const uint8_t *, passed) V(size_t, count)
#define PARAMETERS_add_branch(V, S) V(struct values *, out) V(const struct values *, trunk) \
    V(const struct values *, branch) V(const struct values *, bias) V(size_t, rows) V(size_t, columns) \
    V(struct dropout, dropout)
#define PARAMETERS_sum_columns(V, S) V(float *, sums) V(const struct values *, in) V(size_t, rows) \
    V(size_t, columns)
#define PARAMETERS_gelu(V, S) V(struct values *, out) V(const struct values *, in) V(size_t, count)
#define PARAMETERS_gelu_backward(V, S) V(struct values *, in_gradient) V(struct values *, out) \
    V(const struct values *, out_gradient) V(const struct values *, in) V(size_t, count)
#define PARAMETERS_layer_norm(V, S) S(struct layer_norm, norm) V(struct values *, out) V(float *, mean) \
    V(float *, rstd)
#define PARAMETERS_layer_norm_again(V, S) S(struct layer_norm, norm) V(struct values *, out) V(const float *, mean) \
    V(const float *, rstd)
#define PARAMETERS_layer_norm_backward_input(V, S) S(struct layer_norm, norm) V(struct values *, in_gradient) \
    V(const struct values *, out_gradient) V(const struct values *, add) V(const float *, mean) \
    V(const float *, rstd)
#define PARAMETERS_layer_norm_backward_weight(V, S) S(struct layer_norm, norm) V(float *, gain_gradient) \
    V(float *, offset_gradient) V(const struct values *, out_gradient) V(const float *, mean) \
    V(const float *, rstd)
#define PARAMETERS_embedding(V, S) S(struct embedding, embedding) V(struct values *, out) \
    V(const struct values *, words) V(const struct values *, positions)
#define PARAMETERS_embedding_backward(V, S) S(struct embedding, embedding) V(float *, words_gradient) \
    V(float *, positions_gradient) V(const struct values *, out_gradient)
#define PARAMETERS_attention(V, S) S(struct attention, attention) V(struct values *, out) V(float *, log_sums) \
    V(const struct values *, qkv) V(void *, workspace)
#define PARAMETERS_attention_backward(V, S) S(struct attention, attention) V(struct values *, qkv_gradient) \
    V(const struct values *, out_gradient) V(const struct values *, out) V(const float *, log_sums) \
    V(const struct values *, qkv) V(void *, workspace)
#define PARAMETERS_cross_entropy(V, S) S(struct cross_entropy, loss) V(float *, sum) V(float *, log_sums)
#define PARAMETERS_cross_entropy_both(V, S) S(struct cross_entropy, loss) V(float *, sum) V(float *, losses) \
    V(struct values *, logits_gradient) V(float, gradient_scale)
#define PARAMETERS_cross_entropy_part(V, S) S(struct cross_entropy, loss) V(float *, log_sums) \
    V(float *, target_logits)
#define PARAMETERS_cross_entropy_join(V, S) S(struct cross_entropy_parts, parts) V(float *, sum) \
    V(float *, log_sums)
#define PARAMETERS_cross_entropy_backward(V, S) S(struct cross_entropy, loss) V(struct values *, logits_gradient) \
    V(const float *, log_sums)
#define PARAMETERS_adamw(V, S) S(struct adamw, adamw) S(struct optimizer_span, span)
#define PARAMETERS_sgd(V, S) S(struct sgd, sgd) S(struct optimizer_span, span)
#define PARAMETERS_adagrad(V, S) S(struct adagrad, adagrad) S(struct optimizer_span, span)
#define PARAMETERS_lars(V, S) S(struct lars, lars) S(struct optimizer_span, span)
#define PARAMETERS_lamb(V, S) S(struct lamb, lamb) S(struct optimizer_span, span)
#define PARAMETERS_adafactor(V, S) S(struct adafactor, adafactor) S(struct factored_span, span)
#define PARAMETERS_adam8bit(V, S) S(struct adamw, adamw) S(struct eight_bit_span, span)
#define PARAMETERS_add_where(V, S) V(float *, sums) V(const float *, in) V(float, factor) V(const float *, where) \
    V(size_t, count)
#define PARAMETERS_take_signs(V, S) V(struct sign_block *, blocks) V(float *, numbers) V(const float *, where) \
    V(size_t, count)
#define PARAMETERS_add_signs(V, S) V(float *, sums) V(const struct sign_block *, blocks) V(float, factor) \
    V(const float *, where) V(size_t, count)
#define PARAMETERS_convolution(V, S) S(struct convolution, convolution) V(struct values *, out) \
    V(const struct values *, in) V(const struct values *, weights) V(const struct values *, bias) \
    V(void *, workspace)
#define PARAMETERS_convolution_input(V, S) S(struct convolution, convolution) V(struct values *, in_gradient) \
    V(const struct values *, out_gradient) V(const struct values *, weights) V(void *, workspace)
#define PARAMETERS_convolution_weight(V, S) S(struct convolution, convolution) V(float *, weights_gradient) \
    V(const struct values *, out_gradient) V(const struct values *, in) V(void *, workspace)
#define PARAMETERS_norm(V, S) V(float *, norm) V(const float *, in) V(size_t, count)
#define PARAMETERS_clip(V, S) S(struct clip, clip) V(float *, gradients) V(size_t, count)
#define PARAMETERS_max_pool(V, S) S(struct pooling, pooling) V(struct values *, out) V(uint8_t *, won) \
    V(const struct values *, in)
#define PARAMETERS_max_pool_backward(V, S) S(struct pooling, pooling) V(struct values *, in_gradient) \
    V(const struct values *, out_gradient) V(const uint8_t *, won)
#define PARAMETERS_average_pool(V, S) S(struct pooling, pooling) V(struct values *, out) V(const struct values *, in)
#define PARAMETERS_average_pool_backward(V, S) S(struct pooling, pooling) V(struct values *, in_gradient) \
    V(const struct values *, out_gradient)
#define PARAMETERS_batch_norm(V, S) S(struct batch_norm, norm) V(struct values *, out) V(float *, mean) \
    V(float *, rstd) V(uint8_t *, passed) V(float *, statistics)
#define PARAMETERS_batch_norm_backward(V, S) S(struct batch_norm, norm) V(struct values *, in_gradient) \
    V(struct values *, add_gradient) V(float *, sums) V(const struct values *, out_gradient) V(const float *, mean) \
    V(const float *, rstd) V(const uint8_t *, passed)
#define PARAMETERS_batch_norm_running(V, S) S(struct batch_norm, norm) V(struct values *, out) \
    V(const float *, mean) V(const float *, variance)
#define PARAMETERS_batch_norm_merge(V, S) V(double *, sums) V(const float *, statistics) V(size_t, channels) \
    V(bool, is_first)
#define PARAMETERS_batch_norm_fold(V, S) V(float *, mean) V(float *, variance) V(const double *, sums) \
    V(size_t, channels) V(float, momentum)
#define PARAMETERS_copy_columns(V, S) V(struct values *, out) V(const struct values *, in) V(size_t, rows) \
    V(size_t, columns) V(size_t, out_stride) V(size_t, in_stride)
#define PARAMETERS_upsample(V, S) S(struct upsampling, upsampling) V(struct values *, out) V(const struct values *, in)
#define PARAMETERS_upsample_backward(V, S) S(struct upsampling, upsampling) V(struct values *, in_gradient) \
    V(const struct values *, out_gradient)
#define PARAMETERS_bag(V, S) S(struct bags, bags) V(struct values *, out) V(const struct values *, matrix)
#define PARAMETERS_bag_backward(V, S) S(struct bags, bags) V(float *, matrix_gradient) \
    V(const struct values *, out_gradient)
#define PARAMETERS_list_rows(V, S) S(struct row_list, list) S(struct bags, bags)
#define PARAMETERS_add_list(V, S) S(struct row_list, list) S(struct row_list, other)
#define PARAMETERS_sgd_rows(V, S) S(struct sgd, sgd) S(struct row_list, list) S(struct optimizer_span, span)
#define PARAMETERS_adagrad_rows(V, S) S(struct adagrad, adagrad) S(struct row_list, list) \
    S(struct optimizer_span, span) V(bool, is_by_row)
#define PARAMETERS_adamw_rows(V, S) S(struct adamw, adamw) S(struct row_list, list) S(struct optimizer_span, span)
#define PARAMETERS_move_rows(V, S) S(struct row_list, list) V(float *, matrix) V(bool, swaps)
#define PARAMETERS_norm_rows(V, S) V(float *, norm) S(struct row_list, list) V(size_t, first)
#define PARAMETERS_interaction(V, S) S(struct interaction, interaction) V(struct values *, out)
#define PARAMETERS_interaction_backward(V, S) S(struct interaction, interaction) V(struct values *, bottom_gradient) \
    V(struct values *, vectors_gradient) V(const struct values *, out_gradient)
#define PARAMETERS_cross(V, S) V(struct values *, out) V(const struct values *, first) V(const struct values *, y) \
    V(const struct values *, add) V(size_t, count)
#define PARAMETERS_cross_backward(V, S) V(struct values *, first_gradient) V(struct values *, y_gradient) \
    V(struct values *, add_gradient) V(const struct values *, out_gradient) V(const struct values *, first) \
    V(const struct values *, y) V(size_t, count)
#define PARAMETERS_sum_rows(V, S) V(struct values *, out) V(const struct values *, in) V(size_t, rows) \
    V(size_t, columns) V(bool, is_first)
#define PARAMETERS_sum_rows_backward(V, S) V(struct values *, in_gradient) V(const struct values *, out_gradient) \
    V(size_t, rows) V(size_t, columns)
#define PARAMETERS_log_counts(V, S) V(struct values *, out) V(const struct values *, in) V(size_t, count)
#define PARAMETERS_binary_cross_entropy(V, S) S(struct binary_cross_entropy, loss) V(float *, sum) V(float *, losses) \
    V(struct values *, logits_gradient)
#define PARAMETERS_route(V, S) S(struct routing, routing) V(float *, statistics) V(float *, loss)
#define PARAMETERS_route_own(V, S) S(struct routing, routing) V(void *, block)
#define PARAMETERS_route_all(V, S) S(struct routing, routing) S(struct routing_members, members) \
    V(float *, statistics) V(float *, loss)
#define PARAMETERS_route_backward(V, S) S(struct routing, routing) V(struct values *, logits_gradient) \
    V(const float *, gates_gradient) V(float, weight)
#define PARAMETERS_move_bias(V, S) V(float *, bias) V(const float *, counts) V(size_t, experts) V(float, speed)
#define PARAMETERS_permute(V, S) S(struct routing, routing) V(struct values *, out) V(const struct values *, in) \
    V(size_t, columns) V(bool, is_gated)
#define PARAMETERS_combine(V, S) S(struct routing, routing) V(struct values *, out) V(const struct values *, in) \
    V(const struct values *, add) V(size_t, columns) V(bool, is_gated)
#define PARAMETERS_gate_gradients(V, S) S(struct routing, routing) V(float *, gates_gradient) \
    V(const struct values *, out_gradient) V(const struct values *, in) V(size_t, columns)
#define PARAMETERS_grouped_matmul(V, S) S(struct matmul, matmul) V(const int32_t *, ends) V(size_t, first) \
    V(size_t, groups)
#define PARAMETERS_grouped_sum_columns(V, S) V(float *, sums) V(const struct values *, in) V(const int32_t *, ends) \
    V(size_t, first) V(size_t, groups) V(size_t, columns)
#define PARAMETERS_activate(V, S) S(struct activation, activation) V(struct values *, out) V(const struct values *, in)
#define PARAMETERS_activate_backward(V, S) S(struct activation, activation) V(struct values *, in_gradient) \
    V(struct values *, out) V(const struct values *, out_gradient) V(const struct values *, in)

// What kernels.c hands on as it is given, and what it checks or completes first.
#define KERNELS_AS_GIVEN(K) \
    K(fill, ONE_PASS, "filling memory") \
    K(fill_normal, ONE_PASS, "drawing random numbers") \
    K(add, ONE_PASS, "an addition") \
    K(scale, ONE_PASS, "a scaling") \
    K(add_floats, ONE_PASS, "an addition") \
    K(widen, ONE_PASS, "widening numbers") \
    K(narrow, ONE_PASS, "narrowing numbers") \
    K(relu, ONE_PASS, "a ReLU") \
    K(relu_backward, ONE_PASS, "the backward of a ReLU") \
    K(sum_columns, SUMMING, "a sum of columns") \
    K(gelu, ONE_PASS, "a GELU") \
    K(gelu_backward, ONE_PASS, "the backward of a GELU") \
    K(layer_norm, ONE_PASS, "a layer norm") \
    K(layer_norm_again, ONE_PASS, "a layer norm") \
    K(layer_norm_backward_input, ONE_PASS, "the backward of a layer norm") \
    K(layer_norm_backward_weight, SUMMING, "the backward of a layer norm") \
    K(embedding, ONE_PASS, "an embedding") \
    K(embedding_backward, SUMMING, "the backward of an embedding") \
    K(attention, LIBRARY, "attention") \
    K(attention_backward, LIBRARY, "the backward of attention") \
    K(cross_entropy_join, SUMMING, "a cross entropy") \
    K(norm, SUMMING, "a norm") \
    K(clip, SUMMING, "clipping")

#define KERNELS_CHECKED(K) \
    K(matmul, LIBRARY, "a matrix product") \
    K(dropout, ONE_PASS, "a dropout") \
    K(add_branch, ONE_PASS, "the end of a branch") \
    K(cross_entropy, SUMMING, "a cross entropy") \
    K(cross_entropy_both, SUMMING, "a cross entropy and its backward") \
    K(cross_entropy_part, ONE_PASS, "a part of a cross entropy") \
    K(cross_entropy_backward, ONE_PASS, "the backward of a cross entropy")

// Those of experts (expert_kernels.h).
#define KERNELS_OF_EXPERTS(K) \
    K(route, SUMMING, "routing to experts") \
    K(route_own, ONE_PASS, "routing of a member's tokens") \
    K(route_all, ONE_PASS, "routing of the tokens of all members") \
    K(route_backward, ONE_PASS, "the backward of routing to experts") \
    K(move_bias, ONE_PASS, "moving the bias of a router") \
    K(permute, ONE_PASS, "sorting rows by expert") \
    K(combine, ONE_PASS, "adding up what experts give") \
    K(gate_gradients, ONE_PASS, "the gradients of gates") \
    K(grouped_matmul, ONE_PASS, "matrix products of experts") \
    K(grouped_sum_columns, ONE_PASS, "sums of columns of experts") \
    K(activate, ONE_PASS, "the activation of experts") \
    K(activate_backward, ONE_PASS, "the backward of the activation of experts")

// Updates of parameters, whose parameters are a struct of the kernel's name and a struct optimizer_span. In 16 bits the
// master copy is updated.
#define KERNELS_UPDATING(K) \
    K(adamw, ONE_PASS, "an update by AdamW") \
    K(sgd, ONE_PASS, "an update by SGD") \
    K(adagrad, ONE_PASS, "an update by Adagrad") \
    K(lars, SUMMING, "an update by LARS") \
    K(lamb, SUMMING, "an update by LAMB")

// Kernels that need a device in fp32. Those of tables (table_kernels.h) fail the queue of another one, and those of
// pictures (picture_kernels.h) that of another GPU.
#define KERNELS_OF_OPTIMIZERS_IN_FP32(K) \
    K(adafactor, SUMMING, "an update by Adafactor") \
    K(adam8bit, ONE_PASS, "an update by Adam in 8 bits") \
    K(add_where, ONE_PASS, "adding up momentum") \
    K(take_signs, ONE_PASS, "taking signs") \
    K(add_signs, ONE_PASS, "adding signs")

#define KERNELS_OF_CONVOLUTIONS(K) \
    K(convolution, LIBRARY, "a convolution") \
    K(convolution_input, LIBRARY, "a convolution's gradients of its input") \
    K(convolution_weight, LIBRARY, "a convolution's gradients of its weights")

#define KERNELS_OF_PIXELS(K) \
    K(max_pool, ONE_PASS, "max pooling") \
    K(max_pool_backward, ONE_PASS, "the backward of max pooling") \
    K(average_pool, ONE_PASS, "average pooling") \
    K(average_pool_backward, ONE_PASS, "the backward of average pooling") \
    K(batch_norm, SUMMING, "a batch norm") \
    K(batch_norm_backward, SUMMING, "the backward of a batch norm") \
    K(batch_norm_running, ONE_PASS, "a batch norm by running statistics") \
    K(batch_norm_merge, ONE_PASS, "merging statistics of a batch norm") \
    K(batch_norm_fold, ONE_PASS, "moving running statistics") \
    K(copy_columns, ONE_PASS, "copying columns") \
    K(upsample, ONE_PASS, "upsampling") \
    K(upsample_backward, ONE_PASS, "the backward of upsampling")

#define KERNELS_OF_PICTURES(K) KERNELS_OF_CONVOLUTIONS(K) KERNELS_OF_PIXELS(K)

#define KERNELS_OF_TABLES(K) \
    K(bag, ONE_PASS, "a lookup of rows") \
    K(bag_backward, SUMMING, "the backward of a lookup of rows") \
    K(list_rows, SUMMING, "a list of rows") \
    K(add_list, SUMMING, "a sum of lists of rows") \
    K(sgd_rows, ONE_PASS, "an update of rows by SGD") \
    K(adagrad_rows, ONE_PASS, "an update of rows by Adagrad") \
    K(adamw_rows, ONE_PASS, "an update of rows by Adam") \
    K(move_rows, ONE_PASS, "a copy of rows") \
    K(norm_rows, SUMMING, "a norm of rows") \
    K(interaction, ONE_PASS, "an interaction") \
    K(interaction_backward, ONE_PASS, "the backward of an interaction") \
    K(cross, ONE_PASS, "a cross") \
    K(cross_backward, ONE_PASS, "the backward of a cross") \
    K(sum_rows, ONE_PASS, "a sum of rows") \
    K(sum_rows_backward, ONE_PASS, "the backward of a sum of rows") \
    K(log_counts, ONE_PASS, "a logarithm of counts") \
    K(binary_cross_entropy, SUMMING, "a binary cross entropy")

#define KERNELS_IN_FP32(K) KERNELS_OF_OPTIMIZERS_IN_FP32(K) KERNELS_OF_PICTURES(K) KERNELS_OF_TABLES(K)

#define KERNELS_IN_ALL(K) KERNELS_AS_GIVEN(K) KERNELS_CHECKED(K) KERNELS_OF_EXPERTS(K) KERNELS_UPDATING(K)
#define KERNELS(K) KERNELS_IN_ALL(K) KERNELS_IN_FP32(K)

// Structs among the parameters: the members by which two calls are compared when a queue records. KERNEL_STRUCTS(T) is
// T(name) for each.
#define MEMBERS_matmul(M) M(transpose_a) M(transpose_b) M(m) M(n) M(k) M(a) M(b) M(c) M(sums) M(lda) M(ldb) M(ldc) \
    M(bias) M(before_gelu)
#define MEMBERS_layer_norm(M) M(in) M(gain) M(offset) M(rows) M(columns)
#define MEMBERS_embedding(M) M(tokens) M(rows) M(sequence) M(columns) M(vocabulary) M(first) M(own)
#define MEMBERS_attention(M) M(batch) M(sequence) M(heads) M(size) M(first) M(whole) M(pattern)
#define MEMBERS_cross_entropy(M) M(logits) M(targets) M(rows) M(columns) M(stride) M(scale) M(first) M(whole) \
    M(smoothing)
#define MEMBERS_cross_entropy_parts(M) M(parts) M(count) M(rows) M(scale) M(targets)
#define MEMBERS_clip(M) M(norms) M(norm_count) M(limit)
#define MEMBERS_optimizer_span(M) M(next) M(weights) M(master) M(gradients) M(first) M(second) M(count)
#define MEMBERS_dropout(M) M(probability) M(first)  // apart from the key
#define MEMBERS_adamw(M) M(beta1) M(beta2) M(epsilon) M(frozen)  // apart from what adamw_factors() depend on
#define MEMBERS_sgd(M) M(momentum) M(decay) M(is_nesterov)  // apart from the rate
#define MEMBERS_adagrad(M) M(epsilon) M(decay)
#define MEMBERS_factored_span(M) M(next) M(weights) M(gradients) M(rows) M(columns) M(row) M(column)
#define MEMBERS_eight_bit_span(M) M(next) M(weights) M(gradients) M(count) M(first) M(second) M(first_scales) \
    M(second_scales)
#define MEMBERS_convolution(M) M(batch) M(height) M(width) M(in) M(out) M(groups) M(window)
#define MEMBERS_lars(M) M(momentum) M(decay) M(trust)
#define MEMBERS_lamb(M) M(beta1) M(beta2) M(epsilon) M(decay) M(trusts)
#define MEMBERS_adafactor(M)  // all of it varies
#define MEMBERS_pooling(M) M(batch) M(height) M(width) M(channels) M(window)
#define MEMBERS_batch_norm(M) M(in) M(gain) M(offset) M(rows) M(counted) M(channels) M(has_relu) M(add)
#define MEMBERS_upsampling(M) M(batch) M(height) M(width) M(channels) M(factor)
#define MEMBERS_bags(M) M(ids) M(ends) M(weights) M(places) M(count) M(most) M(rows) M(columns) M(is_mean)
#define MEMBERS_row_list(M) M(count) M(numbers) M(places) M(sums) M(room) M(rows) M(columns)
#define MEMBERS_interaction(M) M(bottom) M(vectors) M(samples) M(count) M(columns)
#define MEMBERS_binary_cross_entropy(M) M(logits) M(targets) M(rows) M(scale)
#define MEMBERS_routing(M) M(router.kind) M(router.experts) M(router.top) M(router.groups) M(router.best_groups) \
    M(router.scale) M(rows) M(counted) M(capacity) M(most) M(auxiliary) M(z) M(logits) M(bias) M(choices) M(slots) \
    M(pairs) M(ends) M(gates) M(shares) M(log_sums) M(scores) M(elsewhere)
#define MEMBERS_routing_members(M) M(members) M(member) M(own[0]) M(own[1]) M(own[2]) M(own[3]) M(copied[0]) \
    M(copied[1]) M(copied[2]) M(copied[3]) M(blocks) M(kept) M(taken)
#define MEMBERS_activation(M) M(is_swiglu) M(rows) M(columns) M(used)
#define KERNEL_STRUCTS(T) T(matmul) T(layer_norm) T(embedding) T(attention) T(cross_entropy) T(cross_entropy_parts) \
    T(clip) T(optimizer_span) T(dropout) T(adamw) T(sgd) T(adagrad) T(factored_span) T(eight_bit_span) T(lars) \
    T(lamb) T(adafactor) T(convolution) T(pooling) T(batch_norm) T(upsampling) T(bags) T(row_list) T(interaction) \
    T(binary_cross_entropy) T(routing) T(routing_members) T(activation)

// What varies in a struct from pass to pass: V(struct, address, type, word, condition). The word, which is made of the
// struct x, is stored on the device, and the member `address` says where. Nothing varies without the condition.
#define KERNEL_WORDS(V) \
    V(dropout, key_at, uint64_t, x->key, x->probability > 0) \
    V(adamw, factors_at, struct adamw_factors, adamw_factors(x), true) \
    V(sgd, rate_at, float, x->rate, true) \
    V(adagrad, rate_at, float, x->rate, true) \
    V(lars, rate_at, float, x->rate, true) \
    V(lamb, factors_at, struct lamb_factors, lamb_factors(x), true) \
    V(adafactor, factors_at, struct adafactor_factors, adafactor_factors(x), true)

// Words for V and S:
//
//     PARAMETER    a parameter of a function, behind its queue or launch
//     ARGUMENT     that parameter handed on
//     MEMBER       a member of a struct that keeps a copy
//     VALUE        its value
//     KEPT         an argument made of that struct, x
#define PARAMETER_V(type, name) , type name
#define PARAMETER_S(type, name) , const type *name
#define ARGUMENT(type, name) , name
#define MEMBER(type, name) type name;
#define VALUE_V(type, name) name,
#define VALUE_S(type, name) *name,
#define KEPT_V(type, name) , x->name
#define KEPT_S(type, name) , &x->name

#endif
