// Counts of what a run, or a part of it, has read and made so far.
#pragma once

#include <cstdint>

#include "indexed_dataset/format/pair/dataset_counts.h"
#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/condition.h"

namespace weft {

struct PipelineTotals {
  int64_t num_file_bytes = 0;  // taken from the input files so far
  int64_t num_bytes = 0;       // of JSONL, decompressed
  int64_t num_lines = 0;
  int64_t num_documents = 0;  // empty ones included, bad lines and those left out not
  int64_t num_empty_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_replaced_surrogates = 0;
  int64_t num_dropped_bytes = 0;  // for which the tokenizer has no entry
  LeftOutCounts left_out;         // by --where
  BadLineCounts bad_lines;

  void add(const PipelineTotals& other) {
    num_file_bytes += other.num_file_bytes;
    num_bytes += other.num_bytes;
    num_lines += other.num_lines;
    num_documents += other.num_documents;
    num_empty_documents += other.num_empty_documents;
    num_tokens += other.num_tokens;
    num_replaced_surrogates += other.num_replaced_surrogates;
    num_dropped_bytes += other.num_dropped_bytes;
    left_out.add(other.left_out);
    bad_lines.add(other.bad_lines);
  }
};

}  // namespace weft
