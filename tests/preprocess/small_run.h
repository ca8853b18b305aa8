// A run of the pipeline on inputs that a test writes, with a vocabulary of bytes.
#pragma once

#include <fstream>
#include <random>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/run/pipeline.h"
#include "tests/temporary_folder.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {

class SmallRun {
 public:
  SmallRun() {
    VocabularyTrainer trainer;
    trainer.add_text("a");
    const LearnedVocabulary learned = trainer.train(257, 1);
    write_file_atomically(path("vocab.json"), vocab_json_of(learned));
    write_file_atomically(path("merges.txt"), merges_txt_of(learned));
    vocabulary = test::load_gpt2_files(path("vocab.json"), path("merges.txt"));
    config.inputs = {path("in")};
    config.output_prefixes = {path("out")};
    config.overwrite = true;
    config.sync_interval = std::chrono::milliseconds(5);
    config.rules.on_bad_line = OnBadLine::kSkip;
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }
  void write_input(const std::string& text, const std::string& name = "in") const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  PipelineReport run() const { return run_pipeline(config, vocabulary, events); }

  PipelineConfig config;
  PipelineEvents events;
  std::shared_ptr<const Vocabulary> vocabulary;

 private:
  TemporaryFolder folder_;
};

// JSON lines of digits that compress to about half: where compressed files are cut, parts have
// 256 KiB at least.
inline std::string lines_of_digits(uint32_t seed, size_t num_bytes) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < num_bytes) {
    text += "{\"text\":\"";
    for (uint32_t i = random() % 3000; i > 0; --i) text += "0123456789abcdef"[random() % 16];
    text += "\"}\n";
  }
  return text;
}

}  // namespace weft
