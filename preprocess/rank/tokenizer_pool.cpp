#include "preprocess/rank/tokenizer_pool.h"

#include <utility>

namespace weft {

TokenizerPool::TokenizerPool(std::shared_ptr<const Vocabulary> vocabulary,
                             const TokenizeRules& rules, int num_workers, Inbox& inbox,
                             std::function<void(ChunkPtr)> use)
    : vocabulary_(std::move(vocabulary)),
      rules_(rules),
      num_workers_(num_workers),
      inbox_(inbox),
      use_(std::move(use)) {}

void TokenizerPool::start() {
  for (int i = 0; i < num_workers_; ++i) {
    threads_.start([this] {
      ChunkTokenizer tokenizer(vocabulary_, rules_);
      while (const auto job = jobs_.pop()) (*job)(tokenizer);
    });
  }
}

void TokenizerPool::end() {
  jobs_.close();
  threads_.join();
}

void TokenizerPool::tokenize(ChunkPtr chunk) {
  jobs_.push([this, chunk = std::move(chunk)](ChunkTokenizer& tokenizer) {
    try {
      if (chunk->rows.values.empty()) {
        tokenizer.tokenize(chunk->lines, chunk->batch);
      } else {
        tokenizer.tokenize(chunk->rows, chunk->batch);
      }
      chunk->written.clear();
      for (const Batch::Output& output : chunk->batch.outputs) {
        chunk->written.push_back(written_checksums(output, chunk->input_idx));
      }
    } catch (...) {
      chunk->error = std::current_exception();
    }
    use_(chunk);
  });
}

void TokenizerPool::run(std::function<void()> work, std::function<void()> then) {
  jobs_.push_urgent([this, work = std::move(work), then = std::move(then)](ChunkTokenizer&) {
    work_and_tell(inbox_, work, then);
  });
}

}  // namespace weft
