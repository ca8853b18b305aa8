// weft_attention_bench [check] [time]: attention on the GPU against a plain fp64 computation, and
// its speed (default: both).
//
// TF/s counts the causal half: forward 2*B*T^2*H*D, backward 5*B*T^2*H*D operations (two and five
// products of T^2*D/2 multiply-adds), as FlashAttention's benchmarks do, also where rows consist of
// documents and less is computed. A time is the median of 30
// calls after 5 for warming up; inputs are random.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda_scratch.h"
#include "kernels/numbers/philox.h"

namespace weft::cuda {
namespace {

constexpr DType kX = DType::kBFloat16;

struct Case {
  DType x;
  int B, T, H, D;
  float dropout;
  uint64_t first_element = 0;
  int document_length = 0;  // documents of this length fill each row; 0: rows know no documents
  bool has_slopes = false;  // ALiBi's

  // The first head's slope is 1/2, the last one's 1/256.
  double slope(int h) const {
    return has_slopes ? std::exp2(-1 - 7.0 * h / std::max(1, H - 1)) : 0;
  }
};

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Device memory that starts as NaNs, so that unwritten results show.
class Buffer {
 public:
  explicit Buffer(size_t num_bytes) : num_bytes_(num_bytes) {
    check(cudaMalloc(&data_, std::max<size_t>(num_bytes, 1)), "cudaMalloc");
    poison();
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void poison() { check(cudaMemset(data_, 0xFF, num_bytes_), "cudaMemset"); }
  void* data() const { return data_; }
  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> host(num_bytes_);
    check(cudaMemcpy(host.data(), data_, num_bytes_, cudaMemcpyDefault), "copy to host");
    return host;
  }
  void fill(const std::vector<float>& values, DType x) {
    std::vector<uint8_t> host(num_bytes_);
    for (size_t i = 0; i < values.size(); ++i) {
      if (x == DType::kFloat32) {
        std::memcpy(&host[4 * i], &values[i], 4);
      } else {
        const __nv_bfloat16 value = __float2bfloat16(values[i]);
        std::memcpy(&host[2 * i], &value, 2);
      }
    }
    check(cudaMemcpy(data_, host.data(), num_bytes_, cudaMemcpyDefault), "copy to device");
  }
  std::vector<double> values(DType x) const {
    const std::vector<uint8_t> host = bytes();
    std::vector<double> result(host.size() / static_cast<size_t>(size_bytes(x)));
    for (size_t i = 0; i < result.size(); ++i) {
      if (x == DType::kFloat32) {
        float value;
        std::memcpy(&value, &host[4 * i], 4);
        result[i] = value;
      } else {
        __nv_bfloat16 value;
        std::memcpy(&value, &host[2 * i], 2);
        result[i] = __bfloat162float(value);
      }
    }
    return result;
  }

 private:
  void* data_ = nullptr;
  size_t num_bytes_;
};

// All tensors of one case, and calls of both directions.
struct Operands {
  Case c;
  size_t num_tokens, out_elements;
  Dropout dropout;
  float scale;
  Buffer qkv, out, dout, dqkv, lse, kept, workspace, bounds, slopes, item_counter;

  explicit Operands(const Case& test)
      : c(test),
        num_tokens(static_cast<size_t>(test.B) * static_cast<size_t>(test.T) *
                   static_cast<size_t>(test.H)),
        out_elements(num_tokens * static_cast<size_t>(test.D)),
        dropout{test.dropout, 1234567890123ULL, 42, test.first_element},
        scale(1.0F / std::sqrt(static_cast<float>(test.D))),
        qkv(3 * out_elements * element_bytes()),
        out(out_elements * element_bytes()),
        dout(out_elements * element_bytes()),
        dqkv(3 * out_elements * element_bytes()),
        lse(num_tokens * 4),
        kept(static_cast<size_t>(c.B * c.H * attention_mask_words(c.T)) * 4),
        workspace(static_cast<size_t>(
            scratch_bytes(AttentionBackward{.qkv = qkv_tensor(qkv)}, /*num_multiprocessors=*/132))),
        bounds(static_cast<size_t>(c.B * c.T) * 2 * sizeof(int32_t)),
        slopes(static_cast<size_t>(c.H) * 4),
        item_counter(sizeof(uint32_t)) {
    check(cudaMemset(item_counter.data(), 0, sizeof(uint32_t)), "cudaMemset");
    fill_bounds();
    std::vector<float> slope_values;
    for (int h = 0; h < c.H; ++h) slope_values.push_back(static_cast<float>(c.slope(h)));
    slopes.fill(slope_values, DType::kFloat32);
    // A million random values, repeated at a length that no tensor size divides, keep large cases
    // quick to set up.
    std::mt19937_64 random(static_cast<uint64_t>(c.T * 1000 + c.D));
    std::normal_distribution<float> normal;
    std::vector<float> source(std::min<size_t>(1000003, 4 * out_elements));
    for (float& value : source) value = normal(random);
    std::vector<float> values(3 * out_elements);
    for (size_t i = 0; i < values.size(); ++i) values[i] = source[i % source.size()];
    qkv.fill(values, c.x);
    values.resize(out_elements);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = source[(i + 3 * out_elements) % source.size()];
    dout.fill(values, c.x);
  }
  void fill_bounds() {
    if (c.document_length == 0) return;
    std::vector<int32_t> values;
    for (int row = 0; row < c.B; ++row) {
      for (int t = 0; t < c.T; ++t) {
        const int begin = t / c.document_length * c.document_length;
        values.push_back(begin);
        values.push_back(std::min(begin + c.document_length, c.T));
      }
    }
    check(cudaMemcpy(bounds.data(), values.data(), values.size() * sizeof(int32_t),
                     cudaMemcpyDefault),
          "copy to device");
  }
  Tensor bounds_tensor() const {
    return c.document_length == 0 ? Tensor() : Tensor(bounds.data(), DType::kInt32, {c.B, c.T, 2});
  }
  Tensor slopes_tensor() const {
    return c.has_slopes ? Tensor(slopes.data(), DType::kFloat32, {c.H}) : Tensor();
  }
  size_t element_bytes() const { return static_cast<size_t>(size_bytes(c.x)); }
  Tensor qkv_tensor(const Buffer& buffer) const {
    return Tensor(buffer.data(), c.x, {c.B, c.T, c.H, 3, c.D});
  }
  Tensor out_tensor(const Buffer& buffer) const {
    return Tensor(buffer.data(), c.x, {c.B, c.T, c.H, c.D});
  }
  Tensor lse_tensor() const { return Tensor(lse.data(), DType::kFloat32, {c.B, c.H, c.T}); }
  Tensor kept_tensor() const {
    return Tensor(kept.data(), DType::kInt32, {c.B, c.H, attention_mask_words(c.T)});
  }
  void forward() {
    attention_forward(nullptr,
                      {.out = out_tensor(out),
                       .lse = lse_tensor(),
                       .dropout_mask = kept_tensor(),
                       .qkv = qkv_tensor(qkv),
                       .document_bounds = bounds_tensor(),
                       .slopes = slopes_tensor(),
                       .scale = scale,
                       .dropout = dropout},
                      static_cast<uint32_t*>(item_counter.data()));
  }
  void backward() {
    attention_backward(nullptr,
                       {.dqkv = qkv_tensor(dqkv),
                        .dout = out_tensor(dout),
                        .out = out_tensor(out),
                        .lse = lse_tensor(),
                        .dropout_mask = kept_tensor(),
                        .qkv = qkv_tensor(qkv),
                        .document_bounds = bounds_tensor(),
                        .slopes = slopes_tensor(),
                        .scale = scale,
                        .dropout_p = c.dropout},
                       workspace.data());
  }
};

struct Reference {
  std::vector<double> out, lse, dqkv;
};

// Returns the 16-bit number of an element of attention's mask, digit by digit.
uint32_t mask_number(const Dropout& dropout, uint64_t element) {
  const uint64_t e = dropout.first_element + element;
  uint32_t number = 0;
  for (uint64_t digit = 0; digit < kDropoutDigits; ++digit) {
    const uint64_t block = e / kMaskBitsPerDraw * kDropoutDigits + digit;
    const PhiloxBlock random = dropout_block(dropout.seed, dropout.stream, block);
    number = number * 2 + (random.word[e / 32 % 4] >> (e % 32) & 1);
  }
  return number;
}

// Rows of one (batch, head) as the tensors hold them.
Reference reference(const Operands& a) {
  const Case& c = a.c;
  const std::vector<double> qkv = a.qkv.values(c.x), dout = a.dout.values(c.x);
  Reference r{std::vector<double>(dout.size()), std::vector<double>(a.num_tokens),
              std::vector<double>(qkv.size())};
  const auto row = [&](int b, int t, int h) {
    return (static_cast<size_t>(b) * static_cast<size_t>(c.T) + static_cast<size_t>(t)) *
               static_cast<size_t>(c.H) +
           static_cast<size_t>(h);
  };
  const size_t D = static_cast<size_t>(c.D);
  std::vector<double> p(static_cast<size_t>(c.T)), f(p.size()), dp(p.size());
  const uint32_t threshold = dropout_threshold(c.dropout);
  for (int b = 0; b < c.B; ++b) {
    for (int h = 0; h < c.H; ++h) {
      for (int i = 0; i < c.T; ++i) {
        const double* q = &qkv[row(b, i, h) * 3 * D];
        const double* g = &dout[row(b, i, h) * D];
        double* o = &r.out[row(b, i, h) * D];
        double max = -INFINITY, sum = 0, delta = 0;
        for (int j = 0; j <= i; ++j) {
          const double* k = &qkv[row(b, j, h) * 3 * D + D];
          double s = 0, d = 0;
          for (size_t e = 0; e < D; ++e) s += q[e] * k[e], d += g[e] * k[D + e];
          const size_t jj = static_cast<size_t>(j);
          const int64_t word =
              (b * c.H + h) * attention_mask_words(c.T) + attention_mask_word(i, j);
          const auto element =
              32 * static_cast<uint64_t>(word) + static_cast<uint64_t>(attention_mask_bit(i, j));
          const bool dropped = mask_number(a.dropout, element) < threshold;
          f[jj] = dropped ? 0 : static_cast<double>(dropout_scale(c.dropout));
          p[jj] = s * static_cast<double>(a.scale) + c.slope(h) * (j - i);
          dp[jj] = d * f[jj];
          max = std::max(max, p[jj]);
        }
        for (size_t j = 0; j <= static_cast<size_t>(i); ++j) sum += std::exp(p[j] - max);
        const size_t lse_row = static_cast<size_t>((b * c.H + h) * c.T + i);
        r.lse[lse_row] = max + std::log(sum);
        for (size_t j = 0; j <= static_cast<size_t>(i); ++j) {
          p[j] = std::exp(p[j] - r.lse[lse_row]);
          delta += p[j] * dp[j];
        }
        double* dq = &r.dqkv[row(b, i, h) * 3 * D];
        for (int j = 0; j <= i; ++j) {
          const size_t jj = static_cast<size_t>(j);
          const double* k = &qkv[row(b, j, h) * 3 * D + D];
          double* dk = &r.dqkv[row(b, j, h) * 3 * D + D];
          const double ds = p[jj] * (dp[jj] - delta) * static_cast<double>(a.scale);
          for (size_t e = 0; e < D; ++e) {
            o[e] += p[jj] * f[jj] * k[D + e];
            dq[e] += ds * k[e];
            dk[e] += ds * q[e];
            dk[D + e] += p[jj] * f[jj] * g[e];
          }
        }
      }
    }
  }
  return r;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// Every third row of D from row `part` on: the query, key or value part of qkv.
std::vector<double> part_of(const std::vector<double>& qkv, size_t D, size_t part) {
  std::vector<double> rows;
  for (size_t e = 0; e < qkv.size(); ++e) {
    if (e / D % 3 == part) rows.push_back(qkv[e]);
  }
  return rows;
}

// ||a - b|| / max(||b||, floor); not a number if any element is.
double distance(const std::vector<double>& a, const std::vector<double>& b, double floor = 1e-30) {
  double difference = 0;
  for (size_t e = 0; e < b.size(); ++e) difference += (a[e] - b[e]) * (a[e] - b[e]);
  return std::sqrt(difference) / std::max(norm(b), floor);
}

bool check_case(const Case& c) {
  Operands a(c);
  a.forward();
  a.backward();
  check(cudaDeviceSynchronize(), "attention");
  const Reference want = reference(a);
  const size_t D = static_cast<size_t>(c.D);
  const std::vector<double> out = a.out.values(c.x), dqkv = a.dqkv.values(c.x),
                            lse = a.lse.values(DType::kFloat32);
  // In short sequences the gradients of query and key nearly cancel: what counts there is the whole
  // gradient's size.
  const double floor = std::max(1e-30, 0.3 * norm(want.dqkv));
  double errors[5] = {distance(out, want.out), distance(lse, want.lse)};
  for (size_t part = 0; part < 3; ++part) {
    errors[2 + part] = distance(part_of(dqkv, D, part), part_of(want.dqkv, D, part), floor);
  }
  // bf16 keeps 8 bits: operands and results round by 2^-9; fp32 by 2^-24 with sums of up to a few
  // hundred terms.
  const double limit = c.x == DType::kFloat32 ? 1e-5 : 1e-2;
  bool good = true;
  for (int i = 0; i < 5; ++i) good = good && errors[i] < (i == 1 ? 1e-4 : limit);

  const std::vector<uint8_t> first_out = a.out.bytes(), first_lse = a.lse.bytes(),
                             first_dqkv = a.dqkv.bytes();
  bool equal = true;
  for (int repeat = 0; repeat < 3; ++repeat) {
    a.out.poison(), a.lse.poison(), a.dqkv.poison(), a.kept.poison(), a.workspace.poison();
    a.forward();
    a.backward();
    equal = equal && first_out == a.out.bytes() && first_lse == a.lse.bytes() &&
            first_dqkv == a.dqkv.bytes();
  }
  std::printf(
      "%s %s B %d T %4d H %d D %3d%s dropout %.2f+%llu  out %.1e lse %.1e dq %.1e dk %.1e dv "
      "%.1e%s\n",
      good && equal ? "ok  " : "FAIL", c.x == DType::kFloat32 ? "fp32" : "bf16", c.B, c.T, c.H, c.D,
      c.has_slopes ? " ALiBi" : "", static_cast<double>(c.dropout),
      static_cast<unsigned long long>(c.first_element), errors[0], errors[1], errors[2], errors[3],
      errors[4], equal ? "" : "  repeats differ");
  return good && equal;
}

template <typename Call>
double median_ms(Call call) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i < 35; ++i) {
    check(cudaEventRecord(start), "cudaEventRecord");
    call();
    check(cudaEventRecord(stop), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "attention");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    if (i >= 5) times.push_back(ms);
  }
  check(cudaEventDestroy(start), "cudaEventDestroy");
  check(cudaEventDestroy(stop), "cudaEventDestroy");
  std::nth_element(times.begin(), times.begin() + 15, times.end());
  return static_cast<double>(times[15]);
}

void time_case(const Case& c) {
  Operands a(c);
  const double forward = median_ms([&] { a.forward(); });
  const double backward = median_ms([&] { a.backward(); });
  const double tflop = 1e-12 * c.B * c.H * c.D * static_cast<double>(c.T) * c.T;
  std::printf(
      "%s B %2d T %4d H %2d D %3d%s dropout %.1f documents %4d  forward %7.3f ms %6.1f TF/s  backward "
      "%7.3f ms %6.1f TF/s\n",
      c.x == DType::kFloat32 ? "fp32" : "bf16", c.B, c.T, c.H, c.D, c.has_slopes ? " ALiBi" : "",
      static_cast<double>(c.dropout), c.document_length, forward, 2e3 * tflop / forward, backward,
      5e3 * tflop / backward);
}

bool check_all() {
  bool good = true;
  for (const int D : {64, 80, 96, 128, 160}) {
    for (const int T : {1, 2, 31, 64, 65, 127, 128, 200, 257, 384, 515})
      good = check_case({kX, 2, T, 3, D, 0}) && good;
    for (const int T : {3, 63, 64, 130, 256, 301}) {
      good = check_case({kX, 1, T, 3, D, 0.1F}) && good;
      good = check_case({kX, 2, T, 1, D, 0.5F, (1ULL << 33) + 128}) && good;
    }
    for (const int T : {2, 65, 384, 515})
      good = check_case({kX, 1, T, 3, D, 0.1F, 0, 0, /*has_slopes=*/true}) && good;
  }
  return good;
}

void time_cases(int only) {
  int idx = 0;
  for (const Case& c : {Case{kX, 64, 1024, 12, 64, 0},
                        Case{kX, 16, 1024, 25, 64, 0},
                        Case{kX, 8, 2048, 24, 96, 0},
                        Case{kX, 4, 2048, 32, 128, 0},
                        Case{kX, 1, 8192, 32, 128, 0},
                        Case{kX, 64, 1024, 12, 64, 0.1F},
                        Case{kX, 8, 2048, 24, 96, 0.1F},
                        Case{kX, 64, 1024, 12, 64, 0.5F},
                        Case{kX, 4, 2048, 32, 128, 0.1F},
                        Case{kX, 64, 1024, 12, 64, 0, 0, 1024},
                        Case{kX, 64, 1024, 12, 64, 0, 0, 300},
                        Case{kX, 64, 1024, 12, 64, 0, 0, 128},
                        Case{kX, 64, 1024, 12, 64, 0.1F, 0, 300},
                        Case{kX, 8, 2048, 24, 96, 0, 0, 500},
                        Case{kX, 4, 2048, 32, 128, 0, 0, 2048},
                        Case{kX, 4, 2048, 32, 128, 0, 0, 500},
                        Case{kX, 1, 8192, 32, 128, 0, 0, 8192},
                        Case{kX, 1, 8192, 32, 128, 0, 0, 1000},
                        Case{kX, 8, 2048, 16, 64, 0},
                        Case{kX, 8, 2048, 16, 64, 0, 0, 0, true},
                        Case{kX, 8, 2048, 16, 64, 0.1F},
                        Case{kX, 8, 2048, 16, 64, 0.1F, 0, 0, true},
                        Case{kX, 8, 2048, 16, 128, 0},
                        Case{kX, 8, 2048, 16, 128, 0, 0, 0, true},
                        Case{kX, 8, 2048, 16, 128, 0.1F},
                        Case{kX, 8, 2048, 16, 128, 0.1F, 0, 0, true},
                        Case{kX, 8, 2048, 16, 80, 0},
                        Case{kX, 8, 2048, 16, 80, 0.1F},
                        Case{kX, 8, 2048, 16, 96, 0},
                        Case{kX, 8, 2048, 16, 96, 0.1F},
                        Case{kX, 8, 2048, 16, 160, 0},
                        Case{kX, 8, 2048, 16, 160, 0.1F}}) {
    if (only < 0 || only == idx) time_case(c);
    ++idx;
  }
}

int run_bench(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc > 3 || (argc == 3 && what != "time") ||
      (argc == 2 && what != "check" && what != "time")) {
    std::fprintf(stderr, "usage: %s [check|time [case]]\n", argv[0]);
    return 2;
  }
  bool good = true;
  if (what != "time") good = check_all();
  if (what != "check") time_cases(argc > 2 ? std::atoi(argv[2]) : -1);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace weft::cuda

int main(int argc, char** argv) {
  try {
    return weft::cuda::run_bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
