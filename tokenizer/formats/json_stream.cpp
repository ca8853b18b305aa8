#include "tokenizer/formats/json_stream.h"

#include <stdexcept>

namespace weft {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxTreeValues = size_t{1} << 20;  // XLM-RoBERTa's tokenizer.json has 750,000

// The interface is that of nlohmann::json_sax.
class JsonStream {
 public:
  JsonStream(const NamedBytes& file, const std::vector<JsonList>& lists)
      : file_(file), lists_(lists) {}

  json take_tree() { return std::move(tree_); }

  bool null() { return value(nullptr); }
  bool boolean(bool val) { return value(val); }
  bool number_float(double val, const std::string&) { return value(val); }
  bool number_integer(int64_t val) {
    if (sink_ == nullptr) return value(val);
    sink_->on_integer(val);
    return true;
  }
  bool number_unsigned(uint64_t val) {
    if (sink_ == nullptr) return value(val);
    sink_->on_integer(val > INT64_MAX ? INT64_MAX : static_cast<int64_t>(val));
    return true;
  }
  bool string(std::string& val) {
    if (sink_ == nullptr) return value(std::move(val));
    sink_->on_string(val);
    return true;
  }
  bool binary(json::binary_t&) { return value(nullptr); }
  bool key(std::string& val) {
    if (sink_ != nullptr) {
      sink_->on_key(val);
    } else {
      key_ = std::move(val);
    }
    return true;
  }
  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string&, const json::exception& error) {
    fail(std::string("not JSON: ") + error.what());
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(file_.name + ": " + why);
  }

  json* add_to_tree(json val) {
    if (++num_tree_values_ > kMaxTreeValues) fail("it has a million values that no tokenizer has");
    if (open_.empty()) return &(tree_ = std::move(val));
    json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(val));
    const auto [place, is_new] = parent.emplace(key_, std::move(val));
    if (!is_new) fail("the key '" + path_of(key_) + "' stands in it twice");
    return &*place;
  }
  bool value(json val) {
    if (sink_ != nullptr) {
      sink_->on_other();
    } else {
      add_to_tree(std::move(val));
    }
    return true;
  }
  bool open(json container) {
    if (keys_.size() + sink_depth_ == kMaxDepth) fail("it is nested more than 64 deep");
    if (sink_ != nullptr) {
      ++sink_depth_;
      sink_->on_open(container.is_array());
      return true;
    }
    const bool is_in_object = !open_.empty() && open_.back()->is_object();
    const bool is_list = container.is_array();
    open_.push_back(add_to_tree(std::move(container)));
    keys_.push_back(is_in_object ? key_ : "");
    const std::string path = path_of("");
    for (const JsonList& list : lists_) {
      if (path == list.path && is_list == list.is_list) sink_ = list.sink;
    }
    return true;
  }
  bool close() {
    if (sink_depth_ > 0) {
      --sink_depth_;
      sink_->on_close();
      return true;
    }
    sink_ = nullptr;
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  // Names joined by points, the root's left out; "" for a last part that is the open container.
  std::string path_of(const std::string& last) const {
    std::string path;
    for (size_t i = 1; i < keys_.size(); ++i) path += (i > 1 ? "." : "") + keys_[i];
    return last.empty() ? path : path + (path.empty() ? "" : ".") + last;
  }

  const NamedBytes& file_;
  const std::vector<JsonList>& lists_;
  json tree_;
  std::vector<json*> open_;        // containers of the tree, from the root to the current one
  std::vector<std::string> keys_;  // their names
  std::string key_;                // of the value that comes next
  size_t num_tree_values_ = 0;
  JsonSink* sink_ = nullptr;  // of the innermost open container, if it is a list to hand on
  size_t sink_depth_ = 0;     // containers that are open inside of it
};

// Ends parsing at the first key.
struct FirstKey {
  bool null() { return false; }
  bool boolean(bool) { return false; }
  bool number_float(double, const std::string&) { return false; }
  bool number_integer(int64_t) { return false; }
  bool number_unsigned(uint64_t) { return false; }
  bool string(std::string&) { return false; }
  bool binary(json::binary_t&) { return false; }
  bool start_object(size_t) { return true; }
  bool start_array(size_t) { return true; }
  bool end_object() { return false; }
  bool end_array() { return false; }
  bool parse_error(size_t, const std::string&, const json::exception&) { return false; }
  bool key(std::string& val) {
    first = std::move(val);
    return false;
  }
  std::string first = {};
};

}  // namespace

json parse_json_stream(const NamedBytes& file, const std::vector<JsonList>& lists) {
  JsonStream stream(file, lists);
  json::sax_parse(file.bytes.begin(), file.bytes.end(), &stream);
  return stream.take_tree();
}

std::string first_json_key(std::string_view bytes) {
  FirstKey key;
  json::sax_parse(bytes.begin(), bytes.end(), &key);
  return key.first;
}

}  // namespace weft
