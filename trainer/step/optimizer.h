// AdamW over the flat arenas, or over this data-parallel rank's part of them; under Muon the
// matrices of layers are Muon's (muon.h). Gradient norm and clip factor stay on the device.
//
// The moments are arenas of their own. Under Muon the first one holds the momentum of its matrices,
// too, and the second one is shorter: it has AdamW's elements alone.
//
// The fp32 masters are the parameters themselves (fp32 models), an arena of their own (fp16), or
// weights and what these lack of them (bf16, kernels/numbers/split_master.h). Where something else
// than an update reads or writes the last, they stand whole in the arena of gradients, which no one
// needs from the update of a step to the first gradient of the next one.
// [Loshchilov & Hutter 2019, arXiv:1711.05101; Megatron-LM megatron/core/optimizer]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/arena.h"
#include "trainer/parallel/parameter_gatherer.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/step/muon.h"

namespace weft {

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  float clip_grad = 1.0F;  // limit of the global L2 norm; 0 clips nothing but reports the norm
  bool has_bf16_moments =
      false;          // rounded at random (kernels/numbers/moment_rounding.h), else fp32
  uint64_t seed = 0;  // of that rounding
  // Masters and moments lie in pinned host memory, where the update reads and writes them over the
  // bus. It is the same update, so the bits do not depend on it.
  bool offloads_state = false;
  std::optional<MuonOptions> muon = {};  // of the matrices of layers
};

// The rates of one update.
struct UpdateRates {
  double learning_rate = 0, weight_decay = 0;
  std::optional<double> of_word_tables =
      {};  // the learning rate of the word embedding and the head
};

class Optimizer {
 public:
  // Plans the optimizer's state, of the rank's own elements. All references must outlive the
  // optimizer.
  Optimizer(Backend& backend, const ProcessGroups& groups, const ParameterTable& table,
            const ArenaShards& shards, DType dtype, const OptimizerOptions& options,
            MemoryPlan& plan);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Takes the arenas. Call it after plan.allocate().
  void bind(Tensor parameters, Tensor gradients);
  // Uploads the decay flags, and for moments in bf16 the numbers of the arena's blocks.
  void fill_tables(const std::vector<int32_t>& block_numbers);

  // norm_and_clip (2) fp32, on the device, gets the norm over all ranks' gradients and the factor
  // that clips it. Gradients that the loss's factor has multiplied are divided by it: in the norm,
  // and in the factor that update() multiplies them with. A gradient that is not finite makes the
  // norm so.
  void gradient_norm(Tensor norm_and_clip, double loss_scale = 1);
  // Enqueues update number `step`, 1 for the first, of the rank's own elements, bucket by bucket,
  // and hands each bucket to the gatherer. It does not wait.
  void update(Tensor norm_and_clip, const UpdateRates& rates, int64_t step,
              ParameterGatherer& gatherer);
  // Enqueues what lets master_of() be read: masters that are split are joined in the arena of
  // gradients.
  void join_masters();
  // Derives the rank's own parameters from master_of(), where they were written; as update().
  void parameters_from_masters(ParameterGatherer& gatherer);
  // sum_of_squares (1) fp32, on the device, gets the sum over all parameters in fp32. It joins
  // masters.
  void parameters_sum_of_squares(Tensor sum_of_squares);

  // A run of a parameter's elements that this rank updates: `first` counts in the parameter, the
  // ranges are its places in the arenas, in the optimizer's state, and in the second moment.
  struct Piece {
    int64_t first = 0;
    ArenaRange arena, state, second_moment;
  };
  std::vector<Piece> pieces_of(const Parameter& parameter, int64_t num_elements) const;
  // The place of a piece's fp32 masters; that of split ones holds them between join_masters() or
  // writes to it, and the first gradient of the next step.
  Tensor master_of(const Piece& piece) const;
  bool is_updated_by_muon(const Parameter& parameter) const {
    return muon_.has_value() && parameter.is_layer_matrix;
  }
  // fp32 or bf16, on the device or in pinned host memory. The first one is own_elements() of
  // `shards` long and has Muon's momentum, too.
  Tensor exp_avg() const { return exp_avg_; }
  Tensor exp_avg_sq() const { return exp_avg_sq_; }
  // Masters are something else than the parameters.
  bool has_masters() const { return dtype_ != DType::kFloat32; }

 private:
  // The elements that this rank updates, of one bucket.
  struct Part {
    ArenaRange arena, state;  // their places in the arenas and in the optimizer's state
  };
  void count(const Part& part, ArenaRange counted);
  void sum_of_squares(Tensor out, Tensor values, bool is_state, double divisor = 1);
  // A run of a part's elements that one rule updates.
  struct Segment {
    Part part;
    int64_t second_moment_first = 0;
    bool is_matrix = false, is_word_table = false;  // a matrix is Muon's
  };
  std::vector<Segment> segments_of(const Part& part) const;
  int64_t most_second_moments() const;
  void update_segment(const Segment& segment, Tensor norm_and_clip, const UpdateRates& rates,
                      int64_t step);
  void muon_update(const Part& part, const UpdateRates& rates);
  void run_muon(Tensor norm_and_clip);
  bool is_split() const { return dtype_ == DType::kBFloat16; }
  Tensor remainder_of(const Part& part) const;

  Backend& backend_;
  const ProcessGroups& groups_;
  const ParameterTable& table_;
  const ArenaShards& shards_;
  DType dtype_;
  OptimizerOptions options_;
  std::optional<Muon> muon_;
  std::vector<Part> parts_;
  std::vector<std::vector<Segment>> segments_;  // of each part, in order
  // The elements that this rank counts in norms. Parameters that all tensor-parallel ranks hold
  // whole count on the first of these only, and the word embedding of two pipeline stages on the
  // first.
  std::vector<Part> counted_;
  Tensor parameters_, gradients_;  // owned by the trainer
  Tensor master_, remainder_;      // of fp16 and of bf16 models
  Tensor exp_avg_, exp_avg_sq_;
  Tensor decays_, block_numbers_;  // uint8 and int32 per block of the arena
  Tensor range_sums_, sum_;        // (ranges), (1)
};

}  // namespace weft
