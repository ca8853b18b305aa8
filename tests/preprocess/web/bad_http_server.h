// bad_http_server.py for tests in C++.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace weft {

// Serves one file until its end.
class BadHttpServer {
 public:
  static bool can_run() { return std::system("command -v python3 >/dev/null") == 0; }

  // Works in `folder`, and serves `content` there; random bytes without it.
  explicit BadHttpServer(const std::filesystem::path& folder, const std::string& content = "")
      : folder_(folder) {
    const char* source = std::getenv("WEFT_SOURCE_DIR");
    if (source == nullptr) throw std::runtime_error("WEFT_SOURCE_DIR is not set");
    const std::string command = "cd '" + folder.string() + "' && : >port && exec env " +
                                (content.empty() ? "" : "CONTENT='" + content + "' ") +
                                "python3 '" + source +
                                "/tests/preprocess/web/bad_http_server.py' whole >port 2>requests";
    const char* arguments[] = {"sh", "-c", command.c_str(), nullptr};
    if (posix_spawn(&server_, "/bin/sh", nullptr, nullptr, const_cast<char* const*>(arguments),
                    environ) != 0) {
      throw std::runtime_error("cannot start a server");
    }
    std::string port;
    for (int i = 0; i < 1200 && !port.ends_with('\n'); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      port = content_of("port");
    }
    if (!port.ends_with('\n')) throw std::runtime_error("the server does not start");
    at_ = "http://127.0.0.1:" + port.substr(0, port.size() - 1) + "/";
  }
  BadHttpServer(const BadHttpServer&) = delete;
  ~BadHttpServer() {
    if (server_ <= 0) return;
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }

  std::string url(const std::string& path) const { return at_ + path; }
  std::string whole() const { return content_of("whole"); }
  // A line for each answer: PATH RANGE IF-RANGE AUTHORIZATION NUM_BODY_BYTES.
  std::string requests() const { return content_of("requests"); }

 private:
  std::string content_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  pid_t server_ = -1;
  std::string at_;
};

}  // namespace weft
