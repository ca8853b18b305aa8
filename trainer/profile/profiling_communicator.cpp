#include "trainer/profile/profiling_communicator.h"

#include <map>
#include <utility>

#include "trainer/profile/profiled_call.h"

namespace weft {
namespace {

class ProfilingCommunicator final : public Communicator {
 public:
  ProfilingCommunicator(std::shared_ptr<Communicator> inner, const char* group,
                        OperationRecorder& recorder)
      : inner_(std::move(inner)), group_(group), recorder_(recorder) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    profiled_call(
        recorder_, stream, [&] { return all_reduce_operation(group_, inout, size()); },
        [&] { inner_->all_reduce(inout, reduce, stream); });
  }
  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    profiled_call(
        recorder_, stream, [&] { return reduce_scatter_operation(group_, inp, size()); },
        [&] { inner_->reduce_scatter(out, inp, stream); });
  }
  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    profiled_call(
        recorder_, stream, [&] { return all_gather_operation(group_, out, size()); },
        [&] { inner_->all_gather(out, inp, stream); });
  }
  void broadcast(Tensor inout, int root, Stream stream) override {
    profiled_call(
        recorder_, stream, [&] { return broadcast_operation(group_, inout, size()); },
        [&] { inner_->broadcast(inout, root, stream); });
  }
  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    profiled_call(
        recorder_, stream, [&] { return exchange_operation(group_, transfers, size()); },
        [&] { inner_->exchange(transfers, stream); });
  }
  void throw_if_failed() override { inner_->throw_if_failed(); }

 private:
  const std::shared_ptr<Communicator> inner_;
  const char* const group_;
  OperationRecorder& recorder_;
};

}  // namespace

ProcessGroups with_profile(ProcessGroups groups, OperationRecorder& recorder) {
  std::map<Communicator*, std::shared_ptr<Communicator>> wrapped;
  const auto wrap = [&](std::shared_ptr<Communicator>& place, GroupKind kind) {
    if (place->size() == 1) return;
    std::shared_ptr<Communicator>& wrapper = wrapped[place.get()];
    if (wrapper == nullptr) {
      wrapper = std::make_shared<ProfilingCommunicator>(place, name_of(kind), recorder);
    }
    place = wrapper;
  };
  wrap(groups.tensor, GroupKind::kTensor);
  wrap(groups.pipeline, GroupKind::kPipeline);
  wrap(groups.data, GroupKind::kData);
  wrap(groups.model, GroupKind::kModel);
  wrap(groups.tied, GroupKind::kTied);
  return groups;
}

}  // namespace weft
