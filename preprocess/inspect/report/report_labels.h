// Puts the numbers of the data report into words, and its verdict into one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/inspect/report/data_report.h"

namespace weft {

// Returns the first `num_characters` of UTF-8 `text`, with "..." for the rest. Invalid bytes stay.
std::string first_characters(std::string_view text, size_t num_characters);

// Lists the kinds of things that look wrong, worst first:
//   documents that repeat themselves: kRepetitiveCharacters or kRepetitiveTokens (any number)
//   exact duplicates: kSuspiciousShare of the documents could be left out
//   bad lines: any
//   empty documents: kSuspiciousShare of the documents
//   documents without the token that ends others: any; documents that hold it inside: any
std::vector<std::string> findings_of(const DataReport& report);
// "nothing suspicious", or "2 kinds of findings: ...; ...".
std::string verdict_of(const DataReport& report);

}  // namespace weft
