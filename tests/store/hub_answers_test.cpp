// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_answers.hpp"

#include "base/error.hpp"
#include "store/hub/hub_location.hpp"

#include <doctest/doctest.h>
#include <string>

namespace wdelta {

namespace {

const std::string k_hash(64, 'a');

std::string entry(const std::string& members) { return R"([{"type":"file",)" + members + "}]"; }

template <typename Call>
Fault fault_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.fault();
  }
  FAIL("nothing was thrown");
  return Fault::internal;
}

}  // namespace

TEST_CASE("a place in a bucket is taken apart as the Hub's own clients do") {
  const auto parse = [](const std::string& path) { return HubLocation::parse(path, "hf://" + path); };
  CHECK(parse("buckets/me/run").bucket == "me/run");
  CHECK(parse("buckets/me/run").prefix.empty());
  CHECK(parse("buckets/me/run/").prefix.empty());
  CHECK(parse("buckets/my-org/run_1.x/a/b").bucket == "my-org/run_1.x");
  CHECK(parse("buckets/my-org/run_1.x/a/b").prefix == "a/b/");
  CHECK(parse("buckets/me/run/a/").prefix == "a/");
  for (const char* wrong : {"",
                            "buckets",
                            "buckets/",
                            "buckets/me",
                            "buckets/me/",
                            "bucket/me/run",
                            "me/run",
                            "buckets//run",
                            "buckets/me//a",
                            "buckets/me/run//a",
                            "buckets/me/run/../a",
                            "buckets/me/run/./a",
                            "buckets/me/run/a\\b",
                            "buckets/-me/run",
                            "buckets/me/run-",
                            "buckets/me/.run",
                            "buckets/m--e/run",
                            "buckets/me/ru..n",
                            "buckets/me/run.git",
                            "buckets/me/r un",
                            "buckets/me/rün"}) {
    CAPTURE(wrong);
    CHECK(fault_of([&] { parse(wrong); }) == Fault::usage);
  }
  CHECK(fault_of([&] { parse("buckets/me/" + std::string(94, 'x')); }) == Fault::usage);
  CHECK(parse("buckets/me/" + std::string(93, 'x')).bucket.size() == 96);
}

TEST_CASE("files of a listing are read with their times to the millisecond") {
  const auto files = hub_files_from(R"([{"type":"directory","path":"a","uploadedAt":"2026-11-21T06:15:00.000Z"},)"
                                    R"({"type":"file","path":"a/b","size":12,"xetHash":")" +
                                        k_hash + R"(","mtime":null,"uploadedAt":"2026-11-21T06:15:00.123Z"},)" +
                                        R"({"type":"file","path":"c","size":0,"xetHash":")" + k_hash +
                                        R"(","uploadedAt":"2026-11-21T06:15:00Z"}])",
                                    "list");
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "a/b");
  CHECK(files[0].size_bytes == 12);
  CHECK(files[0].uploaded_ms - files[1].uploaded_ms == 123);
  CHECK(files[1].uploaded_ms == 1795241700000);
}

TEST_CASE("an answer that is none of the Hub's is the network's fault") {
  const std::string whole =
      entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00.123Z")");
  CHECK(hub_files_from(whole, "list").size() == 1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(fault_of([&] { hub_files_from(whole.substr(0, size), "list"); }) == Fault::network);
  }
  for (const std::string& wrong :
       {std::string("{}"), std::string("[1]"), entry(R"("path":"a")"),
        entry(R"("path":"a","size":-1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00.123Z")"),
        entry(R"("path":"a","size":1,"xetHash":"no","uploadedAt":"2026-11-21T06:15:00.123Z")"),
        entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"yesterday")"),
        entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00x123Z")")}) {
    CAPTURE(wrong);
    CHECK(fault_of([&] { hub_files_from(wrong, "list"); }) == Fault::network);
  }
  CHECK(fault_of([] { hub_batch_answer_from("<html>", "batch"); }) == Fault::network);
  CHECK(fault_of([] { xet_token_from(R"({"accessToken":"a\nb","casUrl":"https://x","exp":1})", "token"); }) ==
        Fault::network);
}

TEST_CASE("of the next page's URL only the cursor is taken") {
  CHECK(next_cursor(R"(<https://evil.example/api?limit=5&cursor=eyJ%3D&x=1>; rel="next")") == "eyJ%3D");
  CHECK(next_cursor(R"(<https://h/a?cursor=one>; rel="prev", <https://h/a?cursor=two>; rel="next")") == "two");
  CHECK_FALSE(next_cursor(""));
  CHECK_FALSE(next_cursor(R"(<https://h/a?cursor=one>; rel="prev")"));
  CHECK_FALSE(next_cursor(R"(<https://h/a?limit=1>; rel="next")"));
  CHECK_FALSE(next_cursor(R"(<https://h/a?cursor=one)"));
}

TEST_CASE("success is what a batch's answer says of every line, and a shard's last event") {
  const HubBatchAnswer answer = hub_batch_answer_from(
      R"({"success":false,"processed":2,"succeeded":1,"failed":[{"path":"a","error":"no such xet file"}]})", "batch");
  CHECK_FALSE(answer.success);
  CHECK(answer.succeeded == 1);
  REQUIRE(answer.failed.size() == 1);
  CHECK(answer.failed[0].reason == "no such xet file");

  CHECK(xet_shard_answer_from(R"({"result":0})", "shard").accepted);
  CHECK(xet_shard_answer_from(
            "{\"type\":\"validating\",\"verified\":1,\"total\":2}\n\n{\"type\":\"result\",\"result\":1}\n", "shard")
            .accepted);
  const XetShardAnswer refused = xet_shard_answer_from(
      "{\"type\":\"committing\",\"stage\":\"uploading\"}\n{\"type\":\"error\",\"message\":\"xorb "
      "missing\",\"retryable\":true}",
      "shard");
  CHECK_FALSE(refused.accepted);
  CHECK(refused.retryable);
  CHECK(refused.message == "xorb missing");
  // A stream that broke off says nothing.
  CHECK_FALSE(xet_shard_answer_from("{\"type\":\"validating\",\"verified\":1,\"total\":2}\n", "shard").accepted);
  CHECK_FALSE(xet_shard_answer_from("", "shard").accepted);
}

TEST_CASE("what a service says of an error is shown in one line") {
  CHECK(hub_error_text(R"({"error":"Repository not found"})") == "Repository not found");
  CHECK(hub_error_text(R"({"error":["first","second"]})") == "first");
  CHECK(hub_error_text("{\"error\":\"a\\nb\\u0007\"}") == "a b ");
  CHECK(hub_error_text("<html>").empty());
  CHECK(hub_error_text(R"({"error":")" + std::string(5000, 'x') + "\"}").size() == 300);
}

}  // namespace wdelta
