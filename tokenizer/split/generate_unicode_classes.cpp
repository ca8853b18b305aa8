// Writes unicode_classes.cpp (tables of unicode_classes.h) from the ICU of the build machine.
//
// Any ICU of Unicode 15.0 or later does: code points that were assigned after 15.0 count as
// unassigned, and a digest over all 1,114,112 classes proves that the result is Unicode 15.0 itself
// (general categories of UnicodeData.txt 15.0.0 and White_Space of PropList.txt 15.0.0).
#include <unicode/uchar.h>
#include <unicode/uversion.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tokenizer/split/unicode_classes.h"

namespace {

constexpr uint32_t kNumCodePoints = 0x110000;
constexpr uint64_t kDigestOfUnicode15 = 0x9309ca7afa2058b8;

// The numbers of weft::CharClass.
uint8_t class_of(UChar32 c) {
  UVersionInfo age;
  u_charAge(c, age);
  if (age[0] > 15 || (age[0] == 15 && age[1] > 0)) return 0;
  if (u_hasBinaryProperty(c, UCHAR_WHITE_SPACE)) return 3;
  const uint32_t category = U_GET_GC_MASK(c);
  if (category & U_GC_L_MASK) return 1;
  if (category & U_GC_N_MASK) return 2;
  return 0;
}

uint64_t fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3;
  return hash;
}

void write_bytes(FILE* out, const std::string& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::fprintf(out, "%s%d,", i % 32 == 0 ? "\n" : "", static_cast<unsigned char>(bytes[i]));
  }
}

// See kClassOfLead. Of characters in U+0080 to U+FFFF that are not surrogates.
std::string classes_of_leads(const std::vector<uint8_t>& classes) {
  std::string result(64, static_cast<char>(weft::kMixedClass));
  std::vector<bool> seen(64);
  for (uint32_t c = 0x80; c < 0x10000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const uint32_t lead = c < 0x800 ? c >> 6 : 0x20 | c >> 12;
    const auto char_class = static_cast<char>(classes[c]);
    if (!seen[lead]) result[lead] = char_class;
    if (result[lead] != char_class) result[lead] = static_cast<char>(weft::kMixedClass);
    seen[lead] = true;
  }
  return result;
}

void write_tables(FILE* out, const std::vector<uint8_t>& classes) {
  std::vector<std::string> blocks;
  std::map<std::string, size_t> index_of_block;
  std::string block_of_page;
  for (uint32_t page = 0; page < kNumCodePoints / 256; ++page) {
    std::string block(64, '\0');
    for (uint32_t i = 0; i < 256; ++i) {
      block[i / 4] = static_cast<char>(static_cast<unsigned char>(block[i / 4]) |
                                       classes[page * 256 + i] << (2 * (i % 4)));
    }
    const auto [it, is_new] = index_of_block.emplace(block, blocks.size());
    if (is_new) blocks.push_back(block);
    block_of_page.push_back(static_cast<char>(it->second));  // fits: 127 blocks differ
  }
  std::fprintf(out,
               "// Made by generate_unicode_classes.cpp from ICU %s: Unicode 15.0.\n"
               "#include \"tokenizer/split/unicode_classes.h\"\n\nnamespace weft {\n\n"
               "const uint8_t kClassBlockOfPage[0x1100] = {",
               U_ICU_VERSION);
  write_bytes(out, block_of_page);
  std::fprintf(out, "};\n\nconst uint8_t kClassBlocks[][64] = {");
  for (const std::string& block : blocks) {
    std::fprintf(out, "{");
    write_bytes(out, block);
    std::fprintf(out, "},\n");
  }
  std::fprintf(out, "};\n\nconst uint8_t kClassOfLead[64] = {");
  write_bytes(out, classes_of_leads(classes));
  std::fprintf(out, "};\n\nconst uint8_t kClassesBelow10000[0x4000] = {");
  std::string packed(0x4000, '\0');
  for (uint32_t c = 0; c < 0x10000; ++c) {
    packed[c / 4] =
        static_cast<char>(static_cast<unsigned char>(packed[c / 4]) | classes[c] << (2 * (c % 4)));
  }
  write_bytes(out, packed);
  std::fprintf(out, "};\n\n}  // namespace weft\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: generate_unicode_classes OUTPUT.cpp\n");
    return 2;
  }
  std::vector<uint8_t> classes(kNumCodePoints);
  for (uint32_t c = 0; c < kNumCodePoints; ++c) classes[c] = class_of(static_cast<UChar32>(c));
  const uint64_t digest = fnv1a(classes);
  if (digest != kDigestOfUnicode15) {
    std::fprintf(stderr,
                 "error: ICU %s (Unicode %s) does not give the character classes of Unicode 15.0 "
                 "(digest %016llx, "
                 "expected %016llx); build with ICU 72 or later\n",
                 U_ICU_VERSION, U_UNICODE_VERSION, static_cast<unsigned long long>(digest),
                 static_cast<unsigned long long>(kDigestOfUnicode15));
    return 1;
  }
  FILE* out = std::fopen(argv[1], "w");
  if (out == nullptr) {
    std::perror(argv[1]);
    return 4;
  }
  write_tables(out, classes);
  const bool failed = std::ferror(out) != 0;
  if (std::fclose(out) != 0 || failed) {
    std::perror(argv[1]);
    return 4;
  }
  return 0;
}
