// From sequences of a dataset to the samples that hold their tokens: the inverse of
// BlendedDataset::sample_parts(). No sample is looked at that holds none of them.
//
//   sequence -> positions in the document index       a search through it, 4 bytes an entry
//            -> rows of the sample index              binary search: rows ascend
//            -> samples of the dataset                a search through the shuffle index
//            -> samples of the blend                  a search through its dataset index
//            -> positions in the run                  only where the order is cyclic
//
// All searches read arrays in order, on several threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/blended_dataset.h"

namespace weft {

// A piece of a sequence as one sample has it.
struct Visit {
  int64_t sample_idx = 0;   // of the split, in the order of the run
  int64_t dataset_idx = 0;  // of the BlendedDataset
  SamplePart part;

  bool operator==(const Visit&) const = default;
};

// Sequences by the prefix of their dataset, as DatasetReader::prefix() gives it.
using SequencesByDataset = std::map<std::string, std::vector<int64_t>>;

// Returns every piece of these sequences in the samples [first, last), in the order of the samples
// and of the tokens within them. Throws std::runtime_error where an index is damaged.
std::vector<Visit> find_visits(const BlendedDataset& dataset, const SequencesByDataset& sequences,
                               int64_t first, int64_t last, int num_threads);

}  // namespace weft
