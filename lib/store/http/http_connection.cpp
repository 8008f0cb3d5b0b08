// SPDX-License-Identifier: Apache-2.0
#include "store/http/http_connection.hpp"

#include "base/error.hpp"
#include "store/http/http_transfer.hpp"
#include "store/http/libcurl.hpp"
#include "store/http/url.hpp"

#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <new>

namespace wdelta {

namespace {

constexpr long k_buffer_bytes = 512 << 10;  // libcurl's largest for reading

class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  ~HeaderList() { libcurl().slist_free_all(list_); }

  void add(const std::string& line) {
    curl_slist* longer = libcurl().slist_append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  void add(const HttpHeader& header) {
    // libcurl leaves out a header without a value unless it ends with ';'.
    add(header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

void set_up(CURL* easy, const HttpRequest& request, const NetworkOptions& options) {
  libcurl().easy_reset(easy);
  libcurl().easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  libcurl().easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  libcurl().easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  libcurl().easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  libcurl().easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  libcurl().easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  libcurl().easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  libcurl().easy_setopt(easy, CURLOPT_BUFFERSIZE, k_buffer_bytes);
  libcurl().easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, k_buffer_bytes);
  libcurl().easy_setopt(easy, CURLOPT_USERAGENT, options.user_agent.c_str());
  libcurl().easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout.count()));
  if (!options.certificates.empty()) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(options.certificates, ignored);
    libcurl().easy_setopt(easy, is_folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, options.certificates.c_str());
  }
  if (request.body) {
    libcurl().easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    libcurl().easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->size_bytes));
  }
  if (request.is_sent_once) libcurl().easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  if (request.method == "HEAD") {
    libcurl().easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else {
    libcurl().easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

HttpFailure failure_of(CURLcode code, const char* detail) {
  using Kind = HttpFailure::Kind;
  const std::string what = *detail != '\0' ? detail : libcurl().easy_strerror(code);
  // So OpenSSL says that what came is no TLS.
  if (code == CURLE_SSL_CONNECT_ERROR && what.find("wrong version number") != what.npos)
    return {Kind::refused, what, "the server may speak http, not https: check the endpoint"};
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {Kind::unreachable, what, "check the endpoint's name and the network"};
    case CURLE_COULDNT_CONNECT:
      return {Kind::unreachable, what, "check the endpoint, the network and the proxy variables"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {Kind::refused, what, "for certificates of your own, set SSL_CERT_FILE"};
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_READ_ERROR:
      return {Kind::broken, what, ""};
    default:
      return {Kind::refused, what, ""};
  }
}

}  // namespace

HttpConnection::HttpConnection() : multi_(libcurl().multi_init()), easy_(libcurl().easy_init()) {
  if (multi_ == nullptr || easy_ == nullptr) {
    if (easy_ != nullptr) libcurl().easy_cleanup(easy_);
    if (multi_ != nullptr) libcurl().multi_cleanup(multi_);
    throw std::bad_alloc();
  }
}

HttpConnection::~HttpConnection() {
  libcurl().easy_cleanup(easy_);
  libcurl().multi_cleanup(multi_);
}

// libcurl's own loop looks at its callbacks once a second; this one is woken by a stop at once.
CURLcode HttpConnection::run_to_end(const NetworkOptions& options, const Execution& execution, HttpTransfer& transfer) {
  const std::stop_token& stop = execution.stop;
  constexpr int k_longest_wait_ms = 500;
  const std::stop_callback wake(stop, [this] { libcurl().multi_wakeup(multi_); });
  for (;;) {
    int running = 0;
    if (libcurl().multi_perform(multi_, &running) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
    if (stop.stop_requested()) return CURLE_ABORTED_BY_CALLBACK;
    if (running == 0) break;
    // Until it is connected the other timeout counts.
    curl_off_t connected_us = 0;
    libcurl().easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    const auto now = std::chrono::steady_clock::now();
    if (connected_us == 0) transfer.last_moved = now;
    if (now - transfer.last_moved > options.stall_timeout) return CURLE_OPERATION_TIMEDOUT;
    int moved = 0;
    libcurl().multi_poll(multi_, nullptr, 0, k_longest_wait_ms, &moved);
    // Whoever is told may want to go on no longer.
    if (moved == 0 && execution.progress != nullptr) execution.progress->advance(0);
  }
  int left = 0;
  while (const CURLMsg* message = libcurl().multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) return message->data.result;
  }
  return CURLE_RECV_ERROR;
}

HttpOutcome HttpConnection::send(const HttpRequest& request, const NetworkOptions& options, RateLimit& rate_limit,
                                 const Execution& execution) {
  const std::stop_token& stop = execution.stop;
  HttpTransfer transfer(request, rate_limit, stop);
  std::array<char, CURL_ERROR_SIZE> detail{};
  HeaderList headers;
  for (const HttpHeader& header : request.headers) headers.add(header);
  for (const HttpHeader& header : request.secret_headers) headers.add(header);
  headers.add("Expect:");  // it would cost every body a round trip
  set_up(easy_, request, options);
  libcurl().easy_setopt(easy_, CURLOPT_HTTPHEADER, headers.get());
  libcurl().easy_setopt(easy_, CURLOPT_ERRORBUFFER, detail.data());
  transfer.attach(easy_);

  libcurl().multi_add_handle(multi_, easy_);
  const CURLcode code = run_to_end(options, execution, transfer);
  libcurl().multi_remove_handle(multi_, easy_);
  libcurl().easy_reset(easy_);  // it points at what ends here

  if (stop.stop_requested()) throw Error(Fault::interrupted, "", "interrupted");
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.is_text_too_long) {
    transfer.outcome.failure = {HttpFailure::Kind::refused,
                                fmt::format("answers with more than {} bytes", request.longest_text_bytes), ""};
  } else if (code == CURLE_OPERATION_TIMEDOUT && detail[0] == '\0') {
    transfer.outcome.failure = {HttpFailure::Kind::broken, "stood still for too long", "see --stall-timeout"};
  } else if (code != CURLE_OK) {
    transfer.outcome.failure = failure_of(code, detail.data());
  }
  return std::move(transfer.outcome);
}

}  // namespace wdelta
