#include "trainer/profile/profiling_backend.h"

#include <map>

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

void ProfilingBackend::copy(void* dst, const void* src, int64_t num_bytes, Stream stream) {
  const auto call = [&] { inner().copy(dst, src, num_bytes, stream); };
  if (stream != Stream::kCompute) return call();
  profiled_call(
      recorder_, stream, [&] { return copy_operation(num_bytes); }, call);
}

void ProfilingBackend::record(EventId event, Stream stream) {
  recorder_.note_record(event, stream);
  inner().record(event, stream);
}

void ProfilingBackend::wait(Stream stream, EventId event) {
  if (stream == Stream::kCompute && recorder_.takes_operations()) {
    recorder_.wait_on_compute(event);
  } else {
    inner().wait(stream, event);
  }
}

ProcessGroups with_profile(ProcessGroups groups, OperationRecorder& recorder) {
  std::map<Communicator*, std::shared_ptr<Communicator>> wrapped;
  for (const GroupKind kind : kGroupKinds) {
    std::shared_ptr<Communicator>& place = groups.of(kind);
    if (place->size() == 1) continue;
    std::shared_ptr<Communicator>& wrapper = wrapped[place.get()];
    if (wrapper == nullptr)
      wrapper = std::make_shared<ProfilingCommunicator>(place, name_of(kind), recorder);
    place = wrapper;
  }
  return groups;
}

}  // namespace weft
