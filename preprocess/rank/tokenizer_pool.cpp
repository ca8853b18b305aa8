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
  // A std::function must be copyable.
  auto passed = std::make_shared<ChunkPtr>(std::move(chunk));
  jobs_.push([this, passed = std::move(passed)](ChunkTokenizer& tokenizer) {
    ChunkPtr text = std::move(*passed);
    try {
      tokenizer.tokenize(text->lines, text->batch);
      text->written.clear();
      for (const Batch::Output& output : text->batch.outputs) {
        text->written.push_back(written_checksums(output, text->input_idx));
      }
    } catch (...) {
      text->error = std::current_exception();
    }
    if (text->lines.long_line_permit) text->lines.buffer = std::vector<char>();
    use_(std::move(text));
  });
}

void TokenizerPool::run(std::function<void()> work, std::function<void()> then) {
  jobs_.push_urgent([this, work = std::move(work), then = std::move(then)](ChunkTokenizer&) {
    work_and_tell(inbox_, work, then);
  });
}

}  // namespace weft
