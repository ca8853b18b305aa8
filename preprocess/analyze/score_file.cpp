#include "preprocess/analyze/score_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

constexpr double kLimit = 4294967296;  // times the tokens of a sample it fits 64 bits

}  // namespace

std::vector<int64_t> read_scores(const std::filesystem::path& path, int64_t count, int64_t scale,
                                 const std::string& of_what) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<int64_t> scores;
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(fmt::format("{}:{}: {}", path.string(), scores.size() + 1, what));
  };
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (std::ssize(scores) == count)
      fail(fmt::format("a line too many: there are {}, and each has one line",
                       counted(count, of_what)));
    double value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || stop != line.data() + line.size() || !std::isfinite(value))
      fail(fmt::format("'{}' is no number", beginning_of(line, 60)));
    const double scaled = std::nearbyint(value * static_cast<double>(scale));
    if (scale == 1 && scaled != value)
      fail(
          fmt::format("{} has a fraction, and scores become integers: give --score-scale, by which "
                      "they are multiplied first (1000000, say)",
                      line));
    if (std::abs(scaled) >= kLimit)
      fail(fmt::format("{} times --score-scale is 2^32 or more", line));
    scores.push_back(static_cast<int64_t>(scaled));
  }
  if (std::ssize(scores) < count)
    throw std::runtime_error(fmt::format("{}: it has {}, but there are {}", path.string(),
                                         counted(std::ssize(scores), "line"),
                                         counted(count, of_what)));
  return scores;
}

}  // namespace weft
