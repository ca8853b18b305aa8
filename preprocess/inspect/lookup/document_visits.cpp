#include "preprocess/inspect/lookup/document_visits.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

#include "preprocess/inspect/lookup/number_set.h"

namespace weft {
namespace {

// A piece of a wanted sequence in a row of the sample index.
struct RowPiece {
  int64_t row = 0;
  int64_t position = 0;  // in the document index: the order of pieces within a row
  SamplePart part;
};

// The pieces by an ascending number: first the row of the sample index, later what stands for it.
using Pieces = std::vector<std::pair<int64_t, SamplePart>>;

// Returns the first row that begins at `position` of the document index or behind it.
int64_t first_row_from(const GptIndexView& index, int64_t position) {
  int64_t low = 0, high = index.plan.num_samples + 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (index.row(middle).position < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// As GptDataset::sample_parts() cuts samples, for one position of the document index.
void add_pieces(const GptDataset& dataset, int64_t position, std::vector<RowPiece>& pieces) {
  const GptIndexView& index = dataset.index();
  const DatasetReader& reader = dataset.reader();
  const int64_t sequence_idx = index.document_index[static_cast<size_t>(position)];
  if (sequence_idx < 0 || sequence_idx >= reader.num_sequences())
    throw std::runtime_error(reader.prefix().string() +
                             ": the document index of the run names sequence " +
                             std::to_string(sequence_idx) + ", which is not there");
  const int64_t document_idx = reader.document_of_sequence(sequence_idx);
  // The row before may end within this sequence.
  for (int64_t row = std::max<int64_t>(first_row_from(index, position) - 1, 0);
       row < index.plan.num_samples; ++row) {
    const GptIndexView::Row begin = index.row(row), end = index.row(row + 1);
    if (begin.position > position) return;
    if (end.position < position) continue;
    const int64_t from = begin.position == position ? begin.offset_tokens : 0;
    const int64_t to =
        end.position == position ? end.offset_tokens + 1 : reader.length(sequence_idx);
    if (from >= to) continue;
    pieces.push_back({.row = row,
                      .position = position,
                      .part = {.sequence_idx = sequence_idx,
                               .document_idx = document_idx,
                               .begin_token = from,
                               .num_tokens = to - from}});
  }
}

// Calls use(number, part) for each piece whose key stands at `number` of an order.
template <typename T, typename Use>
void for_each_placed(const Pieces& pieces, const NumberSet& keys, std::span<const T> order,
                     int num_threads, const Use& use) {
  keys.for_each_in(order, num_threads, [&](int64_t number, int64_t key) {
    for (auto piece = std::lower_bound(pieces.begin(), pieces.end(), key,
                                       [](const auto&a, int64_t b) { return a.first < b; });
         piece != pieces.end() && piece->first == key; ++piece)
      use(number, piece->second);
  });
}

NumberSet keys_of(const Pieces& pieces) {
  std::vector<int64_t> keys;
  keys.reserve(pieces.size());
  for (const auto& [key, part] : pieces) keys.push_back(key);
  return NumberSet(std::move(keys));
}

// The pieces of one dataset by its samples, ascending. Samples from `end` on are left out.
Pieces samples_of_dataset(const GptDataset& dataset, const std::vector<int64_t>& sequences,
                          int64_t end, int num_threads) {
  std::vector<RowPiece> by_row;
  NumberSet(sequences).for_each_in(
      dataset.index().document_index, num_threads,
      [&](int64_t position, int64_t) { add_pieces(dataset, position, by_row); });
  std::sort(by_row.begin(), by_row.end(), [](const RowPiece& a, const RowPiece& b) {
    return std::pair(a.row, a.position) < std::pair(b.row, b.position);
  });
  Pieces rows, samples;
  for (const RowPiece& piece : by_row) rows.emplace_back(piece.row, piece.part);
  std::visit(
      [&](auto order) {
        order = order.first(static_cast<size_t>(std::min<int64_t>(end, std::ssize(order))));
        for_each_placed(
            rows, keys_of(rows), order, num_threads,
            [&](int64_t sample, const SamplePart& part) { samples.emplace_back(sample, part); });
      },
      dataset.index().shuffle_index);
  return samples;
}

// The samples of a blend that its datasets' pieces lie in.
template <typename Id>
std::vector<Visit> samples_of_blend(const std::map<int64_t, Pieces>& by_dataset,
                                    std::span<const Id> dataset_index,
                                    std::span<const int64_t> sample_index, int num_threads) {
  std::vector<int64_t> datasets;
  std::map<int64_t, NumberSet> keys;
  for (const auto& [dataset_idx, pieces] : by_dataset) {
    if (pieces.empty()) continue;
    datasets.push_back(dataset_idx);
    keys.emplace(dataset_idx, keys_of(pieces));
  }
  const NumberSet wanted(std::move(datasets));
  constexpr int64_t kBlock = 1 << 20;
  const int64_t size = std::ssize(dataset_index), num_blocks = (size + kBlock - 1) / kBlock;
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(num_blocks));
  if (wanted.empty()) return {};
  parallel_for(num_blocks, num_threads, [&](int64_t block) {
    for (int64_t k = block * kBlock; k < std::min(size, (block + 1) * kBlock); ++k) {
      const auto at = static_cast<size_t>(k);
      if (wanted.contains(dataset_index[at]) &&
          keys.at(dataset_index[at]).contains(sample_index[at]))
        found[static_cast<size_t>(block)].push_back(k);
    }
  });
  std::vector<Visit> visits;
  for (const std::vector<int64_t>& of_block : found) {
    for (const int64_t k : of_block) {
      const int64_t dataset_idx = dataset_index[static_cast<size_t>(k)],
                    key = sample_index[static_cast<size_t>(k)];
      const Pieces& pieces = by_dataset.at(dataset_idx);
      for (auto piece = std::lower_bound(pieces.begin(), pieces.end(), key,
                                         [](const auto&a, int64_t b) { return a.first < b; });
           piece != pieces.end() && piece->first == key; ++piece)
        visits.push_back({.sample_idx = k, .dataset_idx = dataset_idx, .part = piece->second});
    }
  }
  return visits;
}

// Where the samples of a dataset or blend stand in a cyclic or drawn order.
template <typename Order>
std::vector<Visit> placed_in(const Order& order, const std::vector<Visit>& visits, int64_t first,
                             int64_t last) {
  std::vector<int64_t> samples;
  for (const Visit& visit : visits) {
    if (samples.empty() || samples.back() != visit.sample_idx) samples.push_back(visit.sample_idx);
  }
  std::vector<std::pair<int64_t, int64_t>> places;  // position, sample
  order.for_each_position(samples, first, last, [&](int64_t position, int64_t sample) {
    places.emplace_back(position, sample);
  });
  std::sort(places.begin(), places.end());
  std::vector<Visit> placed;
  for (const auto& [position, sample] : places) {
    for (auto visit = std::lower_bound(visits.begin(), visits.end(), sample,
                                       [](const Visit&a, int64_t b) { return a.sample_idx < b; });
         visit != visits.end() && visit->sample_idx == sample; ++visit) {
      placed.push_back(*visit);
      placed.back().sample_idx = position;
    }
  }
  return placed;
}

}  // namespace

std::vector<Visit> find_visits(const BlendedDataset& dataset, const SequencesByDataset& sequences,
                               int64_t first, int64_t last, int num_threads) {
  const bool is_reordered = dataset.cyclic_order() != nullptr || dataset.drawn_order() != nullptr;
  const int64_t end = is_reordered ? dataset.num_samples() : std::min(last, dataset.num_samples());
  std::map<int64_t, Pieces> by_dataset;
  for (int64_t i = 0; i < dataset.num_datasets(); ++i) {
    const GptDataset& part = dataset.dataset(i);
    const auto wanted = sequences.find(part.reader().prefix().string());
    if (wanted == sequences.end()) continue;
    // Sample k of a blend is at most sample k of its dataset.
    by_dataset[i] = samples_of_dataset(part, wanted->second, end, num_threads);
  }
  std::vector<Visit> visits;
  if (const BlendingIndexView* blend = dataset.blending_index()) {
    const auto size = static_cast<size_t>(end);
    visits = std::visit(
        [&](auto dataset_index) {
          return samples_of_blend(by_dataset, dataset_index.first(size),
                                  blend->sample_index.first(size), num_threads);
        },
        blend->dataset_index);
  } else if (!by_dataset.empty()) {
    for (const auto& [sample, part] : by_dataset.begin()->second)
      visits.push_back({.sample_idx = sample, .dataset_idx = 0, .part = part});
  }
  if (const CyclicOrder* order = dataset.cyclic_order())
    return placed_in(*order, visits, first, last);
  if (const DrawnOrder* order = dataset.drawn_order())
    return placed_in(*order, visits, first, last);
  std::erase_if(visits, [&](const Visit& visit) { return visit.sample_idx < first; });
  return visits;
}

}  // namespace weft
