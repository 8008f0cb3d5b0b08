// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_answers.hpp"

#include "base/error.hpp"
#include "store/http/http.hpp"
#include "store/hub/etag_hash.hpp"
#include "store/hub/hub_location.hpp"

#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

const std::string k_hash(64, 'a');

std::string entry(const std::string& members) { return R"([{"type":"file",)" + members + "}]"; }

template <typename Call>
Fault fault_in_one_line(Call call) {
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
    CHECK(fault_in_one_line([&] { parse(wrong); }) == Fault::usage);
  }
  CHECK(fault_in_one_line([&] { parse("buckets/me/" + std::string(94, 'x')); }) == Fault::usage);
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
  CHECK(*files[0].uploaded_ms - *files[1].uploaded_ms == 123);
  CHECK(files[1].uploaded_ms == 1795241700000);
  // The Hub's own client takes files of which no time is told.
  const auto untimed =
      hub_files_from(entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":null)"), "list");
  REQUIRE(untimed.size() == 1);
  CHECK_FALSE(untimed[0].uploaded_ms);
}

TEST_CASE("an answer that is none of the Hub's is the network's fault") {
  const std::string whole =
      entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00.123Z")");
  CHECK(hub_files_from(whole, "list").size() == 1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(fault_in_one_line([&] { hub_files_from(whole.substr(0, size), "list"); }) == Fault::network);
  }
  for (const std::string& wrong :
       {std::string("{}"), std::string("[1]"), entry(R"("path":"a")"),
        entry(R"("path":"a","size":-1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00.123Z")"),
        entry(R"("path":"a","size":1,"xetHash":"no","uploadedAt":"2026-11-21T06:15:00.123Z")"),
        entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"yesterday")"),
        entry(R"("path":"a","size":1,"xetHash":")" + k_hash + R"(","uploadedAt":"2026-11-21T06:15:00x123Z")")}) {
    CAPTURE(wrong);
    CHECK(fault_in_one_line([&] { hub_files_from(wrong, "list"); }) == Fault::network);
  }
  CHECK(fault_in_one_line([] { hub_batch_answer_from("<html>", "batch"); }) == Fault::network);
  CHECK(fault_in_one_line([] { xet_token_from(R"({"accessToken":"a\nb","casUrl":"https://x","exp":1})", "token"); }) ==
        Fault::network);
}

TEST_CASE("a model is named as the Hub's own clients name it") {
  const auto parse = [](const std::string& text) { return ModelRevision::parse(text); };
  CHECK(parse("hf://org/model").model == "org/model");
  CHECK(parse("hf://org/model").revision == "main");
  CHECK(parse("hf://models/org/model").model == "org/model");
  CHECK(parse("hf://org/model/").model == "org/model");
  CHECK(parse("hf://org/mo.d_el-1@v1.0").revision == "v1.0");
  CHECK(parse("hf://org/model@refs/pr/1").revision == "refs/pr/1");
  for (const std::string& wrong :
       {std::string("org/model"), std::string("hf://"), std::string("hf://model"), std::string("hf:///model"),
        std::string("hf://org/"), std::string("hf://buckets/org/name"), std::string("hf://datasets/org/name"),
        std::string("hf://org/model@"), std::string("hf://org/model@a b"), std::string("hf://org/model@a\nb"),
        std::string("hf://org/model@\xc3\xbc"), std::string("hf://org/../model"), std::string("hf://-org/model"),
        std::string("hf://org/model.git"), "hf://org/model@" + std::string(201, 'x')}) {
    CAPTURE(wrong);
    CHECK(fault_in_one_line([&] { parse(wrong); }) == Fault::usage);
  }
}

TEST_CASE("files of a model are known by the SHA-256 of large ones and by git's id of all others") {
  const std::string sha256(64, 'b');
  const std::string blob(40, 'c');
  const std::string whole = R"([{"type":"directory","path":"a","oid":")" + blob + R"(","size":0},)" +
                            R"({"type":"file","path":"a/b","size":12,"oid":")" + blob + R"("},)" +
                            R"({"type":"file","path":"c","size":130,"oid":")" + blob + R"(","lfs":{"oid":")" + sha256 +
                            R"(","size":99,"pointerSize":130},"xetHash":")" + k_hash + R"("},)" +
                            R"({"type":"file","path":"d","size":9,"oid":")" + blob + R"(","lfs":{"oid":")" + sha256 +
                            R"(","size":9,"pointerSize":130}}])";
  const std::vector<ModelFile> files = model_files_from(whole, "tree");
  REQUIRE(files.size() == 3);
  CHECK(files[0] == ModelFile{"a/b", 12, blob, ""});
  CHECK(files[1] == ModelFile{"c", 99, sha256, k_hash});
  CHECK(files[2] == ModelFile{"d", 9, sha256, ""});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(fault_in_one_line([&] { model_files_from(whole.substr(0, size), "tree"); }) == Fault::network);
  }
  for (const std::string& wrong : {
           std::string("{}"),
           entry(R"("path":"a","size":1)"),
           entry(R"("path":"a","size":1,"oid":"x")"),
           entry(R"("path":"a","size":1,"oid":")" + sha256 + "\""),
           entry(R"("path":"a","size":1,"oid":")" + blob + R"(","lfs":{"oid":")" + blob + R"(","size":1})"),
           entry(R"("path":"a","size":1,"oid":")" + blob + R"(","lfs":7)"),
           entry(R"("path":"a","size":1,"oid":")" + blob + R"(","lfs":{"oid":")" + sha256 +
                 R"(","size":1},"xetHash":"no")"),
       }) {
    CAPTURE(wrong);
    CHECK(fault_in_one_line([&] { model_files_from(wrong, "tree"); }) == Fault::network);
  }
}

TEST_CASE("a revision of a model stands for a commit") {
  const std::string commit(40, 'd');
  const auto answer = [&](const std::string& id, const std::string& sha, const std::string& time) {
    return R"({"id":")" + id + R"(","sha":")" + sha + R"(","lastModified":)" + time + "}";
  };
  const auto found = model_revision_from(answer("org/model", commit, R"("2024-05-01T12:00:00.000Z")"), "model");
  CHECK(found.model == "org/model");
  CHECK(found.commit == commit);
  CHECK(found.time == "2024-05-01T12:00:00Z");
  CHECK(model_revision_from(answer("org/model", commit, R"("yesterday")"), "model").time.empty());
  CHECK(model_revision_from(answer("org/model", commit, "null"), "model").time.empty());
  for (const auto& [model, revision] : {std::pair<std::string, std::string>("model", commit),
                                        {"../model", commit},
                                        {"org/model/x", commit},
                                        {"org/mo\u000adel", commit},
                                        {"org/model", "main"},
                                        {"org/model", commit + "d"},
                                        {"org/model", std::string(64, 'd')}}) {
    const std::string id = model, sha = revision;  // clang 14 captures no bindings
    CAPTURE(id);
    CAPTURE(sha);
    CHECK(fault_in_one_line([&] { model_revision_from(answer(id, sha, "null"), "model"); }) == Fault::network);
  }
}

TEST_CASE("an etag is made as git and as the Hub make it") {
  const auto etag = [](const std::string& text, std::size_t digits) {
    const auto hash = make_etag_hash({"", text.size(), std::string(digits, '0'), ""});
    const std::size_t half = text.size() / 2;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    hash->update({bytes, half});
    hash->update({bytes + half, text.size() - half});
    return hash->finish();
  };
  CHECK(etag("", 40) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  CHECK(etag("{}", 40) == "9e26dfeeb6e641a33dae4961196235bdb965b21b");
  CHECK(etag("abc", 64) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("of the next page's URL only the cursor is taken") {
  const auto cursor = [](const char* link) { return next_cursor(link, "list"); };
  CHECK(cursor(R"(<https://evil.example/api?limit=5&cursor=eyJ%3D&x=1>; rel="next")") == "eyJ%3D");
  CHECK(cursor(R"(<https://h/a?cursor=one>; rel="prev", <https://h/a?cursor=two>; rel="next")") == "two");
  CHECK(cursor(R"(<https://h/a?cursor=one>; rel=next)") == "one");
  CHECK(cursor(R"(<https://h/a?cursor=one>; title="a"; REL="last Next", <https://h/b>; rel=first)") == "one");
  CHECK_FALSE(cursor(""));
  CHECK_FALSE(cursor(R"(<https://h/a?cursor=one>; rel="prev")"));
  CHECK_FALSE(cursor(R"(<https://h/a?cursor=one>; rel="nextcloud")"));
  const HttpResponse two{
      200, {{"Link", "<https://h/a?cursor=one>; rel=next"}, {"link", "<https://h/b>; rel=help"}}, ""};
  CHECK(next_cursor(two.all_values("link"), "list") == "one");
  // What follows is not shown, and must not be taken for what is not there.
  for (const char* link :
       {R"(<https://h/a?limit=1>; rel="next")", R"(<https://h/a?page=2>; rel=next)", R"(<https://h/a?cursor=one)"})
    CHECK(fault_in_one_line([&] { cursor(link); }) == Fault::network);
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
