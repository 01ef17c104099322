/*
 * The operations of a backend on layers, one entry each. A file that needs a
 * declaration or a table row per operation defines
 *
 *   GW_SIZE_OPERATION(name, parameters, arguments)    returns a size_t
 *   GW_OPERATION(name, parameters, arguments)         returns nothing
 *
 * and includes this file, which undefines both. kernels.h makes the slots of
 * struct gw_backend_ops of it, cpu.h, cuda.h and cuda_sizes.h the prototypes
 * gw_cpu_NAME and gw_cuda_NAME, none.c functions that do nothing, and backends
 * the rows of their tables. A new operation is an entry here, a function in
 * kernels/cpu and a function in kernels/cuda.
 */
/* clang-format off */

/* Bytes of scratch that the two dense calls need with that precision, for up to
   shape->n; it may be NULL where that is 0. */
GW_SIZE_OPERATION(dense_scratch_bytes,
                  (const struct gw_dense_shape *shape,
                   enum gw_precision precision),
                  (shape, precision))

/* Bytes of the bit mask of y > 0 that the device keeps with ReLU, for up to
   shape->n; 0: it keeps none. */
GW_SIZE_OPERATION(dense_mask_bytes,
                  (const struct gw_dense_shape *shape),
                  (shape))

/* mask: dense_mask_bytes of the same device, aligned like `alloc`, for the
   backward pass of a dense layer that reads y directly; NULL: none. */
GW_OPERATION(dense_forward,
             (struct gw_device *device,
              const struct gw_dense_shape *shape,
              const float *x,
              const float *w,
              const float *b,
              float *y,
              void *mask,
              void *scratch),
             (device, shape, x, w, b, y, mask, scratch))

/*
 * dw = dy^T x + beta dw, db = column sums of dy + beta db, dx = dy w. dx may be
 * NULL (first layer). beta is 0 or 1; with 0 the old dw and db are not read.
 * mask: written by the last forward pass of the dense layer with relu whose y
 * is x; NULL: x came from elsewhere.
 */
GW_OPERATION(dense_backward,
             (struct gw_device *device,
              const struct gw_dense_shape *shape,
              const float *x,
              const void *mask,
              const float *w,
              const float *dy,
              float beta,
              float *dx,
              float *dw,
              float *db,
              void *scratch),
             (device, shape, x, mask, w, dy, beta, dx, dw, db, scratch))

/* As dense_scratch_bytes, for the two conv calls. */
GW_SIZE_OPERATION(conv_scratch_bytes,
                  (const struct gw_conv_shape *shape,
                   enum gw_precision precision),
                  (shape, precision))

GW_OPERATION(conv_forward,
             (struct gw_device *device,
              const struct gw_conv_shape *shape,
              const float *x,
              const float *k,
              const float *b,
              float *y,
              void *scratch),
             (device, shape, x, k, b, y, scratch))

/* dx may be NULL; beta as in dense_backward. */
GW_OPERATION(conv_backward,
             (struct gw_device *device,
              const struct gw_conv_shape *shape,
              const float *x,
              const float *k,
              const float *dy,
              float beta,
              float *dx,
              float *dk,
              float *db,
              void *scratch),
             (device, shape, x, k, dy, beta, dx, dk, db, scratch))

/* argmax: one byte per output, the index inside its window (size <= 15); the
   first of equals wins. */
GW_OPERATION(pool_forward,
             (struct gw_device *device,
              const struct gw_pool_shape *shape,
              const float *x,
              float *y,
              uint8_t *argmax),
             (device, shape, x, y, argmax))

/* Writes every element of dx. */
GW_OPERATION(pool_backward,
             (struct gw_device *device,
              const struct gw_pool_shape *shape,
              const float *dy,
              const uint8_t *argmax,
              float *dx),
             (device, shape, dy, argmax, dx))

/*
 * x[n][elems]; kept elements are scaled by 1 / (1 - p). In place allowed.
 * Backward is the same call on the gradient: the mask is drawn again.
 */
GW_OPERATION(dropout,
             (struct gw_device *device,
              const struct gw_dropout_site *site,
              size_t n,
              size_t elems,
              const float *x,
              float *y),
             (device, site, n, elems, x, y))

/*
 * sum[i] = parts[0][i] + parts[1][i] + .. over i < elems, as the tree of
 * gw_reduce_block (update.h) with the same bits. parts: [n] of device memory,
 * also imported, NULL for an absent one; the array is read before the call
 * returns. sum may be one of the parts. n <= GW_PARTS_MAX. nonfinite[n], device
 * memory: 1 where a part has a NaN or an infinity, else 0.
 */
GW_OPERATION(add_parts,
             (struct gw_device *device,
              const float *const *parts,
              uint32_t n,
              size_t elems,
              float *sum,
              uint8_t *nonfinite),
             (device, parts, n, elems, sum, nonfinite))

/* *sum, in device memory, is the sum of x[i]^2 over i < elems, in double and in
   a fixed order, so that the same call gives the same bits. It is finite if and
   only if all of x is. */
GW_OPERATION(square_sum,
             (struct gw_device *device,
              size_t elems,
              const float *x,
              double *sum),
             (device, elems, x, sum))

/* out[i] = x[i], bf16 numbers (bf16.h) in device memory, as fp32: exact except
   for the payload of a NaN. */
GW_OPERATION(widen,
             (struct gw_device *device,
              size_t elems,
              const uint16_t *x,
              float *out),
             (device, elems, x, out))

/*
 * logits[n][classes], labels[n] in 0..classes-1 (checked by the caller). *loss
 * gets the sum over samples of -log softmax(logits)[label] (in double and in a
 * fixed order), and how many have their first maximum at the label. dlogits
 * (may be NULL, may be logits) = scale (softmax - onehot).
 */
GW_OPERATION(softmax_loss,
             (struct gw_device *device,
              size_t n,
              size_t classes,
              const float *logits,
              const int32_t *labels,
              float scale,
              float *dlogits,
              struct gw_loss *loss),
             (device, n, classes, logits, labels, scale, dlogits, loss))

#undef GW_SIZE_OPERATION
#undef GW_OPERATION
/* clang-format on */
