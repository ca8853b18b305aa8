#include <algorithm>
#include <stdexcept>
#include <vector>

#include "trainer/config/tensor_views.h"
#include "trainer/parallel/communicator.h"

namespace weft {
namespace {

class PinnedCommunicator final : public Communicator {
 public:
  PinnedCommunicator(Backend& backend, Tensor staging, std::unique_ptr<Communicator> host)
      : backend_(backend),
        staging_(staging),
        host_(std::move(host)),
        copied_(backend.create_event()) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    on_host(inout, stream, [&](Tensor piece) { host_->all_reduce(piece, reduce, stream); });
  }

  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    check_parts(inp, out, size());
    in_pieces(out, size(), stream, [&](int64_t first, int64_t count) {
      for (int64_t r = 0; r < size(); ++r) {
        download(staged(inp, r * count, count),
                 range_of(inp, r * out.num_elements() + first, count), stream);
      }
      wait(stream);
      const Tensor own = staged(inp, rank() * count, count);
      host_->reduce_scatter(own, staged(inp, 0, size() * count), stream);
      upload(range_of(out, first, count), own, stream);
    });
  }

  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    check_parts(out, inp, size());
    in_pieces(inp, size(), stream, [&](int64_t first, int64_t count) {
      const Tensor own = staged(inp, rank() * count, count);
      download(own, range_of(inp, first, count), stream);
      wait(stream);
      host_->all_gather(staged(inp, 0, size() * count), own, stream);
      for (int64_t r = 0; r < size(); ++r) {
        upload(range_of(out, r * inp.num_elements() + first, count), staged(inp, r * count, count),
               stream);
      }
    });
  }

  void broadcast(Tensor inout, int root, Stream stream) override {
    on_host(inout, stream, [&](Tensor piece) { host_->broadcast(piece, root, stream); });
  }

  // Both sides of a transfer cut it into the same pieces.
  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    constexpr int64_t kPieceBytes = 4 << 20;
    if (static_cast<int64_t>(transfers.size()) * kPieceBytes > staging_.num_bytes())
      throw std::invalid_argument("communicator: too many transfers at once");
    int64_t longest = 0;
    for (const Transfer& t : transfers) longest = std::max(longest, t.tensor.num_bytes());
    for (int64_t first = 0; first < longest; first += kPieceBytes) {
      std::vector<Transfer> pieces;
      std::vector<Tensor> tensors;  // on the device, of each piece
      for (const Transfer& t : transfers) {
        const int64_t count = std::min(kPieceBytes, t.tensor.num_bytes() - first);
        if (count <= 0) continue;
        const Tensor bytes(t.tensor.data(), DType::kUInt8, {t.tensor.num_bytes()});
        const auto place = static_cast<int64_t>(pieces.size()) * kPieceBytes;
        pieces.push_back({staged(bytes, place, count), t.peer, t.sends});
        tensors.push_back(range_of(bytes, first, count));
        if (t.sends) download(pieces.back().tensor, tensors.back(), stream);
      }
      wait(stream);
      host_->exchange(pieces, stream);
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (!pieces[i].sends) upload(tensors[i], pieces[i].tensor, stream);
      }
      wait(stream);
    }
  }

 private:
  // Calls `piece(first, count)` for runs of elements of `tensor`; the staging holds `copies` of
  // one. A piece's upload has reached the device before the staging is used again.
  template <typename Piece>
  void in_pieces(Tensor tensor, int64_t copies, Stream stream, const Piece& piece) {
    const int64_t most = staging_.num_bytes() / (copies * size_bytes(tensor.dtype()));
    for (int64_t first = 0; first < tensor.num_elements(); first += most) {
      piece(first, std::min(most, tensor.num_elements() - first));
      wait(stream);
    }
  }
  // Changes each piece of a tensor in the staging.
  template <typename Operation>
  void on_host(Tensor inout, Stream stream, const Operation& operation) {
    in_pieces(inout, 1, stream, [&](int64_t first, int64_t count) {
      const Tensor piece = staged(inout, 0, count);
      download(piece, range_of(inout, first, count), stream);
      wait(stream);
      operation(piece);
      upload(range_of(inout, first, count), piece, stream);
    });
  }
  // Elements of the staging, of the type of `like`.
  Tensor staged(Tensor like, int64_t first, int64_t count) const {
    return range_of(like.with_data(staging_.data()), first, count);
  }
  void download(Tensor piece, Tensor device, Stream stream) {
    backend_.copy(piece.data(), device.data(), device.num_bytes(), stream);
  }
  void upload(Tensor device, Tensor piece, Stream stream) {
    backend_.copy(device.data(), piece.data(), device.num_bytes(), stream);
  }
  void wait(Stream stream) {
    backend_.record(copied_, stream);
    backend_.synchronize(copied_);
  }

  Backend& backend_;
  const Tensor staging_;
  const std::unique_ptr<Communicator> host_;
  const EventId copied_;
};

}  // namespace

std::unique_ptr<Communicator> create_pinned_communicator(Backend& backend, Tensor staging,
                                                         std::unique_ptr<Communicator> host) {
  return std::make_unique<PinnedCommunicator>(backend, staging, std::move(host));
}

}  // namespace weft
