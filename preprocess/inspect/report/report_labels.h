// Puts the numbers of the data report into words, and its verdict into one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/inspect/report/data_report.h"

namespace weft {

// Makes the beginning of a text visible, on one line of at most `max_characters` and what its runs
// need: a run of equal characters is written once ("a × 20,001"), and leading spaces and other
// characters without ink by name ("\t", "\u{200B}"; U+2423 is a space). The result is safe to show.
std::string visible_beginning(const Beginning& beginning, size_t max_characters);

// Returns the first `num_characters` of UTF-8 `text`, with "..." for the rest. Invalid bytes stay.
std::string first_characters(std::string_view text, size_t num_characters);

// Lists the kinds of things that look wrong, worst first, each with its share and what can be done:
//   documents that repeat themselves: kRepetitiveCharacters or kRepetitiveTokens (any number)
//   exact duplicates: kSuspiciousShare of the documents could be left out
//   bad lines: any
//   empty documents: kSuspiciousShare of the documents
//   documents without the token that ends others: any; documents that hold it inside: any
std::vector<std::string> findings_of(const DataReport& report);
// "nothing suspicious", "1 finding" or "2 findings".
std::string verdict_of(const DataReport& report);

}  // namespace weft
