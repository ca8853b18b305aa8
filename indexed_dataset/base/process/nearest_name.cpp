#include "indexed_dataset/base/process/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace weft {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::vector<std::string> words_of_name(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '-')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// Two wrong letters, or a third of a long word, are a slip. In a short word, such as fp8, one
// letter makes another word.
bool may_be_a_slip(const std::string& word, const std::string& candidate) {
  const size_t size = std::max(word.size(), candidate.size());
  return edit_distance(word, candidate) <= (size <= 3 ? 0 : std::max<size_t>(2, size / 3));
}

// --window-size is no slip for --hidden-size, though their letters are similar.
bool may_be_meant(const std::string& name, const std::string& candidate) {
  const std::vector<std::string> words = words_of_name(name), others = words_of_name(candidate);
  if (words.size() == others.size())
    return std::equal(words.begin(), words.end(), others.begin(), may_be_a_slip);
  const auto without_dashes = [](std::string text) {
    std::erase(text, '-');
    return text;
  };
  return without_dashes(name) == without_dashes(candidate);
}

}  // namespace

std::string nearest_name(std::string name, const std::vector<std::string>& names) {
  std::replace(name.begin(), name.end(), '_', '-');
  size_t best = name.size() + 1;
  std::string nearest;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance >= best || !may_be_meant(name, candidate)) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace weft
