// Problems of one kind with one file, the first few in words. Internal to this folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// Damage often repeats for every following entry; the first few positions tell where it starts.
inline constexpr int kMaxProblemsOfAKind = 5;

class ProblemList {
 public:
  explicit ProblemList(std::filesystem::path path) : path_(std::move(path)) {}
  // `describe` makes the text; it is not called for problems beyond the first few.
  template <typename Describe>
  void add(Describe describe) {
    if (++count_ <= kMaxProblemsOfAKind) problems_.push_back(path_.string() + ": " + describe());
  }
  // Problems that were only counted.
  void add_unnamed(int64_t count) { count_ += count; }
  void move_to(std::vector<std::string>& all) {
    const auto num_unnamed = count_ - static_cast<int64_t>(problems_.size());
    if (num_unnamed > 0) {
      problems_.push_back(path_.string() + ": and " + std::to_string(num_unnamed) +
                          " more problems of this kind");
    }
    all.insert(all.end(), problems_.begin(), problems_.end());
  }

 private:
  std::filesystem::path path_;
  std::vector<std::string> problems_;
  int64_t count_ = 0;
};

}  // namespace weft
