// Plans a step: the trainer runs it on a backend without a device, among ranks that are not there.
#include <algorithm>
#include <memory>

#include "kernels/recording_backend.h"
#include "trainer/profile/operation.h"
#include "trainer/step/planned_step.h"
#include "trainer/step/trainer.h"

namespace weft {
namespace {

// A group whose other ranks are not there.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(const ParallelLayout& layout, GroupKind kind,
                        std::vector<Operation>& collectives)
      : group_(name_of(kind)), collectives_(collectives) {
    const std::vector<int> ranks = ranks_of(layout, kind);
    size_ = static_cast<int>(ranks.size());
    rank_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), layout.world_rank()) -
                             ranks.begin());
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Tensor inout, Reduce, Stream) override {
    add(all_reduce_operation(group_, inout, size_));
  }
  void reduce_scatter(Tensor, Tensor inp, Stream) override {
    add(reduce_scatter_operation(group_, inp, size_));
  }
  void all_gather(Tensor out, Tensor, Stream) override {
    add(all_gather_operation(group_, out, size_));
  }
  void broadcast(Tensor inout, int, Stream) override {
    add(broadcast_operation(group_, inout, size_));
  }
  void exchange(std::span<const Transfer> transfers, Stream) override {
    add(exchange_operation(group_, transfers, size_));
  }

 private:
  void add(const Operation& operation) {
    if (size_ > 1) collectives_.push_back(operation);
  }

  const char* const group_;
  std::vector<Operation>& collectives_;
  int rank_ = 0, size_ = 1;
};

ProcessGroups recording_groups(const ParallelLayout& layout, std::vector<Operation>& collectives) {
  const auto group = [&](GroupKind kind) {
    return std::make_shared<RecordingCommunicator>(layout, kind, collectives);
  };
  return {.layout = layout,
          .tensor = group(GroupKind::kTensor),
          .pipeline = group(GroupKind::kPipeline),
          .data = group(GroupKind::kData),
          .model = group(GroupKind::kModel),
          .tied = group(GroupKind::kTied)};
}

// Two, or fewer where no batch has more: the results have places for the samples of the largest
// one.
int64_t num_micro_batches(const TrainerOptions& options, const ParallelLayout& layout) {
  const int64_t most = std::min<int64_t>(2, options.most_micro_batches);
  if (options.num_sample_losses == 0) return most;
  const int64_t samples = options.shape.micro_batch_size * layout.dp_size;
  return std::clamp<int64_t>(options.num_sample_losses / samples, 1, most);
}

}  // namespace

PlannedStep plan_step(const TrainerOptions& options, const ParallelLayout& layout) {
  PlannedStep planned;
  RecordingBackend backend;
  const ProcessGroups groups = recording_groups(layout, planned.collectives);
  Trainer trainer(backend, options, groups, /*workspace_bytes=*/0);
  trainer.allocate_without_tables();
  trainer.set_scalar_state({});
  // Copies move nothing, so a batch's numbers may lie anywhere; a loss is divided by the sum of its
  // mask.
  static constexpr int32_t kIds[] = {0};
  static constexpr float kMask[] = {1};
  static constexpr double kMaskSums[] = {1, 1};
  GlobalBatch batch{
      .num_micro_batches = num_micro_batches(options, layout), .tokens = kIds, .targets = kIds};
  if (options.has_loss_mask) {
    batch.loss_mask = kMask;
    batch.mask_sums = kMaskSums;
  }
  if (options.shape.needs_document_bounds()) batch.document_bounds = kIds;
  for (int step = 0; step < 2; ++step) {
    backend.clear();
    planned.collectives.clear();
    trainer.step(batch, {.params_norm = true});
  }
  planned.operations = backend.operations();
  return planned;
}

}  // namespace weft
