#include "preprocess/inspect/commands/record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/text/html_pieces.h"

namespace weft {
namespace {

// The lines of a text as lines of a page.
std::string escaped_lines(std::string_view text) {
  std::string html;
  while (true) {
    const size_t end = text.find('\n');
    html += escaped(text.substr(0, end));
    if (end == std::string_view::npos) return html;
    html += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string in_quotes(const std::string& escaped_text) {
  std::string quoted = "\"";
  for (const char c : escaped_text) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

class LayoutFiller {
 public:
  explicit LayoutFiller(bool is_html) : is_html_(is_html) {}

  // Appends the text of a layout. Returns false if a member that it names is missing.
  bool append(std::string_view layout, std::string& out) {
    bool is_whole = true;
    while (!layout.empty()) {
      if (layout.starts_with("[[")) {
        const std::string_view part = layout.substr(2, end_of_part(layout) - 4);
        layout.remove_prefix(part.size() + 4);
        append_part(part, out);
      } else if (layout.starts_with('{')) {
        const size_t end = layout.find('}');
        is_whole &= append_member(layout.substr(1, end - 1), out);
        layout.remove_prefix(end + 1);
      } else {
        const size_t end = std::min(layout.find_first_of("[{", 1), layout.size());
        out += layout.substr(0, end);
        layout.remove_prefix(end);
      }
    }
    return is_whole;
  }
  void enter(const Record& record) { scopes_.push_back(&record); }

 private:
  // The position behind the part with which the layout begins.
  static size_t end_of_part(std::string_view layout) {
    int depth = 0;
    for (size_t at = 0; at + 1 < layout.size(); ++at) {
      const std::string_view mark = layout.substr(at, 2);
      if (mark != "[[" && mark != "]]") continue;
      depth += mark == "[[" ? 1 : -1;
      ++at;
      if (depth == 0) return at + 1;
    }
    throw std::logic_error("a part of a layout has no end");
  }

  void append_part(std::string_view part, std::string& out) {
    if (!part.starts_with('@')) {
      std::string text;
      if (append(part, text)) out += text;
      return;
    }
    const size_t colon = part.find(':');
    const Record* list = find(part.substr(1, colon - 1));
    if (!list) return;
    for (const Record& entry : *list) {
      enter(entry);
      append(part.substr(colon + 1), out);
      scopes_.pop_back();
    }
  }

  bool append_member(std::string_view words, std::string& out) const {
    const size_t end_of_name = std::min(words.find_first_of(":,%#\"|!"), words.size());
    const Record* value = find(words.substr(0, end_of_name));
    if (!value) return false;
    const std::string_view style = words.substr(end_of_name);
    switch (style.empty() ? ' ' : style.front()) {
      case ':':
        out += fmt::format(fmt::runtime(fmt::format("{{{}}}", style)), value->get<double>());
        break;
      case ',':
        out += grouped(value->get<int64_t>());
        break;
      case '%':
        out += percent(value->get<double>());
        break;
      case '#':
        out += counted(value->get<int64_t>(), std::string(style.substr(1)));
        break;
      case '"':
        out += in_quotes(escape(value->get_ref<const std::string&>()));
        break;
      case '|':
        out += is_html_ ? escaped_lines(value->get_ref<const std::string&>())
                        : escape(value->get_ref<const std::string&>());
        break;
      case '!':
        break;
      default:
        out += plain(*value);
    }
    return true;
  }

  std::string plain(const Record& value) const {
    if (value.is_string()) return escape(value.get_ref<const std::string&>());
    if (!value.is_array()) return value.dump();
    std::string text;
    for (const Record& entry : value)
      fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ",
                     entry.get<int64_t>());
    return text;
  }
  std::string escape(const std::string& text) const {
    return is_html_ ? escaped(text) : escape_for_terminal(text);
  }

  const Record* find(std::string_view name) const {
    if (name.empty()) return scopes_.back();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = (*scope)->find(name);
      if (found != (*scope)->end()) return found->is_null() ? nullptr : &*found;
    }
    return nullptr;
  }

  const bool is_html_;
  std::vector<const Record*> scopes_;  // the record, and entries of lists in it
};

void remove_words(Record& json) {
  if (json.is_object()) {
    for (auto member = json.begin(); member != json.end();)
      member = member.key().starts_with('~') ? json.erase(member) : std::next(member);
  }
  for (Record& value : json) {
    if (value.is_object() || (value.is_array() && !value.empty() && value.front().is_structured()))
      remove_words(value);
  }
}

}  // namespace

void declare_format(OptionSet& options, Format& format, bool has_page) {
  if (!has_page) {
    options.choice("--format", format, {{"text", Format::kText}, {"jsonl", Format::kJsonl}},
                   "for people, text escaped for terminals; or one line of JSON for each");
    return;
  }
  options.choice(
      "--format", format,
      {{"text", Format::kText}, {"jsonl", Format::kJsonl}, {"html", Format::kHtml}},
      "for people, text escaped for terminals; one line of JSON for each; or one page of HTML");
}

std::string filled(std::string_view layout, const Record& record, bool is_html) {
  LayoutFiller filler(is_html);
  filler.enter(record);
  std::string text;
  filler.append(layout, text);
  return text;
}

void print_record(Format format, Record record, const Layout& layout) {
  if (format != Format::kJsonl) {
    const bool is_html = format == Format::kHtml;
    fmt::print("{}", filled(is_html ? layout.html : layout.text, record, is_html));
    return;
  }
  static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  remove_words(record);
  fmt::print("{}\n", record.dump(-1, ' ', is_terminal, Record::error_handler_t::replace));
}

}  // namespace weft
