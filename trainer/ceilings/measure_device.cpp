#include "trainer/ceilings/measure_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float8.h"
#include "trainer/ceilings/algorithm_file.h"
#include "trainer/ceilings/power_meter.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Its memory of the device is released with it.
class DeviceMemory {
 public:
  DeviceMemory(Backend& device, int64_t num_bytes)
      : device_(device), data_(device.allocate(num_bytes, Memory::kDevice)) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { device_.release(data_, Memory::kDevice); }
  void* data() const { return data_; }

 private:
  Backend& device_;
  void* data_;
};

// Matrix units draw less power and run faster on zeros than on numbers as training has them. One
// run of 1 Mi normal numbers is repeated.
void fill_random(Backend& device, Tensor tensor) {
  constexpr int64_t kNumRandom = 1 << 20;
  std::mt19937 random(1234);
  std::normal_distribution<float> normal;
  std::vector<float> values(kNumRandom);
  for (float& value : values) value = normal(random);
  const std::vector<BFloat16> bf16(values.begin(), values.end());
  std::vector<uint8_t> fp8;
  for (const float value : values) fp8.push_back(to_float8(value, DType::kFloat8E4M3));
  const void* source = values.data();
  if (tensor.dtype() == DType::kBFloat16) source = bf16.data();
  if (tensor.dtype() == DType::kFloat8E4M3) source = fp8.data();
  const int64_t piece_bytes = kNumRandom * size_bytes(tensor.dtype());
  for (int64_t at = 0; at < tensor.num_bytes(); at += piece_bytes) {
    device.copy(tensor.as<char>() + at, source, std::min(piece_bytes, tensor.num_bytes() - at),
                Stream::kCompute);
  }
  device.synchronize();
}

// Runs batches of `call` for `seconds` and returns the mean time of one in seconds, on the device's
// clock. A batch lasts about a tenth of a second, or one call; `during` is called while it runs.
template <typename Call, typename During>
double mean_seconds(Backend& device, double seconds, const Call& call, const During& during) {
  const EventId begin = device.create_timed_event(), end = device.create_timed_event();
  const auto seconds_of = [&](int64_t num_calls) {
    device.record(begin, Stream::kCompute);
    for (int64_t i = 0; i < num_calls; ++i) call();
    device.record(end, Stream::kCompute);
    during();
    device.synchronize(end);
    return device.elapsed_ms(begin, end) / 1e3;
  };
  seconds_of(1);  // the first call may load code
  const double first = std::max(seconds_of(1), 1e-7);
  const auto batch = std::max<int64_t>(1, static_cast<int64_t>(std::min(0.1, seconds) / first));
  const Clock::time_point start = Clock::now();
  double total = 0;
  int64_t num_calls = 0;
  do {
    total += seconds_of(batch);
    num_calls += batch;
  } while (seconds_since(start) < seconds);
  return total / static_cast<double>(num_calls);
}

template <typename Call>
double mean_seconds(Backend& device, double seconds, const Call& call) {
  return mean_seconds(device, seconds, call, [] {});
}

double tflops_of_product(int64_t n, double seconds) {
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds / 1e12;
}

// Runs products (n,n) = (n,n) * (n,n)^T and returns TFLOP/s.
double product_tflops(Backend& device, const std::filesystem::path& algorithm_file, int64_t n,
                      DType dtype, double seconds, PowerMeter* power) {
  const int64_t num_bytes = n * n * size_bytes(dtype);
  const DeviceMemory a(device, num_bytes), b(device, num_bytes), c(device, num_bytes);
  const Tensor out(a.data(), dtype, {n, n}), inp(b.data(), dtype, {n, n}),
      weight(c.data(), dtype, {n, n});
  const LinearForward product{.out = out, .inp = inp, .weight = weight};
  const AnyOperation tuned[] = {product};
  tune_with_file(device, tuned, algorithm_file);
  fill_random(device, inp);
  fill_random(device, weight);
  const Clock::time_point start = Clock::now();
  const double one = mean_seconds(
      device, seconds, [&] { device.run(product); },
      [&] {
        // The first half warms the device up; its power then is not that of the rest.
        if (power != nullptr && seconds_since(start) > seconds / 2) power->read();
      });
  return tflops_of_product(n, one);
}

// The same for e4m3 operands and a bf16 result, as forward's fc2 has them.
double fp8_product_tflops(Backend& device, const std::filesystem::path& algorithm_file, int64_t n,
                          double seconds) {
  const DeviceMemory a(device, 2 * n * n), b(device, n * n), c(device, n * n), d(device, 256);
  const Tensor out(a.data(), DType::kBFloat16, {n, n});
  const Tensor inp(b.data(), DType::kFloat8E4M3, {n, n}),
      weight(c.data(), DType::kFloat8E4M3, {n, n}), scaling(d.data(), DType::kFloat32, {2});
  const Fp8Product product{.out = out,
                           .a = inp,
                           .b = weight,
                           .a_scaling = scaling,
                           .b_scaling = scaling,
                           .sums_fast = true};
  const AnyOperation tuned[] = {product};
  tune_with_file(device, tuned, algorithm_file);
  fill_random(device, inp);
  fill_random(device, weight);
  constexpr float kUnscaled[] = {1, 1};
  device.copy(scaling.data(), kUnscaled, sizeof kUnscaled, Stream::kCompute);
  return tflops_of_product(n, mean_seconds(device, seconds, [&] { device.run(product); }));
}

constexpr int64_t kColumns = 1024;  // of a sum of two tensors

// Each of the tensors has `num_bytes`. Returns GB/s of a copy and of the sum of two tensors.
std::pair<double, double> memory_gb_per_s(Backend& device, int64_t num_bytes, double seconds) {
  const DeviceMemory a(device, num_bytes), b(device, num_bytes), c(device, num_bytes);
  const auto rows = [&](const DeviceMemory& memory) {
    return Tensor(memory.data(), DType::kFloat32, {num_bytes / 4 / kColumns, kColumns});
  };
  const double copy = mean_seconds(
      device, seconds, [&] { device.copy(b.data(), a.data(), num_bytes, Stream::kCompute); });
  const double triad = mean_seconds(device, seconds, [&] {
    device.run(
        ResidualNormForward{.residual_out = rows(c), .residual = rows(a), .branch = rows(b)});
  });
  const auto bytes = static_cast<double>(num_bytes);
  return {2 * bytes / copy / 1e9, 3 * bytes / triad / 1e9};
}

// Sets the workspace of all that is measured while it lives.
class Workspace {
 public:
  explicit Workspace(Backend& device)
      : device_(device),
        num_bytes_(device.workspace_bytes(measured())),
        memory_(device, num_bytes_) {
    device.set_workspace(memory_.data(), num_bytes_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { device_.set_workspace(nullptr, 0); }

 private:
  static std::vector<AnyOperation> measured() {
    return {LinearForward{},
            ResidualNormForward{.residual = Tensor(nullptr, DType::kFloat32, {1, kColumns})}};
  }

  Backend& device_;
  const int64_t num_bytes_;
  const DeviceMemory memory_;
};

}  // namespace

DeviceCeilings measure_device(Backend& device, const std::filesystem::path& algorithm_file,
                              double seconds, const std::function<void(const std::string&)>& say) {
  const bool is_gpu = device.kind() == DeviceKind::kCuda;
  const double part = seconds / 10;
  DeviceCeilings ceilings{.device = device.description(), .device_id = ceilings_id(device)};
  const int64_t n = is_gpu ? 8192 : 1024;
  const Workspace workspace(device);
  PowerMeter power(device.device_id());
  ceilings.power_limit_w = power.limit_w();
  if (is_gpu && !power.why().empty()) say("power and clock are not read: " + power.why() + "\n");

  // The last level of a CPU's cache holds smaller tensors; a GPU's is far below them.
  const auto [copy, triad] = memory_gb_per_s(device, is_gpu ? 512 << 20 : 64 << 20, part);
  ceilings.copy_gb_per_s = copy;
  ceilings.triad_gb_per_s = triad;
  say(fmt::format("memory: copy {:.1f} GB/s, triad {:.1f} GB/s\n", copy, triad));

  const DeviceMemory small(device, 256);
  const Tensor clip(small.data(), DType::kFloat32, {2});
  const Tensor sum(static_cast<float*>(small.data()) + 2, DType::kFloat32, {1});
  const auto launch = [&] {
    device.run(ClipCoefficient{.clip = clip, .sum_of_squares = sum, .max_norm = 1});
  };
  ceilings.launch_us = 1e6 * mean_seconds(device, part, launch);
  constexpr int kNumRoundTrips = 200;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kNumRoundTrips; ++i) {
    launch();
    device.synchronize();
  }
  ceilings.round_trip_us = 1e6 * seconds_since(start) / kNumRoundTrips;
  say(
      fmt::format("small operations: {:.2f} us from one to the next, {:.2f} us until the host sees "
                  "the end of one\n",
                  ceilings.launch_us, ceilings.round_trip_us));

  // fp32 products have a tenth of the rate, so smaller ones fill the device as long.
  const int64_t n_fp32 = n / 2;
  ceilings.fp32_tflops =
      product_tflops(device, algorithm_file, n_fp32, DType::kFloat32, part, nullptr);
  say(fmt::format("fp32 products of {0} x {0} x {0}: {1:.4g} TF/s\n", n_fp32,
                  ceilings.fp32_tflops));
  // The fp8 products come last, so the device is warm for them.
  ceilings.seconds = device.has_fp8_products() ? seconds / 2 : seconds;
  ceilings.bf16_tflops =
      product_tflops(device, algorithm_file, n, DType::kBFloat16, ceilings.seconds, &power);
  ceilings.power_w = power.mean_power_w();
  ceilings.sm_clock_mhz = power.mean_sm_clock_mhz();
  std::string at;
  if (ceilings.power_w) {
    at = fmt::format(" at {:.0f} W of {:.0f} W and {:.0f} MHz", *ceilings.power_w,
                     ceilings.power_limit_w.value_or(0), ceilings.sm_clock_mhz.value_or(0));
  }
  say(fmt::format("bf16 products of {0} x {0} x {0} for {1:.4g} s: {2:.4g} TF/s{3}\n", n,
                  ceilings.seconds, ceilings.bf16_tflops, at));
  if (device.has_fp8_products()) {
    ceilings.fp8_tflops = fp8_product_tflops(device, algorithm_file, n, ceilings.seconds);
    say(fmt::format("fp8 products of {0} x {0} x {0} for {1:.4g} s: {2:.4g} TF/s\n", n,
                    ceilings.seconds, ceilings.fp8_tflops));
  }
  return ceilings;
}

}  // namespace weft
