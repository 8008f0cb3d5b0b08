// SPDX-License-Identifier: Apache-2.0
// An HTTP server for tests of the client: says whatever a test wants it to, as bytes.
#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace wdelta::testing {

/// A request as it came in: everything before the empty line, and the body.
struct ReceivedRequest {
  std::string head;
  std::string body;

  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class TinyServer {
 public:
  /// What to send, byte by byte, for a request. An answer that ends with "!close" (left out) ends the connection; one
  /// that ends with "!stall" leaves it open and says no more.
  using Answer = std::function<std::string(const ReceivedRequest&)>;

  explicit TinyServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no socket to listen on");
    }
    port_ = ntohs(address.sin_port);
    accepting_ = std::jthread([this] { accept_all(); });
  }
  ~TinyServer() {
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int each : sockets_) ::shutdown(each, SHUT_RDWR);
    }
    serving_.clear();
    for (const int each : sockets_) ::close(each);
  }

  std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + std::string(path);
  }
  std::vector<ReceivedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  static std::string reply(std::string_view status, std::string_view body, std::string_view headers = "") {
    return "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(headers) + "\r\n" + std::string(body);
  }

 private:
  void accept_all() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      serving_.emplace_back([this, socket] { serve(socket); });
    }
  }

  void serve(int socket) {
    std::string received;
    for (;;) {
      std::size_t end = 0;
      while ((end = received.find("\r\n\r\n")) == std::string::npos) {
        if (!receive(socket, received)) return;
      }
      ReceivedRequest request{received.substr(0, end + 2), ""};
      const std::size_t length_at = request.head.find("Content-Length: ");
      const std::size_t length = length_at == std::string::npos ? 0 : std::stoul(request.head.substr(length_at + 16));
      while (received.size() < end + 4 + length) {
        if (!receive(socket, received)) return;
      }
      request.body = received.substr(end + 4, length);
      received.erase(0, end + 4 + length);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      std::string answer = answer_(request);
      const bool close = cut_off(answer, "!close");
      const bool stall = cut_off(answer, "!stall");
      for (std::size_t sent = 0; sent < answer.size();) {
        const ssize_t count = ::send(socket, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) return;
        sent += static_cast<std::size_t>(count);
      }
      if (close) {
        ::shutdown(socket, SHUT_RDWR);
        return;
      }
      if (stall) {
        while (receive(socket, received)) {
        }
        return;
      }
    }
  }

  static bool receive(int socket, std::string& into) {
    char piece[65536];
    const ssize_t count = ::recv(socket, piece, sizeof piece, 0);
    if (count <= 0) return false;
    into.append(piece, static_cast<std::size_t>(count));
    return true;
  }
  static bool cut_off(std::string& text, std::string_view end) {
    if (!text.ends_with(end)) return false;
    text.resize(text.size() - end.size());
    return true;
  }

  Answer answer_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<ReceivedRequest> requests_;
  std::vector<int> sockets_;
  std::list<std::jthread> serving_;
  std::jthread accepting_;
};

}  // namespace wdelta::testing
