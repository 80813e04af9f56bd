// Kernels of pictures (picture_kernels.h) without convolution, in floats. A thread has a few channels of a pixel, and
// the channels of a pixel are next to each other.
#include "device/cuda/reduce.cuh"

enum { PACK = pack_of<float> };

// --- sums over the rows of each channel ------------------------------------------------------------

// A batch norm's sums are made as a tree, whose shape depends on rows and channels alone, in double:
//
//            channels ->
//     rows   +--------+--------+---     a block has a tile: `across` threads, a pack of channels each, and
//      |     | b 0,0  | b 1,0  |        BLOCK / across down, whose sums are added in order
//      v     +--------+--------+---
//            | b 0,1  | b 1,1  |        the sums of tiles go to the scratch, and end_kernel adds those
//            +--------+--------+---     down a channel
struct norm_tiles {
    size_t rows, channels;
    unsigned across;  // a power of two, up to a warp
    size_t tiles_across, tiles_down, rows_each;
    double *sums;  // [tile down][sum][channel]
};

enum { LEAST_ROWS = 64, MOST_TILES_DOWN = 512 };

struct number_sum {
    const float *in;
    static constexpr int SUMS = 1;

    template <int N>
    __device__ void add(double (&sums)[SUMS][N], size_t, size_t, size_t index) const
    {
        const pack<N> x = load<N>(in + index);
#pragma unroll
        for (int k = 0; k < N; k++)
            sums[0][k] += (double)x.at[k];
    }
};

struct square_sum {
    const float *in, *mean;
    static constexpr int SUMS = 1;

    template <int N>
    __device__ void add(double (&sums)[SUMS][N], size_t, size_t channel, size_t index) const
    {
        const pack<N> x = load<N>(in + index), middle = load<N>(mean + channel);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const double off = (double)(x.at[k] - middle.at[k]);
            sums[0][k] += off * off;
        }
    }
};

// The gradient of a norm's output, where its ReLU let numbers pass.
struct passed_gradient {
    const float *gradient;
    const uint8_t *passed;  // NULL without a ReLU
    size_t channels;

    template <int N>
    __device__ pack<N> get(size_t row, size_t channel) const
    {
        const pack<N> g = load<N>(gradient + row * channels + channel);
        if (!passed)
            return g;
        const unsigned bits = passed[row * ((channels + 7) / 8) + channel / 8] >> channel % 8;
        return each<N>([&](int k) { return bits >> k & 1 ? g.at[k] : 0; });
    }
};

struct gradient_sums {
    passed_gradient gradient;
    const float *in, *mean, *rstd;
    static constexpr int SUMS = 2;  // the gain's and the offset's

    template <int N>
    __device__ void add(double (&sums)[SUMS][N], size_t row, size_t channel, size_t index) const
    {
        const pack<N> x = load<N>(in + index), g = gradient.get<N>(row, channel);
        const pack<N> middle = load<N>(mean + channel), scale = load<N>(rstd + channel);
#pragma unroll
        for (int k = 0; k < N; k++) {
            sums[0][k] += (double)g.at[k] * (double)((x.at[k] - middle.at[k]) * scale.at[k]);
            sums[1][k] += (double)g.at[k];
        }
    }
};

template <int N, class Sum>
static __global__ void __launch_bounds__(BLOCK) tiles_kernel(const Sum sum, const norm_tiles tiles)
{
    constexpr int SUMS = Sum::SUMS;
    SHARED(double, partial, [SUMS][N][BLOCK]);
    const unsigned x = threadIdx.x % tiles.across, y = threadIdx.x / tiles.across, down = BLOCK / tiles.across;
    const size_t tile = blockIdx.x / tiles.tiles_across;
    const size_t first = blockIdx.x % tiles.tiles_across * tiles.across * N, channel = first + x * N;
    const size_t start = tile * tiles.rows_each;
    const size_t end = start + tiles.rows_each < tiles.rows ? start + tiles.rows_each : tiles.rows;
    double sums[SUMS][N] = {};
    if (channel < tiles.channels) {
#pragma unroll 4
        for (size_t row = start + y; row < end; row += down)
            sum.template add<N>(sums, row, channel, row * tiles.channels + channel);
    }
#pragma unroll
    for (int s = 0; s < SUMS; s++)
#pragma unroll
        for (int k = 0; k < N; k++)
            partial[s][k][threadIdx.x] = sums[s][k];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < SUMS * N * tiles.across; i += BLOCK) {
        const unsigned lane = i % tiles.across, k = i / tiles.across % N, s = i / tiles.across / N;
        double total = 0;
        for (unsigned above = 0; above < down; above++)
            total += partial[s][k][above * tiles.across + lane];
        if (first + lane * N + k < tiles.channels)
            tiles.sums[(tile * SUMS + s) * tiles.channels + first + lane * N + k] = total;
    }
}

// What becomes of a channel's sums.
struct mean_end {
    float *mean;
    double rows;
    static constexpr int SUMS = 1;

    __device__ void put(size_t channel, const double (&totals)[SUMS]) const
    {
        mean[channel] = (float)(totals[0] / rows);
    }
};

static __device__ inline float rstd_of(double variance)
{
    return (float)(1 / sqrt(variance + 1e-5));
}

struct squares_end {
    float *rstd;
    const float *mean;
    double rows;
    float *statistics;  // or NULL
    size_t channels, counted;
    static constexpr int SUMS = 1;

    __device__ void put(size_t channel, const double (&totals)[SUMS]) const
    {
        rstd[channel] = rstd_of(totals[0] / rows);
        if (!statistics)
            return;
        statistics[channel] = mean[channel];
        statistics[channels + channel] = (float)totals[0];
        if (channel == 0)
            statistics[2 * channels] = (float)counted;
    }
};

struct gradients_end {
    float *sums, *means;  // both [2][channels]
    double rows;
    size_t channels;
    static constexpr int SUMS = 2;

    __device__ void put(size_t channel, const double (&totals)[SUMS]) const
    {
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            sums[s * channels + channel] = (float)totals[s];
            means[s * channels + channel] = (float)(totals[s] / rows);
        }
    }
};

// A block has a warp of channels, and adds up their tiles.
template <class End>
static __global__ void __launch_bounds__(BLOCK) end_kernel(const End end, const norm_tiles tiles)
{
    constexpr int SUMS = End::SUMS;
    constexpr unsigned DOWN = BLOCK / WARP;
    SHARED(double, partial, [DOWN][SUMS][WARP]);
    const unsigned x = threadIdx.x % WARP, y = threadIdx.x / WARP;
    const size_t channel = (size_t)blockIdx.x * WARP + x;
    double totals[SUMS] = {};
    if (channel < tiles.channels) {
#pragma unroll 4
        for (size_t tile = y; tile < tiles.tiles_down; tile += DOWN)
#pragma unroll
            for (int s = 0; s < SUMS; s++)
                totals[s] += tiles.sums[(tile * SUMS + s) * tiles.channels + channel];
    }
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        partial[y][s][x] = totals[s];
    __syncthreads();
    if (y > 0 || channel >= tiles.channels)
        return;
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        for (unsigned down = 1; down < DOWN; down++)
            totals[s] += partial[down][s][x];
    end.put(channel, totals);
}

// The means over rows that a backward uses are in front of the sums of tiles.
static float *means_in(const struct cuda_launch *launch)
{
    return (float *)launch->scratch;
}

template <int N, class Sum, class End>
static cudaError_t sum_channels_by(const struct cuda_launch *launch, const Sum &sum, const End &end, size_t rows,
                                   size_t channels)
{
    if (channels == 0)
        return cudaSuccess;
    const size_t in_front = blocks_for(2 * channels, 2), sums = Sum::SUMS * channels;
    norm_tiles tiles = {};
    tiles.rows = rows, tiles.channels = channels;
    tiles.sums = (double *)launch->scratch + in_front;
    if (CUDA_SCRATCH_BYTES / sizeof(double) < in_front + sums)
        return cudaErrorInvalidConfiguration;
    const size_t fit = (CUDA_SCRATCH_BYTES / sizeof(double) - in_front) / sums;
    const size_t most = min_u64(min_u64(blocks_for(rows, LEAST_ROWS), MOST_TILES_DOWN), fit);
    for (tiles.across = 1; tiles.across < WARP && tiles.across * N < channels; tiles.across *= 2)
        ;
    tiles.tiles_across = blocks_for(channels, tiles.across * N);
    tiles.rows_each = most > 1 ? blocks_for(rows, most) : rows;
    tiles.tiles_down = rows > 0 ? blocks_for(rows, tiles.rows_each) : 1;
    const cudaError_t status = launch_blocks(launch, tiles_kernel<N, Sum>, tiles.tiles_across * tiles.tiles_down, BLOCK,
                                             0, sum, tiles);
    return status != cudaSuccess
               ? status : launch_blocks(launch, end_kernel<End>, blocks_for(channels, WARP), BLOCK, 0, end, tiles);
}

template <class Sum, class End>
static cudaError_t sum_channels(const struct cuda_launch *launch, const Sum &sum, const End &end, size_t rows,
                                size_t channels, bool in_packs)
{
    return in_packs ? sum_channels_by<PACK>(launch, sum, end, rows, channels)
                    : sum_channels_by<1>(launch, sum, end, rows, channels);
}

template <class... T>
static bool in_packs(size_t channels, const T *...arrays)
{
    return head_of_rows<PACK>(channels, 1, arrays...) == 0;
}

// --- batch norm ---------------------------------------------------------------------------------------

// A thread has those channels of a row whose bits are in a byte: body.template at<N>(row, channel, bits) for each N of
// them, where it finds or leaves its bits from the lowest on.
enum { BITS = 8 };

template <int N, class Body>
struct by_bytes {
    Body body;
    size_t channels;
    uint8_t *passed;  // is written, unless it is NULL

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t row_bytes = (channels + BITS - 1) / BITS, row = row_of(i, row_bytes);
        const size_t first = (i - row * row_bytes) * BITS;
        unsigned bits = 0;
#pragma unroll
        for (int k = 0; k < BITS; k += N)
            if (first + k < channels)
                bits |= body.template at<N>(row, first + k) << k;
        if (passed)
            passed[i] = (uint8_t)bits;
    }
};

template <class Body>
static cudaError_t launch_by_bytes(const struct cuda_launch *launch, const Body &body, size_t rows, size_t channels,
                                   uint8_t *passed, bool in_packs)
{
    const size_t count = rows * blocks_for(channels, BITS);
    if (in_packs)
        return launch_each<1>(launch, by_bytes<PACK, Body>{ body, channels, passed }, count, 0);
    return launch_each<1>(launch, by_bytes<1, Body>{ body, channels, passed }, count, 0);
}

struct norm_body {
    float *out;
    const float *in, *gain, *offset, *add, *mean;
    const float *rstd;      // or NULL: that of the variance
    const float *variance;
    size_t counted, channels;
    bool has_relu;

    template <int N>
    __device__ unsigned at(size_t row, size_t channel) const
    {
        const size_t index = row * channels + channel;
        if (row >= counted) {
            store<N>(out + index, pack<N>{});
            return 0;
        }
        const pack<N> x = load<N>(in + index), middle = load<N>(mean + channel);
        const pack<N> scale = rstd ? load<N>(rstd + channel) : load<N>(variance + channel);
        const pack<N> slope = load<N>(gain + channel), shift = load<N>(offset + channel);
        const pack<N> more = add ? load<N>(add + index) : pack<N>{};
        unsigned bits = 0;
        store<N>(out + index, each<N>([&](int k) {
            const float by = rstd ? scale.at[k] : rstd_of((double)scale.at[k]);
            const float y = (x.at[k] - middle.at[k]) * by * slope.at[k] + shift.at[k] + more.at[k];
            const bool falls = has_relu && y <= 0;  // a NaN passes
            bits |= (unsigned)!falls << k;
            return falls ? 0 : y;
        }));
        return bits;
    }
};

static norm_body norm_body_of(const struct batch_norm *norm, struct values *out, const float *mean)
{
    norm_body body = {};
    body.out = (float *)out, body.in = (const float *)norm->in;
    body.gain = (const float *)norm->gain, body.offset = (const float *)norm->offset;
    body.add = (const float *)norm->add, body.mean = mean;
    body.counted = norm->counted, body.channels = norm->channels, body.has_relu = norm->has_relu;
    return body;
}

static bool norm_in_packs(const norm_body &body)
{
    return in_packs(body.channels, body.out, body.in, body.gain, body.offset, body.add, body.mean, body.rstd,
                    body.variance);
}

static double count_of(size_t rows)
{
    return rows > 0 ? (double)rows : 1;
}

cudaError_t cuda_batch_norm(const struct cuda_launch *launch, const struct batch_norm *norm, struct values *out,
                            float *mean, float *rstd, uint8_t *passed, float *statistics)
{
    const size_t channels = norm->channels, counted = norm->counted;
    norm_body body = norm_body_of(norm, out, mean);
    body.rstd = rstd;
    const bool packs = norm_in_packs(body);
    cudaError_t status = sum_channels(launch, number_sum{ body.in }, mean_end{ mean, count_of(counted) }, counted,
                                      channels, packs);
    const squares_end end = { rstd, mean, count_of(counted), statistics, channels, counted };
    if (status == cudaSuccess)
        status = sum_channels(launch, square_sum{ body.in, mean }, end, counted, channels, packs);
    if (status == cudaSuccess)
        status = launch_by_bytes(launch, body, norm->rows, channels, norm->has_relu ? passed : NULL, packs);
    return status;
}

cudaError_t cuda_batch_norm_running(const struct cuda_launch *launch, const struct batch_norm *norm,
                                    struct values *out, const float *mean, const float *variance)
{
    norm_body body = norm_body_of(norm, out, mean);
    body.variance = variance;
    body.counted = norm->rows;
    return launch_by_bytes(launch, body, norm->rows, norm->channels, NULL, norm_in_packs(body));
}

struct norm_backward_body {
    float *in_gradient, *add_gradient;
    passed_gradient gradient;
    const float *in, *gain, *mean, *rstd, *means;
    size_t counted, channels;

    template <int N>
    __device__ unsigned at(size_t row, size_t channel) const
    {
        const size_t index = row * channels + channel;
        pack<N> g = {}, slope = {};
        if (row < counted) {
            const pack<N> x = load<N>(in + index), middle = load<N>(mean + channel), by = load<N>(rstd + channel);
            const pack<N> factor = load<N>(gain + channel);
            const pack<N> mean_gh = load<N>(means + channel), mean_g = load<N>(means + channels + channel);
            g = gradient.get<N>(row, channel);
            slope = each<N>([&](int k) {
                const float h = (x.at[k] - middle.at[k]) * by.at[k];
                return factor.at[k] * by.at[k] * (g.at[k] - mean_g.at[k] - h * mean_gh.at[k]);
            });
        }
        if (add_gradient)
            store<N>(add_gradient + index, g);
        store<N>(in_gradient + index, slope);
        return 0;
    }
};

cudaError_t cuda_batch_norm_backward(const struct cuda_launch *launch, const struct batch_norm *norm,
                                     struct values *in_gradient, struct values *add_gradient, float *sums,
                                     const struct values *out_gradient, const float *mean, const float *rstd,
                                     const uint8_t *passed)
{
    const size_t channels = norm->channels, counted = norm->counted;
    norm_backward_body body = {};
    body.in_gradient = (float *)in_gradient, body.add_gradient = (float *)add_gradient;
    body.gradient = { (const float *)out_gradient, passed, channels };
    body.in = (const float *)norm->in, body.gain = (const float *)norm->gain, body.mean = mean, body.rstd = rstd;
    body.means = means_in(launch), body.counted = counted, body.channels = channels;
    const bool packs = in_packs(channels, body.in_gradient, body.add_gradient, body.gradient.gradient, body.in,
                                body.gain, mean, rstd);
    const gradients_end end = { sums, means_in(launch), count_of(counted), channels };
    const cudaError_t status = sum_channels(launch, gradient_sums{ body.gradient, body.in, mean, rstd }, end, counted,
                                            channels, packs);
    return status != cudaSuccess || !in_gradient ? status
                                                 : launch_by_bytes(launch, body, norm->rows, channels, NULL, packs);
}

// --- its statistics -----------------------------------------------------------------------------------

// Same bits as the CPU's.
struct merge_body {
    double *sums;
    const float *statistics;
    size_t channels;
    bool is_first;

    template <int>
    __device__ void at(size_t c) const
    {
        const double before = is_first ? 0 : sums[2 * channels], more = (double)statistics[2 * channels];
        const double count = before + more, share = count > 0 ? more / count : 0;
        const double mean = is_first ? 0 : sums[c], squares = is_first ? 0 : sums[channels + c];
        const double step = (double)statistics[c] - mean;
        sums[c] = is_first ? (double)statistics[c] : fma(step, share, mean);
        sums[channels + c] = fma(step * step, before * share, squares + (double)statistics[channels + c]);
    }
};

// The count comes last, since all channels read it.
static __global__ void __launch_bounds__(WARP) count_kernel(double *count, const float *more, bool is_first)
{
    if (threadIdx.x == 0)
        *count = is_first ? (double)*more : *count + (double)*more;
}

cudaError_t cuda_batch_norm_merge(const struct cuda_launch *launch, double *sums, const float *statistics,
                                  size_t channels, bool is_first)
{
    const cudaError_t status = launch_each<1>(launch, merge_body{ sums, statistics, channels, is_first }, channels, 0);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, count_kernel, 1, WARP, 0, sums + 2 * channels, statistics + 2 * channels, is_first);
}

struct fold_body {
    float *mean, *variance;
    const double *sums;
    size_t channels;
    float momentum;

    template <int>
    __device__ void at(size_t c) const
    {
        const double count = sums[2 * channels], running = (double)mean[c], spread = (double)variance[c];
        if (count > 0)
            mean[c] = (float)fma((double)momentum, sums[c] - running, running);
        if (count > 1)
            variance[c] = (float)fma((double)momentum, sums[channels + c] / (count - 1) - spread, spread);
    }
};

cudaError_t cuda_batch_norm_fold(const struct cuda_launch *launch, float *mean, float *variance, const double *sums,
                                 size_t channels, float momentum)
{
    return launch_each<1>(launch, fold_body{ mean, variance, sums, channels, momentum }, channels, 0);
}

// --- pooling ------------------------------------------------------------------------------------------
//
// Forward, a thread has numbers of the output; backward, it has numbers of the input's gradient, and adds up the
// windows that cover them, in their order.

// A window along one side, with how many pixels and places there are. In 32 bits, which spares registers.
struct side {
    uint32_t pixels, places, window, stride, padding;
};

struct range {
    uint32_t first, end;
};

__device__ inline range covered_pixels(const side &side, uint32_t place)
{
    const uint32_t start = place * side.stride, end = start + side.window - side.padding;
    return { start > side.padding ? start - side.padding : 0, end < side.pixels ? end : side.pixels };
}

__device__ inline range covering_places(const side &side, uint32_t pixel)
{
    const uint32_t past = pixel + side.padding, end = past / side.stride + 1;
    return { past < side.window ? 0 : (past - side.window) / side.stride + 1, end < side.places ? end : side.places };
}

// Number i of pictures: channel, column, row and picture.
struct spot {
    size_t channel, picture;
    uint32_t x, y;
};

__device__ inline spot spot_of(size_t i, uint32_t height, uint32_t width, size_t channels)
{
    const size_t pixel = row_of(i, channels), row = row_of(pixel, width), picture = row_of(row, height);
    return { i - pixel * channels, picture, (uint32_t)(pixel - row * width), (uint32_t)(row - picture * height) };
}

__device__ inline size_t number_at(const spot &spot, uint32_t y, uint32_t x, uint32_t height, uint32_t width,
                                   size_t channels)
{
    return ((spot.picture * height + y) * width + x) * channels + spot.channel;
}

struct sides {
    side down, across;
    size_t channels;
};

static side side_of(size_t pixels, size_t places, size_t window, size_t stride, size_t padding)
{
    return { (uint32_t)pixels, (uint32_t)places, (uint32_t)window, (uint32_t)stride, (uint32_t)padding };
}

static sides sides_of(const struct pooling *p)
{
    const struct window *w = &p->window;
    return { side_of(p->height, pooling_height(p), w->height, w->stride_height, w->padding_height),
             side_of(p->width, pooling_width(p), w->width, w->stride_width, w->padding_width), p->channels };
}

// Whether its sides have fewer pixels than 32 bits count, with padding and the last stride.
static bool has_small_sides(const struct pooling *p)
{
    const struct window *w = &p->window;
    const size_t most = (size_t)1 << 30;
    return p->height <= most && p->width <= most && w->height <= most && w->width <= most && w->stride_height <= most
        && w->stride_width <= most;
}

static float factor_of(const struct pooling *p)
{
    return 1 / ((float)p->window.height * (float)p->window.width);
}

template <int N>
__device__ inline void store_bytes(uint8_t *to, const unsigned (&bytes)[N])
{
    if constexpr (N == 4) {
        *(uint32_t *)to = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24;
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            to[k] = (uint8_t)bytes[k];
    }
}

// The byte of number k.
template <int N>
__device__ inline unsigned load_bytes(const uint8_t *from)
{
    if constexpr (N == 4)
        return *(const uint32_t *)from;
    else
        return from[0];
}

// The first of the largest numbers, or the first NaN.
struct max_pool_body {
    float *out;
    uint8_t *won;
    const float *in;
    sides s;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, s.down.places, s.across.places, s.channels);
        const range down = covered_pixels(s.down, spot.y), across = covered_pixels(s.across, spot.x);
        pack<N> most = {};
        unsigned winner[N] = {};
        bool is_first = true;
        for (uint32_t y = down.first; y < down.end; y++)
            for (uint32_t x = across.first; x < across.end; x++, is_first = false) {
                const pack<N> number = load<N>(in + number_at(spot, y, x, s.down.pixels, s.across.pixels, s.channels));
                const uint32_t row = y + s.down.padding - spot.y * s.down.stride;
                const uint32_t column = x + s.across.padding - spot.x * s.across.stride;
#pragma unroll
                for (int k = 0; k < N; k++)
                    if (is_first || (!(number.at[k] <= most.at[k]) && most.at[k] == most.at[k])) {
                        most.at[k] = number.at[k];
                        winner[k] = row * s.across.window + column;
                    }
            }
        store<N>(out + i, most);
        store_bytes<N>(won + i, winner);
    }
};

struct max_pool_backward_body {
    float *in_gradient;
    const float *out_gradient;
    const uint8_t *won;
    sides s;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, s.down.pixels, s.across.pixels, s.channels);
        const range down = covering_places(s.down, spot.y), across = covering_places(s.across, spot.x);
        pack<N> sum = {};
        for (uint32_t y = down.first; y < down.end; y++)
            for (uint32_t x = across.first; x < across.end; x++) {
                const uint32_t row = spot.y + s.down.padding - y * s.down.stride;
                const uint32_t column = spot.x + s.across.padding - x * s.across.stride;
                const size_t from = number_at(spot, y, x, s.down.places, s.across.places, s.channels);
                const pack<N> g = load<N>(out_gradient + from);
                const unsigned winners = load_bytes<N>(won + from), own = row * s.across.window + column;
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum.at[k] += (winners >> 8 * k & 255) == own ? g.at[k] : 0;
            }
        store<N>(in_gradient + i, sum);
    }
};

struct average_pool_body {
    float *out;
    const float *in;
    sides s;
    float factor;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, s.down.places, s.across.places, s.channels);
        const range down = covered_pixels(s.down, spot.y), across = covered_pixels(s.across, spot.x);
        pack<N> sum = {};
        for (uint32_t y = down.first; y < down.end; y++)
            for (uint32_t x = across.first; x < across.end; x++) {
                const pack<N> number = load<N>(in + number_at(spot, y, x, s.down.pixels, s.across.pixels, s.channels));
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum.at[k] += number.at[k];
            }
        store<N>(out + i, each<N>([&](int k) { return sum.at[k] * factor; }));
    }
};

struct average_pool_backward_body {
    float *in_gradient;
    const float *out_gradient;
    sides s;
    float factor;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, s.down.pixels, s.across.pixels, s.channels);
        const range down = covering_places(s.down, spot.y), across = covering_places(s.across, spot.x);
        pack<N> sum = {};
        for (uint32_t y = down.first; y < down.end; y++)
#pragma unroll 1  // or sm_80 finds too few registers
            for (uint32_t x = across.first; x < across.end; x++) {
                const pack<N> g
                    = load<N>(out_gradient + number_at(spot, y, x, s.down.places, s.across.places, s.channels));
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum.at[k] += g.at[k];
            }
        store<N>(in_gradient + i, each<N>([&](int k) { return sum.at[k] * factor; }));
    }
};

static size_t in_count(const struct pooling *p)
{
    return p->batch * p->height * p->width * p->channels;
}

static size_t out_count(const struct pooling *p)
{
    return p->batch * pooling_height(p) * pooling_width(p) * p->channels;
}

cudaError_t cuda_max_pool(const struct cuda_launch *launch, const struct pooling *pooling, struct values *out,
                          uint8_t *won, const struct values *in)
{
    if (!has_small_sides(pooling))
        return cudaErrorInvalidConfiguration;
    const max_pool_body body = { (float *)out, won, (const float *)in, sides_of(pooling) };
    const size_t count = out_count(pooling);
    return launch_each<PACK>(launch, body, count, head_of_rows<PACK>(pooling->channels, count, body.out, won, body.in));
}

cudaError_t cuda_max_pool_backward(const struct cuda_launch *launch, const struct pooling *pooling,
                                   struct values *in_gradient, const struct values *out_gradient, const uint8_t *won)
{
    if (!has_small_sides(pooling))
        return cudaErrorInvalidConfiguration;
    const max_pool_backward_body body = { (float *)in_gradient, (const float *)out_gradient, won, sides_of(pooling) };
    const size_t count = in_count(pooling);
    return launch_each<PACK>(launch, body, count,
                             head_of_rows<PACK>(pooling->channels, count, body.in_gradient, body.out_gradient, won));
}

cudaError_t cuda_average_pool(const struct cuda_launch *launch, const struct pooling *pooling, struct values *out,
                              const struct values *in)
{
    if (!has_small_sides(pooling))
        return cudaErrorInvalidConfiguration;
    const average_pool_body body = { (float *)out, (const float *)in, sides_of(pooling), factor_of(pooling) };
    const size_t count = out_count(pooling);
    return launch_each<PACK>(launch, body, count, head_of_rows<PACK>(pooling->channels, count, body.out, body.in));
}

cudaError_t cuda_average_pool_backward(const struct cuda_launch *launch, const struct pooling *pooling,
                                       struct values *in_gradient, const struct values *out_gradient)
{
    if (!has_small_sides(pooling))
        return cudaErrorInvalidConfiguration;
    const average_pool_backward_body body = { (float *)in_gradient, (const float *)out_gradient, sides_of(pooling),
                                              factor_of(pooling) };
    const size_t count = in_count(pooling);
    return launch_each<PACK>(launch, body, count,
                             head_of_rows<PACK>(pooling->channels, count, body.in_gradient, body.out_gradient));
}

// --- joining and widening branches --------------------------------------------------------------------

struct copy_columns_body {
    float *out;
    const float *in;
    size_t columns, out_stride, in_stride;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t row = row_of(i, columns), column = i - row * columns;
        store<N>(out + row * out_stride + column, load<N>(in + row * in_stride + column));
    }
};

cudaError_t cuda_copy_columns(const struct cuda_launch *launch, struct values *out, const struct values *in,
                              size_t rows, size_t columns, size_t out_stride, size_t in_stride)
{
    const copy_columns_body body = { (float *)out, (const float *)in, columns, out_stride, in_stride };
    const size_t count = rows * columns;
    const bool packs = out_stride % PACK == 0 && in_stride % PACK == 0;
    return launch_each<PACK>(launch, body, count,
                             packs ? head_of_rows<PACK>(columns, count, body.out, body.in) : count);
}

struct larger_pictures {
    uint32_t height, width, factor;
    size_t channels;
};

static larger_pictures larger_pictures_of(const struct upsampling *u)
{
    return { (uint32_t)u->height, (uint32_t)u->width, (uint32_t)u->factor, u->channels };
}

static bool has_small_sides(const struct upsampling *u)
{
    const size_t most = (size_t)1 << 30;
    return u->height <= most / u->factor && u->width <= most / u->factor;
}

struct upsample_body {
    float *out;
    const float *in;
    larger_pictures u;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, u.height * u.factor, u.width * u.factor, u.channels);
        const uint32_t y = spot.y / u.factor, x = spot.x / u.factor;
        store<N>(out + i, load<N>(in + number_at(spot, y, x, u.height, u.width, u.channels)));
    }
};

static size_t small_count(const struct upsampling *u)
{
    return u->batch * u->height * u->width * u->channels;
}

cudaError_t cuda_upsample(const struct cuda_launch *launch, const struct upsampling *upsampling, struct values *out,
                          const struct values *in)
{
    if (!has_small_sides(upsampling))
        return cudaErrorInvalidConfiguration;
    const upsample_body body = { (float *)out, (const float *)in, larger_pictures_of(upsampling) };
    const size_t count = small_count(upsampling) * upsampling->factor * upsampling->factor;
    return launch_each<PACK>(launch, body, count, head_of_rows<PACK>(upsampling->channels, count, body.out, body.in));
}

struct upsample_backward_body {
    float *in_gradient;
    const float *out_gradient;
    larger_pictures u;

    template <int N>
    __device__ void at(size_t i) const
    {
        const spot spot = spot_of(i, u.height, u.width, u.channels);
        pack<N> sum = {};
        for (uint32_t y = spot.y * u.factor; y < (spot.y + 1) * u.factor; y++)
            for (uint32_t x = spot.x * u.factor; x < (spot.x + 1) * u.factor; x++) {
                const pack<N> g = load<N>(out_gradient + number_at(spot, y, x, u.height * u.factor, u.width * u.factor,
                                                                   u.channels));
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum.at[k] += g.at[k];
            }
        store<N>(in_gradient + i, sum);
    }
};

cudaError_t cuda_upsample_backward(const struct cuda_launch *launch, const struct upsampling *upsampling,
                                   struct values *in_gradient, const struct values *out_gradient)
{
    if (!has_small_sides(upsampling))
        return cudaErrorInvalidConfiguration;
    const upsample_backward_body body = { (float *)in_gradient, (const float *)out_gradient,
                                          larger_pictures_of(upsampling) };
    const size_t count = small_count(upsampling);
    return launch_each<PACK>(launch, body, count,
                             head_of_rows<PACK>(upsampling->channels, count, body.in_gradient, body.out_gradient));
}

// --- loading ------------------------------------------------------------------------------------------

template <int N>
static cudaError_t load_norms()
{
    return load_kernels(tiles_kernel<N, number_sum>, tiles_kernel<N, square_sum>, tiles_kernel<N, gradient_sums>,
                        each_kernel<1, by_bytes<N, norm_body>>, each_kernel<1, by_bytes<N, norm_backward_body>>);
}

cudaError_t cuda_load_pictures(void)
{
    const cudaError_t status = load_kernels(
        end_kernel<mean_end>, end_kernel<squares_end>, end_kernel<gradients_end>, each_kernel<1, merge_body>,
        count_kernel, each_kernel<1, fold_body>, each_kernel<PACK, max_pool_body>,
        each_kernel<PACK, max_pool_backward_body>, each_kernel<PACK, average_pool_body>,
        each_kernel<PACK, average_pool_backward_body>, each_kernel<PACK, copy_columns_body>,
        each_kernel<PACK, upsample_body>, each_kernel<PACK, upsample_backward_body>);
    return first_bad(status, first_bad(load_norms<PACK>(), load_norms<1>()));
}
