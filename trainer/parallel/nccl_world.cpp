#include "trainer/parallel/nccl_world.h"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/parallel/first_operations.h"
#include "trainer/parallel/nccl_failure.h"
#include "trainer/ranks/agreement.h"

namespace weft {
namespace {

static_assert(ncclUnhandledCudaError == static_cast<int>(NcclResult::kUnhandledCudaError));
static_assert(ncclSystemError == static_cast<int>(NcclResult::kSystemError));
static_assert(ncclInternalError == static_cast<int>(NcclResult::kInternalError));
static_assert(ncclInvalidArgument == static_cast<int>(NcclResult::kInvalidArgument));
static_assert(ncclInvalidUsage == static_cast<int>(NcclResult::kInvalidUsage));
static_assert(ncclRemoteError == static_cast<int>(NcclResult::kRemoteError));

// `comm` may be null.
void check(ncclResult_t result, const std::string& operation, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw_nccl_failure(static_cast<NcclResult>(result),
                     fmt::format("NCCL: {}: {}: {}", operation, ncclGetErrorString(result),
                                 ncclGetLastError(comm)));
}

ncclDataType_t summed_type(Tensor tensor) {
  if (tensor.dtype() == DType::kFloat32) return ncclFloat;
  if (tensor.dtype() == DType::kBFloat16) return ncclBfloat16;
  if (tensor.dtype() == DType::kFloat16) return ncclHalf;
  throw std::invalid_argument("communicator: only fp32, bf16 and fp16 are summed");
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(HostGroup& host, Backend& backend, ncclComm_t comm, int rank, int size,
                   std::string name)
      : host_(host),
        backend_(backend),
        comm_(comm),
        rank_(rank),
        size_(size),
        name_(std::move(name)) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  // Needs no other rank, while ncclCommDestroy would wait for them.
  ~NcclCommunicator() override { ncclCommAbort(comm_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    enqueue("all-reduce", inout, [&] {
      return ncclAllReduce(inout.data(), inout.data(), elements(inout), summed_type(inout),
                           reduce == Reduce::kSum ? ncclSum : ncclMax, comm_, native(stream));
    });
  }

  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    check_parts(inp, out, size_);
    enqueue("reduce-scatter", inp, [&] {
      return ncclReduceScatter(inp.data(), out.data(), elements(out), summed_type(inp), ncclSum,
                               comm_, native(stream));
    });
  }

  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    check_parts(out, inp, size_);
    enqueue("all-gather", out, [&] {
      return ncclAllGather(inp.data(), out.data(), bytes(inp), ncclInt8, comm_, native(stream));
    });
  }

  void broadcast(Tensor inout, int root, Stream stream) override {
    enqueue("broadcast", inout, [&] {
      return ncclBroadcast(inout.data(), inout.data(), bytes(inout), ncclInt8, root, comm_,
                           native(stream));
    });
  }

  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    const FlightRecorder::Scope scope(host_.recorder(), "exchange over " + name_ + " ranks");
    check(ncclGroupStart(), "exchange");
    ncclResult_t result = ncclSuccess;
    for (const Transfer& t : transfers) {
      if (result != ncclSuccess) break;
      result =
          t.sends
              ? ncclSend(t.tensor.data(), bytes(t.tensor), ncclInt8, t.peer, comm_, native(stream))
              : ncclRecv(t.tensor.data(), bytes(t.tensor), ncclInt8, t.peer, comm_, native(stream));
    }
    // Also after a failure: a group that stays open would keep what comes later for ever.
    const ncclResult_t ended = ncclGroupEnd();
    check(result == ncclSuccess ? ended : result, "exchange", comm_);
  }

  // Connections that are not NVLink's, between hosts above all, notice that the other side is gone.
  void throw_if_failed() override {
    ncclResult_t result = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &result), "the " + name_ + " ranks", comm_);
    check(result, "an operation over " + name_ + " ranks", comm_);
  }

 private:
  template <typename Operation>
  void enqueue(const char* operation, Tensor tensor, const Operation& call) {
    const std::string label =
        fmt::format("{} of {} bytes over {} ranks", operation, tensor.num_bytes(), name_);
    const FlightRecorder::Scope scope(host_.recorder(), label);
    check(call(), label, comm_);
  }
  cudaStream_t native(Stream stream) const {
    return static_cast<cudaStream_t>(backend_.native_stream(stream));
  }
  static size_t elements(Tensor tensor) { return static_cast<size_t>(tensor.num_elements()); }
  static size_t bytes(Tensor tensor) { return static_cast<size_t>(tensor.num_bytes()); }

  HostGroup& host_;
  Backend& backend_;
  ncclComm_t comm_;
  const int rank_, size_;
  const std::string name_;
};

class World final : public NcclWorld {
 public:
  World(HostGroup& host, Backend& backend) : host_(host), backend_(backend) {
    setenv("NCCL_ALGO", "Ring", /*overwrite=*/0);
    setenv("NCCL_PROTO", "Simple", /*overwrite=*/0);
    // Operations of several communicators run on several streams. Without an order they could wait
    // for each other [NCCL user guide, "Using multiple NCCL communicators concurrently"].
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/1);
    if (version() < NCCL_VERSION(2, 26, 0)) {
      throw UsageError(description() +
                       ": several GPUs need NCCL 2.26 or newer, which keeps the order of "
                       "operations; look for an older libnccl.so.2 in LD_LIBRARY_PATH");
    }
    check_ranks_agree(host, {{"the library", description()}});
    ncclUniqueId id{};
    if (host.rank() == 0) check(ncclGetUniqueId(&id), "its first id");
    const std::string text =
        host.all_gather(host.rank() == 0 ? std::string(id.internal, sizeof id.internal) : "")[0];
    std::memcpy(id.internal, text.data(), std::min(sizeof id.internal, text.size()));
    const FlightRecorder::Scope scope(host.recorder(), "the ranks meet in NCCL");
    check(ncclCommInitRank(&comm_, host.size(), id, host.rank()), "the ranks meet");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override { ncclCommAbort(comm_); }

  std::unique_ptr<Communicator> split(const std::vector<int>& ranks, const std::string& name,
                                      bool exchanges) override {
    const bool is_alone = ranks.size() == 1;
    const auto key =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), host_.rank()) - ranks.begin());
    ncclComm_t comm = nullptr;
    const FlightRecorder::Scope scope(host_.recorder(), "NCCL joins the " + name + " ranks");
    check(ncclCommSplit(comm_, is_alone ? NCCL_SPLIT_NOCOLOR : ranks.front(), key, &comm, nullptr),
          "the " + name + " ranks meet", comm_);
    if (is_alone) return create_self_communicator();
    auto communicator = std::make_unique<NcclCommunicator>(host_, backend_, comm, key,
                                                           static_cast<int>(ranks.size()), name);
    // NCCL connects ranks and takes its memory in the first operations: they should fail now, not
    // after the memory is planned.
    const FlightRecorder::Scope first(host_.recorder(), "the first operations of NCCL");
    run_first_operations(*communicator, backend_, exchanges);
    return communicator;
  }

  std::string description() const override {
    const int v = version();
    return fmt::format("NCCL {}.{}.{}, NCCL_ALGO={}, NCCL_PROTO={}", v / 10000, v / 100 % 100,
                       v % 100, std::getenv("NCCL_ALGO"), std::getenv("NCCL_PROTO"));
  }

 private:
  // That of the library that runs; the header's may be another one.
  static int version() {
    int version = 0;
    ncclGetVersion(&version);
    return version;
  }

  HostGroup& host_;
  Backend& backend_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<NcclWorld> create_nccl_world(HostGroup& host, Backend& backend) {
  return std::make_unique<World>(host, backend);
}

}  // namespace weft
