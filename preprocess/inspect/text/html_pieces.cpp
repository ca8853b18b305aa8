#include "preprocess/inspect/text/html_pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::string escaped(std::string_view text) { return escaped_visible(escape_for_terminal(text)); }

std::string escaped_visible(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string html_head(const std::string& title, std::string_view style,
                      std::string_view generator) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta name=\"generator\" content=\"{}\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
      sha256_base64(style), generator, title, style);
}

HtmlTable::HtmlTable(const std::vector<Column>& columns) : columns_(columns) {
  for (const auto& [css_class, title] : columns)
    head_ += fmt::format("<th class=\"{}\">{}</th>", css_class, title);
}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    rows_ += fmt::format("<td class=\"{}\">{}</td>", columns_.at(i).css_class, cells[i]);
  rows_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  if (rows_.empty()) return "<p>None.</p>\n";
  return "<div class=\"w\"><table>\n<tr>" + head_ + "</tr>\n" + rows_ + "</table></div>\n";
}

std::string facts_table(const Facts& facts, const std::string& table_class,
                        const std::string& value_class) {
  std::string rows;
  for (const auto& [name, value] : facts) {
    rows += fmt::format("<tr><th>{}</th><td class=\"{}\">{}</td></tr>\n", escaped(name),
                        value_class, escaped(value));
  }
  return fmt::format("<div class=\"w\"><table class=\"{}\">\n{}</table></div>\n", table_class,
                     rows);
}

std::string bar(double share, const std::string& css_class) {
  return fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 100 9\" preserveAspectRatio=\"none\" width=\"100%\" height=\"9\" "
      "role=\"img\"><rect width=\"{:.1f}\" height=\"9\"/></svg>",
      css_class, share > 0 ? std::max(100 * share, 0.4) : 0);
}

}  // namespace weft
