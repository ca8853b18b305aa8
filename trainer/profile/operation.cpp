#include "trainer/profile/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace weft {
namespace {

Operation collective(const char* name, const char* group, Tensor whole, int num_ranks,
                     double share_on_link) {
  return {.name = name,
          .group = group,
          .dimensions = "bytes ranks",
          .sizes = {whole.num_bytes(), num_ranks},
          .dtype = whole.dtype(),
          .bytes = static_cast<double>(whole.num_bytes()) * share_on_link};
}

std::string size_text(int64_t num_bytes) {
  const auto bytes = static_cast<double>(num_bytes);
  if (num_bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  if (num_bytes >= 1 << 10) return fmt::format("{:.1f} KiB", bytes / (1 << 10));
  return fmt::format("{} bytes", num_bytes);
}

double all_but_one(int num_ranks) { return static_cast<double>(num_ranks - 1) / num_ranks; }

}  // namespace

bool is_same_kind(const Operation& a, const Operation& b) {
  return a.sizes == b.sizes && a.dtype == b.dtype && std::string_view(a.name) == b.name &&
         std::string_view(a.group) == b.group;
}

std::string to_string(const Operation& operation) {
  std::string text = operation.name;
  if (operation.is_collective()) {
    return fmt::format("{} {} over {} {} ranks", text, size_text(operation.sizes[0]),
                       operation.sizes[1], operation.group);
  }
  std::string_view names = operation.dimensions;
  for (size_t i = 0; !names.empty(); ++i) {
    const size_t end = std::min(names.find(' '), names.size());
    text += fmt::format(" {}={}", names.substr(0, end), operation.sizes[i]);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return text + " " + name_of(operation.dtype);
}

// One side may be the host's memory, so the other side's bytes alone count.
Operation copy_operation(int64_t num_bytes) {
  return {.name = "copy",
          .dimensions = "n",
          .sizes = {num_bytes},
          .dtype = DType::kUInt8,
          .bytes = static_cast<double>(num_bytes)};
}

Operation all_reduce_operation(const char* group, Tensor inout, int num_ranks) {
  return collective("all_reduce", group, inout, num_ranks, 2 * all_but_one(num_ranks));
}

Operation reduce_scatter_operation(const char* group, Tensor whole, int num_ranks) {
  return collective("reduce_scatter", group, whole, num_ranks, all_but_one(num_ranks));
}

Operation all_gather_operation(const char* group, Tensor whole, int num_ranks) {
  return collective("all_gather", group, whole, num_ranks, all_but_one(num_ranks));
}

Operation broadcast_operation(const char* group, Tensor inout, int num_ranks) {
  return collective("broadcast", group, inout, num_ranks, 1);
}

Operation exchange_operation(const char* group, std::span<const Transfer> transfers,
                             int num_ranks) {
  int64_t sent = 0, received = 0;
  for (const Transfer& t : transfers) (t.sends ? sent : received) += t.tensor.num_bytes();
  const int64_t num_bytes = std::max(sent, received);
  return {.name = "exchange",
          .group = group,
          .dimensions = "bytes ranks",
          .sizes = {num_bytes, num_ranks},
          .dtype = DType::kUInt8,
          .bytes = static_cast<double>(num_bytes)};
}

}  // namespace weft
