// Builds pieces of HTML that know nothing of the page that they are for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// Makes corpus text visible (control characters, invalid bytes, text that turns its direction) and
// then harmless in HTML, also within attributes.
std::string escaped(std::string_view text);
// Makes text harmless in HTML that is safe to show already.
std::string escaped_visible(std::string_view text);

// A page up to its body: one file, no script, nothing loaded from elsewhere, which its content
// security policy says, too. The title and the generator are HTML.
std::string html_head(const std::string& title, std::string_view style, std::string_view generator);

struct Column {
  const char* css_class;  // of its cells and its title
  std::string title;
};
// A table that can be scrolled sideways. Cells and titles are HTML.
class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<Column>& columns);
  void add_row(const std::vector<std::string>& cells);  // one for each column
  // A paragraph that says so if there are no rows.
  std::string html() const;

 private:
  std::vector<Column> columns_;
  std::string head_, rows_;
};

// A table of names with their values, which are escaped here.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string facts_table(const Facts& facts, const std::string& table_class = "",
                        const std::string& value_class = "n");

// A horizontal bar that fills `share` of the width of its cell.
std::string bar(double share, const std::string& css_class = "");

}  // namespace weft
