// Muon's updates: the directions of the matrices of layers, made orthogonal in the arena of
// gradients.
//
// With a sharded optimizer (ZeRO-1) a matrix may lie in the parts of several data-parallel ranks.
// One of those, its owner, gets the others' parts, makes the whole matrix orthogonal, and returns
// them. Owners are chosen so that each rank has about the same work. Replicated, each rank does it
// all.
//
//   arena       |  matrix 0  |  matrix 1  |  matrix 2  |
//   ranks       |   rank 0        |   rank 1           |
//   owners            0            0 <-> 1       1
//
// With tensor parallelism the matrix is this rank's slice, or with --muon-tp-mode duplicated the
// whole one, which all ranks gather and of which each keeps its slice.
// [Megatron-LM megatron/core/optimizer/emerging_optimizers.py]
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/config/muon_options.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/arena.h"
#include "trainer/parallel/process_groups.h"

namespace weft {

class Muon {
 public:
  // Plans the memory of the iterations. All references must outlive it.
  Muon(Backend& backend, const ProcessGroups& groups, const ParameterTable& table,
       const ArenaShards& shards, MuonOptions options, MemoryPlan& plan);
  Muon(const Muon&) = delete;
  Muon& operator=(const Muon&) = delete;

  const MuonOptions& options() const { return options_; }
  // Enqueues the exchange and the iterations. The arena of gradients has the directions of the
  // elements that this rank updates, and gets their updates, scaled, but for the learning rate.
  void orthogonalize(Tensor gradients);

 private:
  // A parameter of this rank, and what other data-parallel ranks have of it.
  struct Slice {
    ArenaRange arena;
    int owner = 0;
    struct Share {
      int rank = 0;
      ArenaRange arena;
    };
    std::vector<Share> shares;
  };
  // A matrix that is made orthogonal: a parameter, or the queries, keys or values of one.
  struct Matrix {
    const Slice* slice = nullptr;
    MatrixView whole, own;  // without data: the matrix of the iterations, and what is kept of it
    int64_t first_row = 0, first_column = 0;          // of `own` in `whole`
    bool is_gathered = false, is_transposed = false;  // the rows of the iterations are the fewer
    double scale = 1;
    int64_t rows() const { return is_transposed ? whole.num_columns() : whole.num_rows(); }
    int64_t columns() const { return is_transposed ? whole.num_rows() : whole.num_columns(); }
  };
  // Matrices of one shape, whose products are computed together.
  using Batch = std::vector<Matrix>;

  void add_slices(const ParameterTable& table, const ArenaShards& shards);
  std::vector<Batch> batches_of(const ParameterTable& table, int owner) const;
  void add_matrices(const Parameter& parameter, const Slice& slice,
                    std::vector<Batch>& batches) const;
  static void add(const Matrix& matrix, std::vector<Batch>& batches);
  void plan(const ParameterTable& table, MemoryPlan& plan);
  void exchange(Tensor gradients, bool to_owner);
  void run(const Batch& batch, Tensor gradients);
  Tensor iterate(Tensor x, Tensor other) const;

  Backend& backend_;
  const ProcessGroups& groups_;
  const MuonOptions options_;
  const bool is_sharded_;
  std::vector<Slice> slices_;     // all of this rank's, in the order of the arena
  std::vector<Batch> batches_;    // of those that it owns
  Tensor x_, other_x_;            // the matrices of a batch
  Tensor products_, polynomial_;  // X X', and what X is multiplied with
  Tensor gathered_;               // the slices of all tensor-parallel ranks, fp32
};

}  // namespace weft
