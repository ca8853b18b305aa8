#include "preprocess/inspect/text/html_pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : escape_for_terminal(text)) {
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

std::string bar_chart(const std::vector<Bar>& bars) {
  constexpr int kLabelWidth = 190, kBarWidth = 420, kRowHeight = 18;
  int64_t largest = 1;
  for (const Bar& bar : bars) largest = std::max(largest, bar.value);
  if (bars.empty()) return "<p>None.</p>\n";
  std::string svg = fmt::format(
      "<div class=\"w\"><svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\">\n",
      kLabelWidth + kBarWidth + 120, kRowHeight * bars.size() + 4, kLabelWidth + kBarWidth + 120);
  int y = 2;
  for (const Bar& bar : bars) {
    const double width =
        std::max(bar.value > 0 ? 1.0 : 0.0,
                 kBarWidth * static_cast<double>(bar.value) / static_cast<double>(largest));
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        kLabelWidth - 6, y + 12, escaped(bar.label), kLabelWidth, y, width, kRowHeight - 4,
        kLabelWidth + width + 6, y + 12, grouped(bar.value));
    y += kRowHeight;
  }
  return svg + "</svg></div>\n";
}

}  // namespace weft
