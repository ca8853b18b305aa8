#include "trainer/step/state_tensors.h"

#include <string>

namespace weft {
namespace {

// `place_of` returns the memory of a piece of a parameter.
template <class PlaceOf>
void add_pieces_of(const Parameter& p, const std::string& prefix, const Optimizer& optimizer,
                   std::vector<StateTensor>& tensors, const PlaceOf& place_of) {
  for (const Optimizer::Piece& piece : optimizer.pieces_of(p, p.num_own)) {
    tensors.push_back({prefix + p.name, p.global_shape, p.split_dim, p.begin, p.end,
                       place_of(piece), piece.first});
  }
}

template <class PlaceOf>
void add_pieces(const std::string& prefix, const ParameterTable& table, const Optimizer& optimizer,
                std::vector<StateTensor>& tensors, const PlaceOf& place_of) {
  for (const Parameter& p : table.all()) add_pieces_of(p, prefix, optimizer, tensors, place_of);
}

}  // namespace

std::vector<StateTensor> weight_tensors(const ParameterTable& table, Tensor parameters,
                                        const Optimizer& optimizer) {
  std::vector<StateTensor> tensors;
  for (const Parameter& p : table.all()) {
    if (p.num_own == 0) continue;  // the words of a rank may all be padding
    tensors.push_back({"model/" + p.name, p.global_shape, p.split_dim, p.begin, p.end,
                       range_of(parameters, {p.arena_offset, p.num_own})});
  }
  if (optimizer.has_masters()) {
    add_pieces("optimizer/master/", table, optimizer, tensors,
               [&](const Optimizer::Piece& piece) { return optimizer.master_of(piece); });
  }
  return tensors;
}

void add_moments(const ParameterTable& table, const Optimizer& optimizer,
                 std::vector<StateTensor>& tensors) {
  using Piece = Optimizer::Piece;
  const auto first = [&](const Piece& piece) { return range_of(optimizer.exp_avg(), piece.state); };
  const auto second = [&](const Piece& piece) {
    return range_of(optimizer.exp_avg_sq(), piece.second_moment);
  };
  for (const Parameter& p : table.all()) {
    const bool is_muon = optimizer.is_updated_by_muon(p);
    add_pieces_of(p, is_muon ? "optimizer/momentum_buffer/" : "optimizer/exp_avg/", optimizer,
                  tensors, first);
  }
  for (const Parameter& p : table.all()) {
    if (!optimizer.is_updated_by_muon(p))
      add_pieces_of(p, "optimizer/exp_avg_sq/", optimizer, tensors, second);
  }
}

void add_fp8_scaling(Model& model, int64_t num_chunks, std::vector<StateTensor>& tensors) {
  int64_t layer = 0;
  for (int64_t idx = 0; idx < num_chunks; ++idx) {
    const Chunk& chunk = model.chunk(idx);
    for (int64_t i = 0; i < chunk.num_layers; ++i) {
      const std::string prefix = "fp8/decoder.layers." + std::to_string(chunk.first_layer + i);
      const LinearLayers::State state = model.linears().state_of(layer++);
      const auto add = [&](const char* name, Tensor rows) {
        tensors.push_back({prefix + name,
                           {rows.shape(0), rows.shape(1)},
                           -1,
                           0,
                           0,
                           range_of(rows, {0, rows.num_elements()})});
      };
      add(".forward", state.forward);
      add(".gradients", state.gradients);
    }
  }
}

}  // namespace weft
