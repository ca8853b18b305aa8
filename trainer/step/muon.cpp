#include "trainer/step/muon.h"

#include <algorithm>
#include <span>
#include <utility>

namespace weft {
namespace {

// Batches of smaller matrices have so many elements at most: their products then fill a GPU, and
// the memory of the iterations is that of the largest matrices.
constexpr int64_t kBatchElements = int64_t{16} << 20;

// Pinned memory between ranks that share a GPU has room for so many transfers at once.
constexpr size_t kMostTransfers = 16;

int64_t num_rows_of(const Parameter& parameter) { return parameter.shape[0]; }

// The multiplications of an iteration, for R rows.
double work_of(int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(std::min(rows, columns)),
             c = static_cast<double>(std::max(rows, columns));
  return r * r * (2 * c + r);
}

}  // namespace

Muon::Muon(Backend& backend, const ProcessGroups& groups, const ParameterTable& table,
           const ArenaShards& shards, MuonOptions options, MemoryPlan& memory)
    : backend_(backend),
      groups_(groups),
      options_(std::move(options)),
      is_sharded_(shards.is_sharded()) {
  add_slices(table, shards);
  batches_ = batches_of(table, groups.layout.dp_rank);
  plan(table, memory);
}

void Muon::add_slices(const ParameterTable& table, const ArenaShards& shards) {
  std::vector<double> work(static_cast<size_t>(groups_.layout.dp_size), 0.0);
  for (const Parameter& parameter : table.all()) {
    if (!parameter.is_layer_matrix) continue;
    Slice slice{.arena = {parameter.arena_offset, parameter.num_elements},
                .owner = groups_.layout.dp_rank,
                .shares = {}};
    if (is_sharded_) {
      for (const ArenaRange& bucket : shards.buckets()) {
        for (int rank = 0; rank < groups_.layout.dp_size; ++rank) {
          const ArenaRange part = shards.part_of(bucket, rank);
          const int64_t first = std::max(part.first, slice.arena.first);
          const int64_t end = std::min(part.end(), slice.arena.end());
          if (first < end) slice.shares.push_back({rank, {first, end - first}});
        }
      }
      slice.owner = std::ranges::min(slice.shares, {}, [&](const Slice::Share& share) {
                      return work[static_cast<size_t>(share.rank)];
                    }).rank;
      work[static_cast<size_t>(slice.owner)] += work_of(parameter.shape[0], parameter.shape[1]);
    }
    slices_.push_back(std::move(slice));
  }
}

std::vector<Muon::Batch> Muon::batches_of(const ParameterTable& table, int owner) const {
  std::vector<Batch> batches;
  size_t idx = 0;
  for (const Parameter& parameter : table.all()) {
    if (!parameter.is_layer_matrix) continue;
    const Slice& slice = slices_[idx++];
    if (slice.owner == owner) add_matrices(parameter, slice, batches);
  }
  return batches;
}

void Muon::add_matrices(const Parameter& parameter, const Slice& slice,
                        std::vector<Batch>& batches) const {
  const int tp_size = options_.gathers_matrices ? groups_.layout.tp_size : 1;
  const int tp_rank = options_.gathers_matrices ? groups_.layout.tp_rank : 0;
  const int64_t rows = num_rows_of(parameter), columns = parameter.shape[1];
  const bool is_split_by_columns =
      parameter.split_dim == static_cast<int>(parameter.global_shape.size()) - 1;
  std::vector<int64_t> runs = {rows};
  if (options_.splits_qkv && !parameter.fused_rows.empty()) runs = parameter.fused_rows;
  int64_t group_rows = 0;
  for (const int64_t run : runs) group_rows += run;
  int64_t first_row = 0;
  for (const int64_t run : runs) {
    Matrix matrix;
    matrix.slice = &slice;
    matrix.is_gathered = tp_size > 1;
    matrix.own = {.columns = columns,
                  .num_groups = rows / group_rows,
                  .group_rows = group_rows,
                  .first_row = first_row,
                  .run_rows = run};
    matrix.whole = matrix.own;
    // The order of rows, and of columns, makes no difference to the iterations.
    (is_split_by_columns ? matrix.whole.num_pieces : matrix.whole.num_groups) *= tp_size;
    matrix.first_row = is_split_by_columns ? 0 : tp_rank * matrix.own.num_rows();
    matrix.first_column = is_split_by_columns ? tp_rank * columns : 0;
    matrix.is_transposed = matrix.whole.num_rows() > matrix.whole.num_columns();
    matrix.scale = scale_of(options_.scale, matrix.whole.num_rows(), matrix.whole.num_columns()) *
                   options_.extra_scale;
    add(matrix, batches);
    first_row += run;
  }
}

void Muon::add(const Matrix& matrix, std::vector<Batch>& batches) {
  const auto same = std::ranges::find_if(batches, [&](const Batch& batch) {
    const int64_t num = static_cast<int64_t>(batch.size()) + 1;
    return batch[0].rows() == matrix.rows() && batch[0].columns() == matrix.columns() &&
           num * matrix.whole.num_elements() <= kBatchElements;
  });
  if (same != batches.end())
    same->push_back(matrix);
  else
    batches.push_back({matrix});
}

// Each rank takes the memory of the one with the largest batches, so that a plan of one tells that
// of all.
void Muon::plan(const ParameterTable& table, MemoryPlan& plan) {
  int64_t elements = 0, squares = 0, gathered = 0;
  for (int rank = 0; rank < groups_.layout.dp_size; ++rank) {
    for (const Batch& batch : batches_of(table, rank)) {
      const auto num = static_cast<int64_t>(batch.size());
      elements = std::max(elements, num * batch[0].whole.num_elements());
      squares = std::max(squares, num * batch[0].rows() * batch[0].rows());
      for (const Matrix& matrix : batch) {
        if (matrix.is_gathered)
          gathered = std::max(gathered, matrix.slice->arena.count * groups_.layout.tp_size);
      }
    }
  }
  if (elements == 0) return;  // a stage may have no matrix
  const auto kClass = MemoryClass::kScratch;
  plan.add(kClass, "Newton-Schulz matrices", &x_, options_.products, {elements});
  plan.add(kClass, "Newton-Schulz matrices", &other_x_, options_.products, {elements});
  plan.add(kClass, "Newton-Schulz products", &products_, options_.products, {squares});
  plan.add(kClass, "Newton-Schulz products", &polynomial_, options_.products, {squares});
  if (gathered > 0)
    plan.add(kClass, "Newton-Schulz gathered", &gathered_, DType::kFloat32, {gathered});
}

void Muon::orthogonalize(Tensor gradients) {
  if (is_sharded_) exchange(gradients, /*to_owner=*/true);
  for (const Batch& batch : batches_) run(batch, gradients);
  if (is_sharded_) exchange(gradients, /*to_owner=*/false);
}

// The ranks of a slice take part in its exchange alone. All go through the slices, and through the
// shares of each, in one order, so that none waits for a transfer that another one starts later.
void Muon::exchange(Tensor gradients, bool to_owner) {
  const int rank = groups_.layout.dp_rank;
  for (const Slice& slice : slices_) {
    std::vector<Transfer> transfers;
    for (const Slice::Share& share : slice.shares) {
      if (share.rank == slice.owner) continue;
      const Tensor part = range_of(gradients, share.arena);
      if (rank == slice.owner) transfers.push_back({part, share.rank, /*sends=*/!to_owner});
      if (rank == share.rank) transfers.push_back({part, slice.owner, /*sends=*/to_owner});
    }
    const std::span<const Transfer> all = transfers;
    for (size_t first = 0; first < all.size(); first += kMostTransfers)
      groups_.data->exchange(all.subspan(first, std::min(kMostTransfers, all.size() - first)),
                             Stream::kCompute);
  }
}

void Muon::run(const Batch& batch, Tensor gradients) {
  const auto num = static_cast<int64_t>(batch.size());
  const int64_t rows = batch[0].rows(), columns = batch[0].columns(), size = rows * columns;
  const auto matrix_of = [&](Tensor matrices, int64_t idx) {
    return as_rows(range_of(matrices, idx * size, size), columns);
  };
  const Slice* gathered = nullptr;
  for (int64_t i = 0; i < num; ++i) {
    const Matrix& matrix = batch[static_cast<size_t>(i)];
    MatrixView whole = matrix.whole;
    whole.data = range_of(gradients, matrix.slice->arena);
    if (matrix.is_gathered) {
      const Tensor all = range_of(gathered_, 0, whole.data.num_elements() * groups_.layout.tp_size);
      if (gathered != matrix.slice) groups_.tensor->all_gather(all, whole.data, Stream::kCompute);
      gathered = matrix.slice;
      whole.data = all;
    }
    backend_.run(
        NormalizeMatrix{.out = matrix_of(x_, i), .inp = whole, .transposed = matrix.is_transposed});
  }
  const auto batch_of = [&](Tensor memory) {
    return Tensor(memory.data(), memory.dtype(), {num, rows, columns});
  };
  const Tensor x = iterate(batch_of(x_), batch_of(other_x_));
  for (int64_t i = 0; i < num; ++i) {
    const Matrix& matrix = batch[static_cast<size_t>(i)];
    MatrixView own = matrix.own;
    own.data = range_of(gradients, matrix.slice->arena);
    backend_.run(ScaleMatrix{.out = own,
                             .inp = matrix_of(x.data() == x_.data() ? x_ : other_x_, i),
                             .first_row = matrix.first_row,
                             .first_column = matrix.first_column,
                             .transposed = matrix.is_transposed,
                             .scale = matrix.scale});
  }
}

// Returns the one of the two in which the result is.
Tensor Muon::iterate(Tensor x, Tensor other) const {
  const int64_t num = x.shape(0), rows = x.shape(1);
  const Tensor products(products_.data(), products_.dtype(), {num, rows, rows});
  const Tensor polynomial = products.with_data(polynomial_.data());
  for (const NewtonSchulz& step : options_.iterations) {
    backend_.run(BatchedProduct{.out = products, .a = x, .b = x, .transposes_b = true});
    backend_.run(BatchedProduct{.out = polynomial,
                                .a = products,
                                .b = products,
                                .c = products,
                                .alpha = static_cast<float>(step.c),
                                .beta = static_cast<float>(step.b)});
    backend_.run(BatchedProduct{
        .out = other, .a = polynomial, .b = x, .c = x, .beta = static_cast<float>(step.a)});
    std::swap(x, other);
  }
  return x;
}

}  // namespace weft
