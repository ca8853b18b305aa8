// Command lines of weft-train, and the problems that they have.
#pragma once

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/command_line/command_line.h"
#include "trainer/problems/problems.h"

namespace weft {

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

inline const std::string kGood =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 "
    "--micro-batch-size 2 --global-batch-size 8 --train-iters 10 --lr 1e-3 --data-path "
    "my_text_document ";

inline std::vector<std::string> problems_of(const std::string& line) {
  ParsedArguments parsed = parse_arguments(words(line));
  add_problems(parsed, problems_of(parsed.config));
  return parsed.problems;
}

}  // namespace weft
