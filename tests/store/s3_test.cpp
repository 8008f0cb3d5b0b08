// SPDX-License-Identifier: Apache-2.0
#include "store/s3/s3_answers.hpp"
#include "store/s3/s3_connection.hpp"
#include "store/s3/sigv4.hpp"
#include "store/s3/xml.hpp"
#include "testing/fault.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using testing::fault_of;

namespace {

S3Access example_access() {
  S3Access access;
  access.key_id = "AKIAIOSFODNN7EXAMPLE";
  access.secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  return access;
}

std::string signature_of(const HttpRequest& request, const std::string& payload, std::int64_t time_s) {
  HttpRequest copy = request;
  sign(copy, example_access(), payload, {time_s});
  for (const HttpHeader& header : copy.secret_headers) {
    if (header.name == "Authorization") return header.value.substr(header.value.size() - 64);
  }
  return "";
}

HttpRequest request_of(const std::string& method, const std::string& url, std::vector<HttpHeader> headers = {}) {
  HttpRequest request;
  request.method = method;
  request.url = url;
  request.headers = std::move(headers);
  return request;
}

constexpr std::int64_t k_may_2013 = 1'369'353'600;        // 2013-05-24T00:00:00Z
constexpr std::int64_t k_september_2026 = 1'788'264'000;  // 2026-09-01T12:00:00Z

}  // namespace

TEST_CASE("requests are signed as AWS's own examples are") {
  const std::string host = "https://examplebucket.s3.amazonaws.com";
  const std::string nothing = sha256_hex("");
  CHECK(signature_of(request_of("GET", host + "/test.txt", {{"Range", "bytes=0-9"}}), nothing, k_may_2013) ==
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK(signature_of(
            request_of("PUT", host + "/test%24file.text",
                       {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}),
            sha256_hex("Welcome to Amazon S3."),
            k_may_2013) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  CHECK(signature_of(request_of("GET", host + "/" + canonical_query({{"lifecycle", ""}})), nothing, k_may_2013) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(signature_of(request_of("GET", host + "/" + canonical_query({{"prefix", "J"}, {"max-keys", "2"}})), nothing,
                     k_may_2013) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("keys, tokens and conditions are signed the way a server encodes them") {
  const std::string bucket = "https://s3.hf.co/my-org/my-bucket";
  CHECK(signature_of(request_of("PUT", bucket + "/wd/refs/a%3Db%20c%2Bd",
                                {{"Content-Type", "application/octet-stream"}, {"If-None-Match", "*"}}),
                     k_unsigned_payload,
                     k_september_2026) == "2d336fe1469f68a87bdeaa29e8d8c1feead7ad370dc6c610263229fe890f1db3");
  const std::string query =
      canonical_query({{"list-type", "2"}, {"prefix", "wd/obj/"}, {"continuation-token", "a+b/c="}});
  CHECK(query == "?continuation-token=a%2Bb%2Fc%3D&list-type=2&prefix=wd%2Fobj%2F");
  CHECK(signature_of(request_of("GET", bucket + query), sha256_hex(""), k_september_2026) ==
        "495aafeb07994d9463dcaa129ebcb42e5108ef7f9dc9538ec44b7e3819561e0b");
}

TEST_CASE("without a key nothing is signed, and what is signed goes to no other host") {
  HttpRequest request = request_of("GET", "http://127.0.0.1:9000/b/k");
  sign(request, {}, sha256_hex(""), {k_may_2013});
  CHECK(request.secret_headers.empty());
  sign(request, example_access(), sha256_hex(""), {k_may_2013});
  CHECK(request.headers.empty());
  CHECK(request.secret_headers.size() == 3);
}

TEST_CASE("a bucket's URL is by host at AWS where it can be, and by path elsewhere unless asked for") {
  const auto url = [](const std::string& bucket, const std::string& endpoint, S3Addressing addressing) {
    Access access;
    access.s3.endpoint = endpoint;
    access.s3.region = "eu-west-3";
    access.s3.addressing = addressing;
    return S3Connection(bucket, access, {}).base_url();
  };
  const std::string own = "http://127.0.0.1:9000";
  CHECK(url("me", "", S3Addressing::automatic) == "https://s3.eu-west-3.amazonaws.com/me");
  CHECK(url("models", "", S3Addressing::automatic) == "https://models.s3.eu-west-3.amazonaws.com");
  CHECK(url("my.models", "", S3Addressing::automatic) == "https://s3.eu-west-3.amazonaws.com/my.models");
  CHECK(url("models", "", S3Addressing::path) == "https://s3.eu-west-3.amazonaws.com/models");
  CHECK(url("models", own, S3Addressing::automatic) == own + "/models");
  CHECK(url("models", own, S3Addressing::virtual_host) == "http://models.127.0.0.1:9000");
  CHECK(url("run", "https://s3.hf.co/me", S3Addressing::automatic) == "https://s3.hf.co/me/run");
  for (const char* bad : {"", ".", "..", "-a", "a b", "a/b", "a..b", "a?b"}) {
    CAPTURE(bad);
    CHECK(fault_of([&] { url(bad, own, S3Addressing::automatic); }) == Fault::usage);
  }
}

TEST_CASE("only the Hub's own gateway has contested entries") {
  const auto is_gateway = [](const std::string& endpoint) {
    Access access;
    access.s3.endpoint = endpoint;
    return S3Connection("run", access, {}).is_hub_gateway();
  };
  CHECK(is_gateway("https://s3.hf.co/me"));
  CHECK(is_gateway("https://s3.hf.co"));
  CHECK(is_gateway("https://s3.hf.co:443"));
  CHECK(is_gateway("https://S3.HF.co/me"));
  CHECK_FALSE(is_gateway("https://s3.hf.co:8443"));
  CHECK_FALSE(is_gateway("https://xs3.hf.co"));
  CHECK_FALSE(is_gateway("https://s3.hf.company"));
  CHECK_FALSE(is_gateway(""));
}

TEST_CASE("hashes of bodies are those of their range") {
  HttpBody body = HttpBody::of_text("xxabcxx");
  body.offset = 2;
  body.size_bytes = 3;
  CHECK(sha256_hex(body) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(md5_hex(body) == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(sha256_hex(HttpBody{}) == sha256_hex(""));
}

TEST_CASE("a list is read with its entities, prefixes, comments and whatever else stands in it") {
  const S3List list = parse_s3_list(R"(<?xml version="1.0"?>
<!-- a > b --><s3:ListBucketResult xmlns:s3="http://x/?a>b"><s3:Name>b</s3:Name><s3:IsTruncated>true</s3:IsTruncated>
 <s3:Contents a='/'><s3:Key>a&amp;b&lt;&#233;&#x1F600;<![CDATA[<x>]]></s3:Key><s3:Size>18446744073709551615</s3:Size>
 <s3:LastModified>2026-11-21T06:15:00.250Z</s3:LastModified><s3:ETag>&quot;e&quot;</s3:ETag><s3:Owner/></s3:Contents>
 <s3:Contents><s3:Key>b</s3:Key><s3:Size>0</s3:Size><s3:LastModified>2026-11-21T06:15:00Z</s3:LastModified></s3:Contents>
 <s3:NextContinuationToken>t</s3:NextContinuationToken></s3:ListBucketResult>
)",
                                    "list");
  REQUIRE(list.objects.size() == 2);
  CHECK(list.objects[0].key == "a&b<\xC3\xA9\xF0\x9F\x98\x80<x>");
  CHECK(list.objects[0].size_bytes == UINT64_MAX);
  CHECK(list.objects[0].written_ms == 1'795'241'700'250);
  CHECK(list.objects[0].etag == "\"e\"");
  CHECK(list.objects[1].written_ms == 1'795'241'700'000);
  CHECK(list.objects[1].etag.empty());
  CHECK(list.next == "t");
}

TEST_CASE("what is no list is the network's fault") {
  for (const std::string bad :
       {"", "x", "<a/>", "<ListBucketResult>", "<ListBucketResult></b>", "<ListBucketResult/><ListBucketResult/>",
        "<!DOCTYPE x [<!ENTITY e 'x'>]><ListBucketResult/>", "<ListBucketResult>&e;</ListBucketResult>",
        "<ListBucketResult>&#0;</ListBucketResult>", "<ListBucketResult>&#xD800;</ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size></Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><LastModified>soon</LastModified></Contents></ListBucketResult>",
        "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a></a></a></a></a></a></a></a></"
        "a>"
        "</a></a>"}) {
    CAPTURE(bad);
    CHECK(fault_of([&] { parse_s3_list(bad, "list"); }) == Fault::network);
  }
  CHECK(fault_of([] { parse_s3_upload_id("<InitiateMultipartUploadResult/>", "x"); }) == Fault::network);
  CHECK(fault_of([] { parse_s3_upload_id("<Error><UploadId>a</UploadId></Error>", "x"); }) == Fault::network);
  CHECK(parse_s3_upload_id("<InitiateMultipartUpload><UploadId>a</UploadId></InitiateMultipartUpload>", "x") == "a");
}

TEST_CASE("a list that is cut anywhere is refused") {
  const std::string whole =
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a&amp;b</Key><Size>1</Size>"
      "<LastModified>2026-11-21T06:15:00Z</LastModified></Contents></ListBucketResult>";
  CHECK(parse_s3_list(whole, "list").objects.size() == 1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(fault_of([&] { parse_s3_list(whole.substr(0, size), "list"); }) == Fault::network);
  }
}

TEST_CASE("a list goes on where it is said to, or where it is said how") {
  const auto next_of = [](const std::string& inside) {
    return parse_s3_list("<ListBucketResult>" + inside + "</ListBucketResult>", "list").next;
  };
  const std::string token = "<NextContinuationToken>t</NextContinuationToken>";
  for (const char* more : {"true", "TRUE", "True", "1"}) {
    CAPTURE(more);
    const std::string flag = std::string("<IsTruncated>") + more + "</IsTruncated>";
    CHECK(next_of(flag + token) == "t");
    CHECK(fault_of([&] { next_of(flag); }) == Fault::network);
  }
  CHECK(next_of(token) == "t");
  for (const char* no_more : {"false", "FALSE", "0"})
    CHECK(next_of(std::string("<IsTruncated>") + no_more + "</IsTruncated>").empty());
  CHECK(next_of("").empty());
  for (const char* bad : {"", "yes", "2", "true "})
    CHECK(fault_of([&] { next_of(std::string("<IsTruncated>") + bad + "</IsTruncated>" + token); }) == Fault::network);
  const auto part_after = [](const std::string& inside) {
    return parse_s3_parts(
               "<ListPartsResult><NextPartNumberMarker>7</NextPartNumberMarker>" + inside + "</ListPartsResult>", "x")
        .next;
  };
  CHECK(part_after("<IsTruncated>1</IsTruncated>") == "7");
  CHECK(part_after("").empty() == false);
  CHECK(part_after("<IsTruncated>false</IsTruncated>").empty());
  const S3UploadList uploads = parse_s3_uploads(
      "<ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker><Upload><Key>a</Key></Upload>"
      "</ListMultipartUploadsResult>",
      "x");
  CHECK(uploads.next_key == "k");
  CHECK_FALSE(uploads.uploads.at(0).begun_ms);
}

TEST_CASE("an object is listed with its key, its size and its time or not at all") {
  const std::string key = "<Key>a</Key>";
  const std::string size = "<Size>1</Size>";
  const std::string time = "<LastModified>2026-11-21T06:15:00Z</LastModified>";
  const auto list = [](const std::string& second) {
    return parse_s3_list(
               "<ListBucketResult><Contents><Key>0</Key><Size>1</Size><LastModified>2026-11-21T06:15:00Z"
               "</LastModified></Contents><Contents>" +
                   second + "</Contents></ListBucketResult>",
               "list")
        .objects.size();
  };
  CHECK(list(key + size + time) == 2);
  for (const std::string& lacking : {key + size, key + time, size + time})
    CHECK(fault_of([&] { list(lacking); }) == Fault::network);
}

TEST_CASE("errors are read where there are any") {
  CHECK(parse_s3_error("<Error><Code>NoSuchKey</Code><Message>no &amp; no</Message></Error>").code == "NoSuchKey");
  CHECK(parse_s3_error("<Error><Code>A</Code><Region>eu-1</Region></Error>").region == "eu-1");
  for (const char* none : {"", "<html><br></html>", "{}", "<Error>"}) CHECK(parse_s3_error(none).code.empty());
}

}  // namespace wdelta
