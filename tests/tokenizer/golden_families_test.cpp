// Ids of every family beside those of the references (tokenizers 0.23.3, tiktoken 0.14.0), whose
// digests and ids lie in WEFT_TOKENIZERS_DIR/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tokenizer/corpus.h"
#include "tests/tokenizer/families.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

struct Family {
  const char* name;  // of its golden files
  const char* file;
};
// GoogleTest prints parameters by this.
void PrintTo(const Family& family, std::ostream* out) { *out << family.file; }

// The texts of one group of the golden digests.
std::vector<std::string> texts_of_group(const std::string& group) {
  std::vector<std::string> texts;
  if (group == "soup") {
    for (const json& line : json_lines(test::family_file("golden/soup.jsonl")))
      texts.push_back(line["text"]);
    return texts;
  }
  if (test::corpus_folder().empty()) return {};
  texts = test::corpus_texts(group);
  if (group == "code" && texts.size() > 300) texts.resize(300);
  if (group != "nasty" && texts.size() > 2000) texts.resize(2000);
  // Lines with lone surrogates, which are no JSON, are left out.
  std::erase_if(texts, [](const std::string& text) { return text.starts_with("{\"meta\""); });
  return texts;
}

// The digest that shared golden files have: each text's number of ids, and the ids, as uint32.
class Digest {
 public:
  void add(const std::vector<int32_t>& ids) {
    const auto num_ids = static_cast<uint32_t>(ids.size());
    bytes_.append(reinterpret_cast<const char*>(&num_ids), sizeof(num_ids));
    bytes_.append(reinterpret_cast<const char*>(ids.data()), sizeof(ids[0]) * ids.size());
  }
  std::string hex() const { return sha256_of(bytes_); }

 private:
  std::string bytes_;
};

class GoldenFamily : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (test::tokenizers_folder().empty()) GTEST_SKIP() << "WEFT_TOKENIZERS_DIR is not set";
    vocabulary_ = test::load_family(GetParam().file);
    if (vocabulary_ == nullptr) GTEST_SKIP() << GetParam().file << " is not there";
  }
  std::string golden_file(const std::string& ending) const {
    return test::family_file("golden/" + std::string(GetParam().name) + ending);
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
};

// The modes of the golden files (README there).
class ModeEncoder {
 public:
  ModeEncoder(const std::shared_ptr<const Vocabulary>& vocabulary, const std::string& mode)
      : tokenizer_(vocabulary, mode == "literal" ? SpecialTokens::kLiteral : SpecialTokens::kToken),
        has_template_(mode == "template") {}
  std::vector<int32_t> encode(const std::string& text) {
    std::vector<int32_t> ids;
    if (has_template_) {
      tokenizer_.encode_with_template(text, ids);
    } else {
      tokenizer_.encode(text, ids);
    }
    return ids;
  }

 private:
  Tokenizer tokenizer_;
  bool has_template_;
};

TEST_P(GoldenFamily, GivesTheIdsOfTheReference) {
  const std::vector<json> lines = json_lines(golden_file(".ids.jsonl"));
  for (const std::string mode : {"literal", "special", "template"}) {
    ModeEncoder encoder(vocabulary_, mode);
    int num_wrong = 0;
    for (const json& line : lines) {
      if (!line.contains(mode)) continue;  // the other modes stand only where they differ
      const std::vector<int32_t> ids = encoder.encode(line["text"]);
      if (ids == line[mode].get<std::vector<int32_t>>() || ++num_wrong > 10) continue;
      ADD_FAILURE() << mode << " " << line.dump() << "\nhere: " << json(ids).dump();
    }
    EXPECT_EQ(num_wrong, 0) << mode;
  }
}

TEST_P(GoldenFamily, HasTheDigestsOfTheReference) {
  const json digests = json::parse(golden_file(".digests.json"));
  for (const auto& [group, modes] : digests["groups"].items()) {
    const std::vector<std::string> texts = texts_of_group(group);
    if (texts.empty()) continue;
    for (const auto& [mode, golden] : modes.items()) {
      ModeEncoder encoder(vocabulary_, mode);
      Digest digest;
      size_t num_tokens = 0;
      for (const std::string& text : texts) {
        const std::vector<int32_t> ids = encoder.encode(text);
        num_tokens += ids.size();
        digest.add(ids);
      }
      EXPECT_EQ(num_tokens, golden["tokens"].get<size_t>()) << group << " " << mode;
      EXPECT_EQ(digest.hex(), golden["sha256"].get<std::string>()) << group << " " << mode;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, GoldenFamily,
    testing::Values(Family{"neox-20b", "neox-20b/tokenizer.json"},
                    Family{"phi-2", "phi-2/tokenizer.json"},
                    Family{"whisper-large-v3", "whisper-large-v3/tokenizer.json"},
                    Family{"qwen3", "qwen3/tokenizer.json"},
                    Family{"deepseek-v4", "deepseek-v4/tokenizer.json"},
                    Family{"roberta-base", "roberta-base/tokenizer.json"},
                    Family{"p50k", "p50k/p50k_base.tiktoken"},
                    Family{"cl100k", "cl100k/cl100k_base.tiktoken"},
                    Family{"o200k", "o200k/o200k_base.tiktoken"},
                    Family{"llama-3.1", "llama-3.1/tokenizer.json"},
                    Family{"llama-3.1", "llama-3.1/tokenizer.model"},
                    Family{"tekken", "tekken/tekken_240911.json"},
                    Family{"starcoder2", "starcoder2/tokenizer.json"},
                    Family{"falcon-7b", "falcon-7b/tokenizer.json"},
                    Family{"bloom-shaped-70k", "bloom-shaped-70k/tokenizer.json"},
                    Family{"glm-4-0414", "glm-4-0414/tokenizer.json"}),
    [](const auto& family) {
      std::string name = family.param.file;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

}  // namespace
}  // namespace weft
