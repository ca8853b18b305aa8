// The data report: its numbers on small datasets, and that no text gets out of its page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/kth_smallest.h"
#include "preprocess/documents/origin.h"
#include "preprocess/inspect/report/document_groups.h"
#include "preprocess/inspect/report/gather_report.h"
#include "preprocess/inspect/report/report_labels.h"
#include "preprocess/inspect/text/document_facts.h"
#include "tests/indexed_dataset/test_files.h"
#include "tests/temporary_folder.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

std::pair<int64_t, int64_t> repeated_of(const std::string& text, size_t piece_bytes) {
  RepeatedCharacters characters;
  for (size_t at = 0; at < text.size(); at += piece_bytes)
    characters.add(text.substr(at, piece_bytes));
  characters.end();
  return {characters.num_repeated(), characters.num_characters()};
}

TEST(RepeatedCharacters, CountsCharactersWhateverThePieces) {
  using Counts = std::pair<int64_t, int64_t>;
  for (const size_t piece : {1, 2, 3, 100}) {
    EXPECT_EQ(repeated_of("", piece), Counts(0, 0));
    EXPECT_EQ(repeated_of("a", piece), Counts(0, 1));
    EXPECT_EQ(repeated_of("aab", piece), Counts(1, 3));
    EXPECT_EQ(repeated_of("。。。a\xF0\x9F\x98\x80\xF0\x9F\x98\x80", piece), Counts(3, 6));
    EXPECT_EQ(repeated_of(std::string(3, '\0'), piece), Counts(2, 3));
    EXPECT_EQ(repeated_of("éè", piece), Counts(0, 2));
  }
}

TEST(RepeatedCharacters, AsciiPiecesAreTheirBytes) {
  uint32_t random = 7;
  for (int round = 0; round < 300; ++round) {
    RepeatedCharacters by_piece, by_bytes;
    for (int i = 0; i < 6; ++i) {
      std::string text;
      random = random * 1664525 + 1013904223;
      for (uint32_t k = 0; k <= (random >> 28) % 5; ++k)
        text += "aab\x7f"[((random = random * 1664525 + 1013904223) >> 20) % 4];
      by_bytes.add(text);
      by_piece.add(AsciiPiece(text));
      // A byte that continues a character may follow an ASCII one in broken text.
      for (RepeatedCharacters* characters : {&by_piece, &by_bytes})
        characters->add(random % 3 == 0 ? "\x80" : random % 3 == 1 ? "é" : "");
    }
    by_piece.end();
    by_bytes.end();
    ASSERT_EQ(by_piece.num_characters(), by_bytes.num_characters());
    ASSERT_EQ(by_piece.num_repeated(), by_bytes.num_repeated());
  }
}

int64_t repeated_runs(RepeatedRuns& runs, const std::vector<int32_t>& ids, size_t piece,
                      uint64_t seed) {
  runs.begin(seed);
  for (size_t at = 0; at < ids.size(); at += piece)
    runs.add(std::span(ids).subspan(at, std::min(piece, ids.size() - at)));
  return runs.num_repeated();
}

TEST(RepeatedRuns, AreTheTokensThatEndAKnownRun) {
  RepeatedRuns runs;
  for (const size_t piece : {1, 3, 100}) {
    EXPECT_EQ(repeated_runs(runs, {5, 5, 5, 5}, piece, 10 * piece + 1), 0);
    EXPECT_EQ(repeated_runs(runs, {5, 5, 5, 5, 5, 5}, piece, 10 * piece + 2), 2);
    EXPECT_EQ(repeated_runs(runs, {1, 2, 3, 4, 5, 1, 2, 3, 4, 6}, piece, 10 * piece + 3), 1);
    EXPECT_EQ(repeated_runs(runs, {1, 2, 3}, piece, 10 * piece + 4), 0);
    // The runs of another document do not count.
    EXPECT_EQ(repeated_runs(runs, {1, 2, 3, 4, 5, 6, 7}, piece, 10 * piece + 5), 0);
    EXPECT_EQ(repeated_runs(runs, {1, 2, 3, 4, 5, 6, 7}, piece, 10 * piece + 6), 0);
  }
}

TEST(Duplicates, AreGroupsOfEqualHashesForAnyNumberOfThreads) {
  for (const int threads : {1, 4}) {
    constexpr int64_t kCount = 200000;
    DocumentGroups groups(kCount);
    // Documents 2 * i and 2 * i + 1 are equal for i < 100; 10, 11 and the last one, too.
    for (int64_t i = 0; i + 1 < kCount; ++i) {
      const auto id = static_cast<uint64_t>(i < 200 ? i / 2 : i) + 1;
      if (i != 50000) groups.set(i, id * 0x9E3779B97F4A7C15, id << 40);
    }
    groups.set(kCount - 1, uint64_t{6} * 0x9E3779B97F4A7C15, uint64_t{6} << 40);
    const Duplicates found =
        find_duplicates(groups, threads, 3, [](int64_t i) { return 1000 - i; });
    EXPECT_EQ(found.num_groups, 100);
    EXPECT_EQ(found.num_documents, 101);
    ASSERT_EQ(found.largest.size(), 3u);
    EXPECT_EQ(found.largest[0].first_document, 10);
    EXPECT_EQ(found.largest[0].num_documents, 3);
    EXPECT_EQ(found.largest[0].num_tokens, 990);
    EXPECT_EQ(found.largest[1].first_document, 0);
    EXPECT_EQ(found.largest[2].first_document, 2);
    EXPECT_EQ(found.num_tokens, 100 * 1000 - 2 * (99 * 100 / 2) + 990);
  }
}

TEST(KthSmallest, IsThatOfTheSortedNumbers) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> values(1 + random() % 12);
    const int most_bits = static_cast<int>(random() % 64);
    for (int64_t& value : values) {
      value = static_cast<int64_t>(random() >> 1 >> (63 - most_bits));
      if (random() % 8 == 0) value = most_bits == 63 ? INT64_MAX : values[0];
    }
    std::vector<int64_t> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (size_t k = 0; k < values.size(); ++k) {
      const auto value_of = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
      ASSERT_EQ(kth_smallest(std::ssize(values), static_cast<int64_t>(k), value_of), sorted[k]);
    }
  }
}

TEST(ReportWords, RoundNothingToAllOrNothing) {
  EXPECT_EQ(percent(0.2934), "29.3 %");
  EXPECT_EQ(percent(0), "0.0 %");
  EXPECT_EQ(percent(1), "100.0 %");
  EXPECT_EQ(percent(0.999999), "over 99.9 %");
  EXPECT_EQ(percent(0.00001), "under 0.1 %");
  EXPECT_EQ(grouped(7), "7");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(ReportWords, CutBetweenCharacters) {
  EXPECT_EQ(first_characters("aé。", 3), "aé。");
  EXPECT_EQ(first_characters("aé。", 2), "aé...");
  EXPECT_EQ(first_characters("", 0), "");
  EXPECT_EQ(first_characters("\x80\x80\xff", 1), "\x80\x80\xff");
}

TEST(ReportWords, TheVerdictNamesWhatIsOverItsThreshold) {
  DataReport report;
  EXPECT_EQ(verdict_of(report), "nothing suspicious");
  report.num_documents = 1000;
  report.num_empty_documents = report.duplicates.num_documents = 9;
  report.num_bad_lines = 0;
  EXPECT_EQ(verdict_of(report), "nothing suspicious");
  report.num_bad_lines = 1;
  EXPECT_EQ(verdict_of(report), "1 finding");
  EXPECT_THAT(findings_of(report),
              ::testing::ElementsAre("1 line of the corpus (under 0.1 %) was bad and gave no "
                                     "document"));
  report.num_bad_lines = 1700;
  report.num_tokens = 10'000;
  report.num_repetitive_documents = 12;
  report.num_repetitive_tokens = 250;
  report.duplicates.num_documents = 43;
  report.duplicates.num_tokens = 150;
  report.num_empty_documents = 10;
  EXPECT_EQ(verdict_of(report), "4 findings");
  using ::testing::StartsWith;
  EXPECT_THAT(
      findings_of(report),
      ::testing::ElementsAre(
          StartsWith(
              "12 of 1,000 documents (1.2 %; 2.5 % of the tokens) are nearly all repetition"),
          StartsWith("43 of 1,000 documents (4.3 %; 1.5 % of the tokens) are exact copies"),
          "1,700 lines of the corpus (63.0 %) were bad and gave no document",
          StartsWith("10 of 1,000 documents (1.0 %) are empty")));
}

TEST(ReportWords, AnOpeningCanBeSeen) {
  EXPECT_EQ(visible_beginning({"plain text", 1}, 100), "plain text");
  EXPECT_EQ(visible_beginning({"plain text", 1}, 5), "plain...");
  EXPECT_EQ(visible_beginning({std::string(240, 'a'), 20001}, 100), "a × 20,001");
  EXPECT_EQ(visible_beginning({"\t\t\tx", 3}, 100), "\\t\\t\\tx");
  EXPECT_EQ(visible_beginning({std::string(9, '\n') + "  b", 9}, 100), "\\n × 9 ␣␣b");
  EXPECT_EQ(visible_beginning({"\u200B\u00A0\u3000c\u00A0d", 1}, 100),
            "\\u{200B}\\u{A0}\\u{3000}c\u00A0d");
  EXPECT_EQ(visible_beginning({"\t" + std::string(60, ' '), 1}, 100), "\\t ␣ × 60 or more");
  EXPECT_EQ(visible_beginning({"\xff\x80\x1b", 1}, 100), "\\xFF\\x80\\x1B");
  EXPECT_EQ(visible_beginning({"", 0}, 100), "");
}

// A dataset of texts, with a small vocabulary.
class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    VocabularyTrainer trainer;
    for (int i = 0; i < 20; ++i)
      trainer.add_text("the quick brown fox jumps over the lazy dog \\\\\\\\");
    const LearnedVocabulary learned = trainer.train(300, 2);
    write_file_atomically(folder_.path() / "vocab.json", vocab_json_of(learned));
    write_file_atomically(folder_.path() / "merges.txt", merges_txt_of(learned));
    vocabulary_ =
        test::load_gpt2_files(folder_.path() / "vocab.json", folder_.path() / "merges.txt");
  }
  // Document i is from origins[i], if there are any.
  void write(const std::vector<std::string>& texts, const std::vector<std::string>& origins = {}) {
    const bool has_origins = !origins.empty();
    Tokenizer tokenizer(vocabulary_);
    DatasetWriter writer(prefix_, TokenType::kUInt16);
    std::vector<std::byte> entries;
    for (const std::string& text : texts) {
      std::vector<uint16_t> tokens;
      tokenizer.encode(text, tokens);
      if (!tokens.empty()) tokens.push_back(static_cast<uint16_t>(vocabulary_->end_of_document()));
      const auto length = static_cast<int32_t>(tokens.size());
      const size_t i = entries.size() / static_cast<size_t>(source_entry_bytes(has_origins));
      append_source_entry(
          entries,
          {0, static_cast<int64_t>(12 * i), has_origins ? origin_of(origins.at(i)) : Origin{}},
          has_origins);
      writer.append_documents(std::as_bytes(std::span(tokens)), std::span(&length, 1));
    }
    writer.finish();
    OutputFile(sources_path(prefix_)).write_at(entries.data(), entries.size(), source_entry_at(0));
    seal_source_map(sources_path(prefix_), std::ssize(texts), {"<corpus>.jsonl"}, {}, has_origins);
  }
  DataReport gather(int threads = 2) const { return gather_report(prefix_, options(threads)); }
  ReportOptions options(int threads) const {
    return {gpt2_files(folder_.path() / "vocab.json", folder_.path() / "merges.txt"), threads};
  }

  const TemporaryFolder folder_;
  const fs::path prefix_ = folder_.path() / "d";
  std::shared_ptr<const Vocabulary> vocabulary_;
};

std::vector<std::string> ordinary_texts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back("text " + std::to_string(i * 7919) +
                    " of the quick brown fox, who jumps over " + std::to_string(i) +
                    " lazy dogs and then over " + std::to_string(i * i) +
                    " others that sleep in the shade of a tree by the river");
  return texts;
}

TEST_F(ReportTest, AMillionBackslashesStandAtTheTop) {
  auto texts = ordinary_texts(100);
  texts[70] = std::string(1000000, '\\');
  texts[20] = std::string(150, '-');
  write(texts);
  const DataReport report = gather();
  ASSERT_GE(report.most_repeated_characters.size(), 2u);
  EXPECT_EQ(report.most_repeated_characters[0].document_idx, 70);
  EXPECT_NEAR(report.most_repeated_characters[0].ratio, 1, 1e-5);
  EXPECT_EQ(report.most_repeated_characters[0].source, "<corpus>.jsonl, byte 840");
  EXPECT_EQ(report.most_repeated_characters[1].document_idx, 20);
  EXPECT_EQ(report.most_repeated_characters[0].beginning.num_equal, 1000000);
  EXPECT_EQ(report.num_repetitive_tokens,
            report.longest[0].num_tokens + report.most_repeated_characters[1].num_tokens);
  EXPECT_EQ(report.most_repeated_tokens[0].document_idx, 70);
  EXPECT_EQ(report.longest[0].document_idx, 70);
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr(">over 99.9 %<"));
  EXPECT_THAT(html, HasSubstr(">\\\\ × 1,000,000</span>"));
  EXPECT_THAT(html, HasSubstr("2 of 100 documents (2.0 %; "));
}

TEST_F(ReportTest, CountsDocumentsOfRepetitionBeyondTheTable) {
  auto texts = ordinary_texts(60);
  for (size_t i = 0; i < 30; ++i) texts[2 * i] = std::string(1000 + i, '-');
  write(texts);
  EXPECT_EQ(gather().num_repetitive_documents, 30);
  EXPECT_EQ(gather().most_repeated_characters.size(), kNumReported);
  write(ordinary_texts(60));
  EXPECT_EQ(gather().num_repetitive_documents, 0);
  EXPECT_THAT(report_html(gather()), HasSubstr("Verdict: nothing suspicious."));
  EXPECT_EQ(nlohmann::json::parse(report_json(gather()))["findings"].size(), 0u);
}

TEST_F(ReportTest, ThePageIsForReading) {
  const auto texts = ordinary_texts(4);
  write(texts);
  const std::string html = report_html(gather());
  EXPECT_THAT(html, HasSubstr(">" + texts[0].substr(0, 100) + "...</span></td>"));
  EXPECT_THAT(html, HasSubstr("One file."));
  // The name of the file stands without its folders, which the mouse shows; the number of a row
  // too.
  EXPECT_THAT(html, HasSubstr("<span title=\"&lt;corpus&gt;.jsonl, byte 0\">"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">64 to 127</td><td class=\"n\">4</td>"
                              "<td class=\"n d\">100.0 %</td><td class=\"n\">100.0 %</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<td class=\"n\">32 to 63</td>")));  // no row without documents
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  // Whatever is wide scrolls within its box.
  for (size_t at = html.find("<table"); at != std::string::npos; at = html.find("<table", at + 1))
    EXPECT_EQ(html.substr(at - 15, 15), "<div class=\"w\">");
}

TEST_F(ReportTest, TellsHowTheDatasetWasMade) {
  write({"the fox"});
  EXPECT_THAT(report_html(gather()), Not(HasSubstr("manifest was written")));
  write_file_atomically(prefix_.string() + ".manifest.json",
                        R"({"options": {"json-keys": "<b>", "dtype": 7, "shard": "", "input": "x"},
          "vocabulary": {"size": 300}, "dataset": {"documents": 1, "tokens": 3}})");
  const DataReport report = gather();
  ASSERT_EQ(report.main_options.size(), 1u);
  EXPECT_EQ(report.manifest_written.size(), std::string("2026-11-21 23:40 UTC").size());
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("<th>--json-keys</th><td class=\"t\">&lt;b&gt;</td>"));
  EXPECT_THAT(html, HasSubstr(report.manifest_written));
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["options"]["json-keys"], "<b>");
}

TEST_F(ReportTest, CountsDocumentsDuplicatesAndBytes) {
  write({"the fox", "", "a dog", "the fox", "", "the fox", "a dog", "x"});
  const DataReport report = gather();
  EXPECT_EQ(report.num_documents, 8);
  EXPECT_EQ(report.num_empty_documents, 2);
  EXPECT_EQ(report.length_histogram[0], 2);
  EXPECT_EQ(report.min_tokens, 2);
  EXPECT_EQ(report.duplicates.num_groups, 2);
  EXPECT_EQ(report.duplicates.num_documents, 3);
  EXPECT_EQ(report.duplicates.largest[0].first_document, 0);
  EXPECT_EQ(report.duplicates.largest[0].num_documents, 3);
  EXPECT_THAT(report.duplicate_beginnings[0].text, ::testing::StartsWith("the fox"));
  EXPECT_EQ(
      std::accumulate(report.tokens_by_length.begin(), report.tokens_by_length.end(), int64_t{0}),
      report.num_tokens);
  const std::string all = "the foxa dogthe foxthe foxa dogx";
  EXPECT_EQ(report.num_text_bytes, std::ssize(all));
  ASSERT_EQ(report.inputs.size(), 1u);
  EXPECT_EQ(report.inputs[0].num_documents, 8);
  EXPECT_EQ(report.inputs[0].num_tokens, report.num_tokens);
}

TEST_F(ReportTest, CountsDocumentsWithoutAnEndAndWithOneInside) {
  const auto end = static_cast<uint16_t>(vocabulary_->end_of_document());
  const auto verdict = [&](const std::vector<std::vector<uint16_t>>& documents) {
    write_dataset(prefix_, TokenType::kUInt16, documents);
    return findings_of(gather());
  };
  EXPECT_THAT(verdict({{1, end}, {2, 3, end}}), IsEmpty());
  EXPECT_EQ(gather().num_without_end, 0);
  EXPECT_THAT(verdict({{1, 4}, {2, 3}}), IsEmpty());  // made without --append-eod
  EXPECT_EQ(gather().num_without_end, 2);
  EXPECT_THAT(
      verdict({{1, end}, {2, 3}, {end, 5, end}, {6, end, end}, {end}}),
      ::testing::ElementsAre(
          HasSubstr("1 of 5 documents (20.0 %) does not end with the token that ends the others"),
          HasSubstr("2 of 5 documents (40.0 %) hold the token that ends documents inside")));
  const auto json = nlohmann::json::parse(report_json(gather()));
  EXPECT_EQ(json["documents_without_end"], 1);
  EXPECT_EQ(json["documents_with_end_inside"], 2);
  EXPECT_THAT(report_html(gather()), HasSubstr("with that token inside"));
}

TEST_F(ReportTest, MedianIsThatOfSortedLengths) {
  std::vector<std::string> texts;
  for (const size_t length : {1, 40, 3, 3, 17, 90, 5, 5, 6}) texts.emplace_back(length, 'Z');
  write(texts);
  Tokenizer tokenizer(vocabulary_);
  std::vector<int64_t> lengths;
  for (const std::string& text : texts) {
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    lengths.push_back(std::ssize(ids) + 1);
  }
  std::sort(lengths.begin(), lengths.end());
  const DataReport report = gather();
  EXPECT_EQ(report.min_tokens, lengths.front());
  EXPECT_EQ(report.median_tokens, lengths[4]);
  EXPECT_EQ(report.p90_tokens, lengths[8]);
  EXPECT_EQ(report.p99_tokens, lengths[8]);
  EXPECT_EQ(report.max_tokens, lengths.back());
}

TEST_F(ReportTest, DoesNotDependOnThreads) {
  auto texts = ordinary_texts(3000);
  for (size_t i = 0; i < texts.size(); i += 7) texts[i] = texts[i / 2];
  for (size_t i = 0; i < texts.size(); i += 60) texts[i] = std::string(100 + i, 'a');
  for (size_t i = 3; i < texts.size(); i += 300) texts[i] = std::string(200000, 'b');
  write(texts);
  EXPECT_EQ(report_json(gather(1)), report_json(gather(5)));
}

TEST_F(ReportTest, NoTextGetsOutOfItsPlace) {
  const std::string attack =
      "\x1b[31m\x07\x01 \xE2\x80\xAE reversed \"'&amp; <script>alert(1)</script></table></body>"
      "<img src=x onerror=alert(1)>";
  write({attack, attack + attack, std::string(200, '\x1b')},
        {"https://<script>alert(1)<\x1b[31m>", "\"><img src=x onerror=alert(1)>", "</table>"});
  const DataReport report = gather();
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(html, HasSubstr("\\x1B[31m\\x07\\x01 \\u{202E} reversed"));
  EXPECT_THAT(html, HasSubstr("&lt;corpus&gt;.jsonl"));
  EXPECT_THAT(html, HasSubstr(">&lt;script&gt;alert(1)&lt;\\x1B[31m&gt;</td>"));
  EXPECT_THAT(html, HasSubstr(">&quot;&gt;&lt;img src=x onerror=alert(1)&gt;</td>"));
  for (const char* raw : {"<script", "<img", "\x1b", "\x01", "\xE2\x80\xAE", "&amp;amp </"})
    EXPECT_THAT(html, Not(HasSubstr(raw)));
  // Every tag is one of ours, and every quote stands in one.
  size_t num_bodies = 0;
  for (size_t at = html.find("</body>"); at != std::string::npos; at = html.find("</body>", at + 1))
    ++num_bodies;
  EXPECT_EQ(num_bodies, 1u);
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find_first_of(" >\n", at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    EXPECT_THAT(
        (std::vector<std::string>{
            "!DOCTYPE", "html",   "/html", "head", "/head", "meta", "title", "/title", "style",
            "/style",   "body",   "/body", "h1",   "/h1",   "h2",   "/h2",   "p",      "/p",
            "table",    "/table", "tr",    "/tr",  "th",    "/th",  "td",    "/td",    "div",
            "/div",     "svg",    "/svg",  "text", "/text", "rect", "span",  "/span"}),
        ::testing::Contains(tag));
  }
  const std::string json = report_json(report);
  EXPECT_TRUE(std::all_of(json.begin(), json.end(), [](char c) {
    return c == '\n' ||
           (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F);
  }));
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_THAT(parsed["longest_documents"][1]["beginning"].get<std::string>(),
              HasSubstr("<script>alert(1)</script>"));
}

TEST_F(ReportTest, DocumentsThatBeginAlikeTakeOneRow) {
  auto texts = ordinary_texts(10);
  for (size_t i = 2; i < 7; ++i) texts[i] = std::string(1000 + i, 'a');
  write(texts);
  const std::string html = report_html(gather());
  const std::string row =
      "<td class=\"n\">6 <span class=\"r\" title=\"5, 4, 3, 2\">and 4 more</span></td>";
  EXPECT_THAT(html, HasSubstr(row));
  EXPECT_THAT(html, HasSubstr(">a × 1,006</span>"));
  EXPECT_THAT(html, Not(HasSubstr(">a × 1,005</span>")));
}

TEST_F(ReportTest, ThePolicyAllowsItsStyleAndNothingElse) {
  write({"a"});
  const std::string html = report_html(gather());
  const size_t begin = html.find("<style>") + 7;
  const std::string style = html.substr(begin, html.find("</style>") - begin);
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; style-src 'sha256-" +
                              sha256_base64(style) + "'; base-uri 'none'; form-action 'none'\""));
  for (const char* word : {"http://", "https://", "style=", "src=", "href="})
    EXPECT_THAT(html, Not(HasSubstr(word)));
}

TEST_F(ReportTest, WorksWithoutAnythingBesideThePair) {
  write({"the fox", "the fox", ""});
  fs::remove(sources_path(prefix_));
  const DataReport report = gather_report(prefix_, options(1));
  EXPECT_FALSE(report.has_sources);
  EXPECT_FALSE(report.num_bad_lines.has_value());
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("There is no source map")));
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("There is no manifest")));
  EXPECT_THAT(report_html(report), HasSubstr("not known"));
  write({});
  EXPECT_EQ(gather().num_documents, 0);
  EXPECT_THAT(report_html(gather()), HasSubstr("None."));
}

TEST_F(ReportTest, CountsDomainsAndSources) {
  write({"a", "b", "the fox", "", "c", "d", "e f g h", "x"},
        {"https://b.org/1", "https://www.a.org", "https://a.org/2", "https://b.org", "", "Wiki", "",
         "https://B.org"});
  const DataReport report = gather();
  ASSERT_TRUE(report.origins.has_value());
  EXPECT_EQ(report.origins->num_origins, 3);
  EXPECT_EQ(report.origins->num_documents_without, 2);
  const auto tokens = [&](std::initializer_list<int64_t> documents) {
    const DatasetReader reader(prefix_);
    int64_t sum = 0;
    for (const int64_t i : documents) {
      for (int64_t k = reader.document_bound(i); k < reader.document_bound(i + 1); ++k)
        sum += reader.length(k);
    }
    return sum;
  };
  EXPECT_EQ(report.origins->num_tokens_without, tokens({4, 6}));
  const auto& largest = report.origins->largest;
  ASSERT_EQ(largest.size(), 3u);
  EXPECT_EQ(largest[0].origin, "a.org");
  EXPECT_EQ(largest[0].num_tokens, tokens({1, 2}));
  EXPECT_EQ(largest[1].origin, "b.org");
  EXPECT_EQ(largest[1].num_documents, 3);
  EXPECT_EQ(largest[1].num_tokens, tokens({0, 3, 7}));
  EXPECT_GT(largest[0].num_tokens, largest[1].num_tokens);
  EXPECT_EQ(largest[2].origin, "Wiki");
  EXPECT_THAT(report.longest[0].source, HasSubstr(", byte "));
  const auto json = nlohmann::json::parse(report_json(report))["origins"];
  EXPECT_EQ(json["different"], 3);
  EXPECT_EQ(json["largest"][1]["origin"], "b.org");
  EXPECT_EQ(json["largest"][1]["tokens"], largest[1].num_tokens);
  EXPECT_DOUBLE_EQ(
      json["largest"][1]["share_of_tokens"].get<double>(),
      static_cast<double>(largest[1].num_tokens) / static_cast<double>(report.num_tokens));
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("<td class=\"t\">b.org</td><td class=\"n d\">3</td>"));
  EXPECT_THAT(html, HasSubstr("none named"));
  EXPECT_THAT(html, Not(HasSubstr("the other")));
}

// More of them than are shown, as many as documents, for any number of threads.
TEST_F(ReportTest, CountsManyDomains) {
  std::vector<std::string> texts, origins;
  for (int i = 0; i < 70'000; ++i) {
    texts.emplace_back(i % 1000 == 0 ? "the fox" : "");
    origins.push_back("https://" + std::to_string(i < 69'000 ? i : i % 40) + ".org");
  }
  write(texts, origins);
  const DataReport report = gather(1);
  EXPECT_EQ(report.origins->num_origins, 69'000);
  ASSERT_EQ(report.origins->largest.size(), kNumReportedOrigins);
  EXPECT_EQ(report.origins->largest[0].origin, "0.org");
  EXPECT_EQ(report.origins->largest[0].num_documents, 26);
  EXPECT_EQ(report.origins->largest[29].origin, "29000.org");
  EXPECT_EQ(report_json(report), report_json(gather(5)));
  EXPECT_THAT(report_html(report),
              HasSubstr("the other 68,970</span></td><td class=\"n d\">69,945<"));
}

TEST_F(ReportTest, SaysWhyDomainsAreNotKnown) {
  write({"a", "b"});
  EXPECT_FALSE(gather().origins.has_value());
  EXPECT_THAT(gather().notes, ::testing::Contains(HasSubstr("--origin-key auto keeps them")));
  EXPECT_TRUE(nlohmann::json::parse(report_json(gather()))["origins"].is_null());
  EXPECT_THAT(report_html(gather()), Not(HasSubstr("Top domains")));
  write({"a", "b"}, {"", ""});  // looked for, and not found
  EXPECT_EQ(gather().origins->num_documents_without, 2);
  EXPECT_THAT(report_html(gather()), HasSubstr("name none: 2 of 2."));
}

TEST_F(ReportTest, IsWrittenByTheNamesEnd) {
  write({"the fox"});
  write_report(prefix_, folder_.path() / "r.html", options(1));
  EXPECT_THAT(read_file(folder_.path() / "r.html"), ::testing::StartsWith("<!DOCTYPE html>"));
  write_report(prefix_, folder_.path() / "r.json", options(1));
  EXPECT_TRUE(nlohmann::json::accept(read_file(folder_.path() / "r.json")));
  EXPECT_THROW(write_report(prefix_, folder_.path() / "r.txt", options(1)), std::invalid_argument);
}

TEST_F(ReportTest, RefusesADamagedIndex) {
  write({"the fox", "a dog", "x"});
  OutputFile(prefix_.string() + ".idx", true).write_at("\xff\xff\xff\xff", 4, 34);
  EXPECT_THROW(gather(), std::runtime_error);
}

}  // namespace
}  // namespace weft
