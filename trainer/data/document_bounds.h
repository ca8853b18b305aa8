// Finds where the documents of a row of a batch begin and end, for --reset-position-ids,
// --reset-attention-mask and --dataloader-inter-document-masking.
//
// The bounds of a token are the positions [begin, end) of its document in the row, (T,2) int32. A
// document that goes on from the row before begins at 0, one that goes on after the row ends at T.
//
//   tokens          7 8 E 9 E 5        E: the end-of-document token, which its document includes
//   begin           0 0 0 3 3 5        positions restart here, and queries see no earlier key
//   end             3 3 3 5 5 6
//   position ids    0 1 2 0 1 0        [Megatron-LM megatron/core/datasets/gpt_dataset.py,
//                                       _get_ltor_masks_and_position_ids]
#pragma once

#include <cstdint>
#include <vector>

#include "indexed_dataset/order/batches/length_curriculum.h"
#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

// Where a document ends in batches that hold the bounds of documents.
enum class DocumentEnds {
  kNone,                 // batches hold no bounds
  kEndOfDocumentTokens,  // the inputs' end-of-document tokens
  kDataset,              // the documents of the dataset, whatever they end with
};

// Fills `bounds` for T inputs.
void find_bounds_by_tokens(const int32_t* inputs, int64_t T, int32_t end_of_document_id,
                           int32_t* bounds);
// Fills `bounds` for a row of a sample that has these parts.
void find_bounds_by_parts(const std::vector<SamplePart>& parts, const LengthCurriculum::Row& row,
                          int32_t* bounds);

}  // namespace weft
