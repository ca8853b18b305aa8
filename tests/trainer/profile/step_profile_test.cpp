// The lines of a profile follow from events on streams.
#include "trainer/profile/step_profile.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "trainer/profile/profiling_backend.h"

namespace weft {
namespace {

// A device with streams whose clocks the test moves. What is enqueued on a stream takes the time
// that the test says next; waits and events follow CUDA's rules.
class SimulatedDevice final : public ForwardingBackend {
 public:
  SimulatedDevice() : ForwardingBackend(create_cpu_backend(1)) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  EventId create_event() override {
    events_ms_.push_back(0);
    return static_cast<EventId>(events_ms_.size()) - 1;
  }
  EventId create_timed_event() override { return create_event(); }
  void record(EventId event, Stream stream) override {
    if (is_lost_) throw DeviceLost("the device is lost");
    at(event) = now_ms_[stream];
  }
  void wait(Stream stream, EventId event) override {
    now_ms_[stream] = std::max(now_ms_[stream], at(event));
  }
  void synchronize(EventId) override {}
  void synchronize() override {}
  bool has_happened(EventId event) override { return at(event) <= host_ms; }
  float elapsed_ms(EventId a, EventId b) override { return static_cast<float>(at(b) - at(a)); }
  using ForwardingBackend::run;
  void run(const Zero&) override {
    is_lost_ = loses_itself;
    if (is_lost_) throw DeviceLost("the device is lost");
    spend(Stream::kCompute, next_ms);
  }

  void spend(Stream stream, double ms) { now_ms_[stream] += ms; }
  size_t num_events() const { return events_ms_.size(); }
  double next_ms = 1;         // of the next operations on the compute stream
  double host_ms = 1e9;       // events later than this have not happened
  bool loses_itself = false;  // in the next operation

 private:
  double& at(EventId event) { return events_ms_.at(static_cast<size_t>(event)); }
  std::map<Stream, double> now_ms_;
  std::vector<double> events_ms_;
  bool is_lost_ = false;  // then nothing can be recorded
};

class SimulatedGroup : public Communicator {
 public:
  SimulatedGroup(SimulatedDevice& device, double ms) : device_(device), ms_(ms) {}
  int rank() const override { return 0; }
  int size() const override { return 4; }
  void all_reduce(Tensor, Reduce, Stream stream) override { device_.spend(stream, ms_); }
  void reduce_scatter(Tensor, Tensor, Stream stream) override { device_.spend(stream, ms_); }
  void all_gather(Tensor, Tensor, Stream stream) override { device_.spend(stream, ms_); }
  void broadcast(Tensor, int, Stream stream) override { device_.spend(stream, ms_); }
  void exchange(std::span<const Transfer>, Stream stream) override { device_.spend(stream, ms_); }

 private:
  SimulatedDevice& device_;
  const double ms_;
};

class Profile : public testing::Test {
 protected:
  Profile() {
    auto device = std::make_unique<SimulatedDevice>();
    device_ = device.get();
    backend_ = std::make_unique<ProfilingBackend>(std::move(device));
    ProcessGroups groups = create_lone_process_groups();
    groups.data = std::make_shared<SimulatedGroup>(*device_, 10);
    groups.model = groups.data;
    groups_ = with_profile(std::move(groups), backend_->recorder());
    ready_ = backend_->create_event();
    reduced_ = backend_->create_event();
  }
  // Runs an operation on the compute stream.
  void compute(double ms) {
    device_->next_ms = ms;
    backend_->run(Zero{.out = tensor_});
  }
  // Starts the sum of a bucket beside what follows.
  void start_reducing() {
    backend_->record(ready_, Stream::kCompute);
    backend_->wait(Stream::kReduction, ready_);
    groups_.data->all_reduce(tensor_, Reduce::kSum, Stream::kReduction);
    backend_->record(reduced_, Stream::kReduction);
  }
  void wait_for_sums() { backend_->wait(Stream::kCompute, reduced_); }
  StepProfile profile() {
    backend_->recorder().collect();
    return profile_of(backend_->recorder().operations(), backend_->recorder().steps());
  }
  static const ProfileLine& line(const StepProfile& profile, const std::string& name) {
    for (const ProfileLine& candidate : profile.lines) {
      if (candidate.operation.name == name) return candidate;
    }
    throw std::out_of_range(name);
  }
  static double sum_of_parts(const StepProfile& profile) {
    double sum = profile.idle_ms + profile.other_wait_ms;
    for (const ProfileLine& one : profile.lines) sum += one.exposed_ms;
    return sum;
  }

  SimulatedDevice* device_ = nullptr;
  std::unique_ptr<ProfilingBackend> backend_;
  ProcessGroups groups_;
  EventId ready_ = 0, reduced_ = 0;
  char memory_[4] = {};
  Tensor tensor_{memory_, DType::kFloat32, {1}};
};

TEST_F(Profile, ExposesOfACollectiveTheTimeInWhichTheComputeStreamWaitsForIt) {
  compute(100);  // before the recorded step
  backend_->recorder().begin_step();
  compute(2);
  start_reducing();  // from 2 to 12
  compute(5);        // until 7
  wait_for_sums();   // until 12
  compute(1);
  backend_->recorder().end_step();
  const StepProfile p = profile();
  EXPECT_DOUBLE_EQ(p.step_ms, 13);
  EXPECT_DOUBLE_EQ(line(p, "zero").calls, 3);
  EXPECT_DOUBLE_EQ(line(p, "zero").ms, 8);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").ms, 10);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").exposed_ms, 5);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").operation.bytes, 4 * 1.5);
  EXPECT_STREQ(line(p, "all_reduce").operation.group, "data");
  EXPECT_DOUBLE_EQ(p.other_wait_ms, 0);
  EXPECT_DOUBLE_EQ(p.idle_ms, 0);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), p.step_ms);
}

TEST_F(Profile, ACollectiveOnTheComputeStreamIsExposedAsAWhole) {
  backend_->recorder().begin_step();
  compute(2);
  groups_.model->all_reduce(tensor_, Reduce::kSum, Stream::kCompute);
  backend_->recorder().end_step();
  const StepProfile p = profile();
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").exposed_ms, 10);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), 12);
}

// Ranks that share a GPU copy through the host's memory with operations of the backend.
TEST_F(Profile, WhatACollectiveDoesOnTheDeviceIsPartOfIt) {
  class Copying final : public SimulatedGroup {
   public:
    Copying(SimulatedDevice& device, Backend& backend, Tensor tensor)
        : SimulatedGroup(device, 3), backend_(backend), tensor_(tensor) {}
    void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
      backend_.run(Zero{.out = tensor_});
      SimulatedGroup::all_reduce(inout, reduce, stream);
    }

   private:
    Backend& backend_;
    Tensor tensor_;
  };
  ProcessGroups groups = create_lone_process_groups();
  groups.data = std::make_shared<Copying>(*device_, *backend_, tensor_);
  groups = with_profile(std::move(groups), backend_->recorder());
  device_->next_ms = 2;
  backend_->recorder().begin_step();
  groups.data->all_reduce(tensor_, Reduce::kSum, Stream::kCompute);
  backend_->recorder().end_step();
  const StepProfile p = profile();
  ASSERT_EQ(p.lines.size(), 1U);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").ms, 5);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), p.step_ms);
}

TEST_F(Profile, TimeWithoutAnOperationIsIdleAndToldBeforeWhatFollows) {
  backend_->recorder().begin_step();
  device_->spend(Stream::kCompute, 3);  // the host is late
  compute(2);
  device_->spend(Stream::kCompute, 1);
  backend_->recorder().end_step();
  const StepProfile p = profile();
  EXPECT_DOUBLE_EQ(p.idle_ms, 4);
  EXPECT_DOUBLE_EQ(line(p, "zero").idle_before_ms, 3);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), p.step_ms);
}

TEST_F(Profile, AWaitForAStreamWithoutCollectivesIsToldByItself) {
  device_->spend(Stream::kCopy, 6);
  backend_->record(ready_, Stream::kCopy);
  backend_->recorder().begin_step();
  compute(2);
  backend_->wait(Stream::kCompute, ready_);
  backend_->recorder().end_step();
  const StepProfile p = profile();
  EXPECT_DOUBLE_EQ(p.other_wait_ms, 4);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), 6);
}

TEST_F(Profile, ACollectiveOfOneStepMayBeExposedInTheNext) {
  for (int step = 0; step < 2; ++step) {
    backend_->recorder().begin_step();
    wait_for_sums();  // of the step before
    compute(4);
    start_reducing();
    backend_->recorder().end_step();
    device_->spend(Stream::kCompute, 1);  // between steps
  }
  const StepProfile p = profile();
  EXPECT_EQ(p.num_steps, 2);
  // The first sum runs from 4 to 14. The second step begins at 5 and waits until 14.
  EXPECT_DOUBLE_EQ(p.step_ms, (4 + 13) / 2.0);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").calls, 1);
  EXPECT_DOUBLE_EQ(line(p, "all_reduce").exposed_ms, 9 / 2.0);
  EXPECT_DOUBLE_EQ(p.between_steps_ms, 1);
  EXPECT_DOUBLE_EQ(sum_of_parts(p), p.step_ms);
}

TEST_F(Profile, IsReadWhenTheDeviceHasPassedTheStepAndItsEventsServeAgain) {
  OperationRecorder& recorder = backend_->recorder();
  device_->host_ms = 3;
  recorder.begin_step();
  compute(2);
  start_reducing();  // ends at 12
  recorder.end_step();
  recorder.collect();
  EXPECT_TRUE(recorder.steps().empty()) << "the collective runs on";
  EXPECT_EQ(recorder.uncollected_events().size(), 2U);
  device_->host_ms = 12;
  recorder.collect();
  EXPECT_EQ(recorder.steps().size(), 1U);
  const size_t num_events = device_->num_events();
  for (int step = 0; step < 5; ++step) {
    device_->host_ms = 1e9;
    recorder.begin_step();
    compute(2);
    start_reducing();
    recorder.end_step();
    recorder.collect();
  }
  EXPECT_EQ(recorder.steps().size(), 6U);
  EXPECT_LE(device_->num_events(), num_events + 1) << "the beginning of the latest step is kept";
}

// A second exception, of a destructor that records the end of the operation, would abort the
// process.
TEST_F(Profile, ADeviceThatIsLostInAnOperationEndsWithItsException) {
  backend_->recorder().begin_step();
  compute(1);
  device_->loses_itself = true;
  EXPECT_THROW(compute(1), DeviceLost);
}

TEST_F(Profile, WithoutAStepNothingIsRecorded) {
  const size_t num_events = device_->num_events();
  compute(2);
  start_reducing();
  wait_for_sums();
  EXPECT_EQ(device_->num_events(), num_events);
  EXPECT_TRUE(backend_->recorder().operations().empty());
  EXPECT_EQ(profile().num_steps, 0);
}

}  // namespace
}  // namespace weft
