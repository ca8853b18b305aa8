// Prints what the commands of weft-data inspect find. A record is one JSON object, the only place
// where the facts of an answer stand: programs get it as a line, people get the texts that a layout
// makes of it, on a terminal or on a page.
//
// A layout is a text with names of members in braces:
//
//   {name}          a text, escaped for its place; an integer; integers with spaces between them
//   {name:.4g}      a number as fmt prints it
//   {name,}         1,234,567
//   {name%}         a share: 29.3 %
//   {name#sample}   1 sample, 7 samples
//   {name"}         a text in quotes, which it cannot end itself
//   {name|}         a text whose lines are lines of a page, too
//   {name!}         nothing; but the member must be there
//   [[...]]         is left out if a member that it names is missing or null
//   [[@name:...]]   is repeated for each entry of a list; {} is the entry, and names mean its members
//                   before those of the record
//
// Members whose names begin with ~ are words for people, and no program gets them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "indexed_dataset/base/terminal/option_set.h"

namespace weft {

using Record = nlohmann::ordered_json;

enum class Format { kText, kJsonl, kHtml };
// Declares --format: text and jsonl, and html for commands that make a page.
void declare_format(OptionSet& options, Format& format, bool has_page = false);

struct Layout {
  std::string_view text, html = {};
};
// Prints the record on standard output. Bytes that are no UTF-8 become U+FFFD in JSON. On a
// terminal all of JSON but ASCII is escaped, as it obeys controls beyond ASCII, too.
void print_record(Format format, Record record, const Layout& layout);

// Returns the text of a layout; texts are escaped for a terminal, or for HTML.
std::string filled(std::string_view layout, const Record& record, bool is_html = false);

}  // namespace weft
