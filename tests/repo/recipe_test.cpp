// SPDX-License-Identifier: Apache-2.0
#include "repo/recipe.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "engine/frame.hpp"
#include "repo/recipe_pool.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <random>
#include <set>
#include <utility>

namespace wdelta {

using testing::fault_of;

namespace {

Recipe whole(const std::string& made, std::uint64_t size) {
  return {blake3(made), size, {blake3("object of " + made).hex(), 0, size}, false, {}};
}
Recipe delta(const std::string& made, std::uint64_t length, const std::vector<std::string>& bases) {
  Recipe recipe{blake3(made), 1000, {blake3("delta to " + made).hex() + ".safetensors", 0, length}, true, {}};
  for (const std::string& base : bases) recipe.base.push_back(blake3(base));
  return recipe;
}

Recipe reference(const std::string& made, std::uint64_t size) {
  Recipe recipe{blake3(made), size, {"", 0, size}, false, {}};
  recipe.reference = ModelReference{{"org/model", std::string(40, 'c')}, made + ".safetensors", std::string(64, 'e')};
  return recipe;
}

}  // namespace

TEST_CASE("a recipe book reads back as it was written") {
  const std::vector<Recipe> book = {whole("a", 10), delta("b", 5, {"a"}), delta("c", 5, {"a", "b", "a"}),
                                    delta("from nothing", 9, {}), whole("empty", 0)};
  CHECK(book_from(to_text(RecipeBook{book, {}}), "book").recipes == book);
  CHECK(book_from(to_text(RecipeBook{{}, {}}), "book").recipes.empty());
  CHECK(book_from(to_text(RecipeBook{{}, "2026-11-21T06:15:00Z"}), "book").squashed == "2026-11-21T06:15:00Z");
}

TEST_CASE("a long book is kept as a frame, and reads back") {
  std::vector<Recipe> recipes;
  const auto kept = [&] { return bytes_of(RecipeBook{recipes, {}}); };
  while (to_text(RecipeBook{recipes, {}}).size() + 1000 < (256U << 10)) {
    for (int i = 0; i < 2; ++i) recipes.push_back(delta(std::to_string(recipes.size()), 5, {"a"}));
  }
  CHECK_FALSE(kept().is_frame);
  CHECK(kept().bytes == to_text(RecipeBook{recipes, {}}));
  for (int i = 0; i < 10; ++i) recipes.push_back(delta(std::to_string(recipes.size()), 5, {"a"}));
  const BookBytes stored = kept();
  REQUIRE(stored.is_frame);
  CHECK(stored.bytes.size() < (256U << 10) / 2);
  CHECK(stored.digest() == blake3(stored.bytes));
  CHECK(book_from(stored, "book").recipes == recipes);
  CHECK(book_from(BookBytes{to_text(RecipeBook{recipes, {}})}, "book").recipes == recipes);
  // What repeats itself too much for a frame is kept as text.
  const std::vector<Recipe> alike(100'000, whole("a", 10));
  CHECK_FALSE(bytes_of(RecipeBook{alike, {}}).is_frame);
  CHECK(book_from(bytes_of(RecipeBook{alike, {}}), "book").recipes == alike);
}

TEST_CASE("a frame that is cut, damaged, followed by bytes or holds too much is no book") {
  std::vector<Recipe> recipes;
  for (int i = 0; i < 1500; ++i) recipes.push_back(delta(std::to_string(i), 5, {std::to_string(i - 1)}));
  const BookBytes stored = bytes_of(RecipeBook{recipes, {}});
  REQUIRE(stored.is_frame);
  const auto fault_with = [&](std::string bytes) {
    return fault_of([&] { book_from(BookBytes{std::move(bytes), true}, "book"); });
  };
  for (const std::size_t length : {std::size_t{0}, std::size_t{3}, stored.bytes.size() / 2, stored.bytes.size() - 1})
    CHECK(fault_with(stored.bytes.substr(0, length)) == Fault::corrupt);
  CHECK(fault_with(stored.bytes + "x") == Fault::corrupt);
  CHECK(fault_with(to_text(RecipeBook{recipes, {}})) == Fault::corrupt);
  CHECK(fault_of([&] { book_from(BookBytes{stored.bytes, false}, "book"); }) == Fault::corrupt);
  // However little it is: there may be very many such.
  for (const std::size_t size_bytes : {std::size_t{40} << 20, std::size_t{300} << 10}) {
    const std::string blanks(size_bytes, ' ');
    std::string bomb(blanks.size(), '\0');
    bomb.resize(FrameWriter(FrameContent::bytes)
                    .write({reinterpret_cast<const std::uint8_t*>(blanks.data()), blanks.size()}, {},
                           {reinterpret_cast<std::uint8_t*>(bomb.data()), bomb.size()}));
    REQUIRE(bomb.size() > 0);
    try {
      book_from(BookBytes{bomb, true}, "book");
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.object() == "book");
      CHECK(std::string(error.what()).find(std::to_string(size_bytes) + " bytes, at most") != std::string::npos);
    }
  }
}

TEST_CASE("a pool keeps each recipe once") {
  RecipePool pool;
  const std::vector<Recipe> first = {whole("a", 10), delta("b", 5, {"a"}), reference("c", 20), whole("a", 10)};
  const std::vector<const Recipe*> kept = pool.keep(first);
  const std::vector<const Recipe*> again =
      pool.keep({delta("b", 5, {"a"}), delta("b", 6, {"a"}), delta("b", 5, {"d"}), reference("c", 20), whole("b", 5)});
  REQUIRE(kept.size() == 4);
  REQUIRE(again.size() == 5);
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(*kept[i] == first[i]);
  CHECK(kept[0] == kept[3]);
  CHECK(again[0] == kept[1]);
  CHECK(again[3] == kept[2]);
  CHECK(std::set<const Recipe*>(again.begin(), again.end()).size() == 5);
}

TEST_CASE("a book that refers to models is of a version that older readers refuse") {
  const std::vector<Recipe> book = {whole("a", 10), reference("b", 20), delta("c", 5, {"b"})};
  const std::string text = to_text(RecipeBook{book, {}});
  CHECK(book_from(text, "book").recipes == book);
  CHECK(Json::parse(text)["version"] == 2);
  CHECK(Json::parse(to_text(RecipeBook{{whole("a", 10)}, {}}))["version"] == 1);
  Json json = Json::parse(to_text(RecipeBook{{whole("a", 10)}, {}}));
  json["version"] = 2;
  CHECK(book_from(json.dump(), "book").recipes == std::vector{whole("a", 10)});
  for (const int version : {0, 3}) {
    json["version"] = version;
    CHECK(fault_of([&] { book_from(json.dump(), "book"); }) == Fault::unsupported);
  }
  // Whatever a newer version may say.
  json["version"] = 3;
  for (const Json& recipe : {Json("c"), Json{{"digest", 1}}, Json::object()}) {
    json["recipes"] = Json::array({recipe});
    CHECK(fault_of([&] { book_from(json.dump(), "book"); }) == Fault::unsupported);
  }
  // Version 1 knows only objects.
  json = Json::parse(text);
  json["version"] = 1;
  CHECK(fault_of([&] { book_from(json.dump(), "book"); }) == Fault::corrupt);
}

TEST_CASE("what a book holds besides its recipes takes no more memory than a million values do") {
  const auto with_ones = [](std::size_t count) {
    std::string ones = R"("more":[1)";
    for (std::size_t i = 1; i < count; ++i) ones += ",1";
    std::string text = to_text(RecipeBook{{whole("a", 10)}, {}});
    return fault_of([&] { book_from(text.insert(1, ones + "],"), "book"); });
  };
  CHECK(with_ones(999'999) == std::nullopt);
  CHECK(with_ones(1'000'000) == Fault::corrupt);
}

TEST_CASE("a reference with members of another form, or that leads elsewhere, is refused") {
  const auto with = [](const std::function<void(Json&)>& edit) {
    Json json = Json::parse(to_text(RecipeBook{{reference("b", 20)}, {}}));
    edit(json["recipes"][0]);
    return fault_of([&] { book_from(json.dump(), "book"); });
  };
  REQUIRE(with([](Json&) {}) == std::nullopt);
  for (const char* name : {"digest", "size", "model", "commit", "path", "etag"}) {
    CHECK(with([&](Json& recipe) { recipe.erase(name); }) == Fault::corrupt);
    CHECK(with([&](Json& recipe) { recipe[name] = Json::array(); }) == Fault::corrupt);
    CHECK(with([&](Json& recipe) { recipe[name] = ""; }) == Fault::corrupt);
    CHECK(with([&](Json& recipe) { recipe[name] = -1; }) == Fault::corrupt);
  }
  for (const char* model : {"model", "org/", "/model", "org/model/more", "../model", "org/mo?del", "org/mo del"})
    CHECK(with([&](Json& recipe) { recipe["model"] = model; }) == Fault::corrupt);
  for (const std::string& commit :
       {std::string("main"), std::string(39, 'c'), std::string(64, 'c'), std::string(40, 'C')})
    CHECK(with([&](Json& recipe) { recipe["commit"] = commit; }) == Fault::corrupt);
  for (const char* path : {"/etc/passwd", "../up", "a//b", "a/../b", "a\\b", "a\nb", ".wdelta/x"})
    CHECK(with([&](Json& recipe) { recipe["path"] = path; }) == Fault::corrupt);
  for (const std::string& etag : {std::string(63, 'e'), std::string(41, 'e'), std::string(64, 'g')})
    CHECK(with([&](Json& recipe) { recipe["etag"] = etag; }) == Fault::corrupt);
  CHECK(with([](Json& recipe) { recipe["object"] = std::string(64, 'a'); }) == Fault::corrupt);
  CHECK(with([](Json& recipe) { recipe["base"] = Json::array(); }) == Fault::corrupt);
}

TEST_CASE("of a reference and an object with the same bytes the object is taken") {
  for (const bool first : {true, false}) {
    std::vector<Recipe> book = {reference("b", 20), whole("b", 20), delta("c", 5, {"b"})};
    if (first) std::swap(book[0], book[1]);
    const RecipeGraph graph = RecipeGraph::of(book);
    CHECK(graph.is_stored_whole(blake3("b")));
    CHECK(graph.references_for(blake3("c")).empty());
    CHECK(graph.cost(blake3("c")) == 25);
    CHECK(graph.book_for({blake3("c")}, 5).size() == 3);
  }
  const RecipeGraph graph = RecipeGraph::of({reference("b", 20), delta("c", 5, {"b"})});
  CHECK_FALSE(graph.is_stored_whole(blake3("b")));
  REQUIRE(graph.references_for(blake3("c")).size() == 1);
  CHECK(graph.references_for(blake3("c"))[0].name() == "hf://org/model@" + std::string(40, 'c') + "/b.safetensors");
  CHECK(graph.cost(blake3("c")) == 25);
}

TEST_CASE("a book with members of another form, or names that are none of objects, is refused") {
  const auto with = [](const std::function<void(Json&)>& edit) {
    Json json = Json::parse(to_text(RecipeBook{{whole("a", 10), delta("b", 5, {"a"})}, {}}));
    edit(json);
    return fault_of([&] { book_from(json.dump(), "book"); });
  };
  REQUIRE(with([](Json&) {}) == std::nullopt);
  for (const char* name : {"digest", "size", "object", "offset", "length"}) {
    CHECK(with([&](Json& json) { json["recipes"][0].erase(name); }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json["recipes"][0][name] = -1; }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json["recipes"][1][name] = Json::array(); }) == Fault::corrupt);
  }
  const std::string hex(64, 'a');
  for (const std::string& object :
       {std::string(), hex.substr(1), hex + "a", hex + ".bin", std::string(64, 'A'), "../" + hex, hex + "/x",
        hex + ".safetensors.safetensors", std::string(".safetensors")}) {
    CAPTURE(object);
    CHECK(with([&](Json& json) { json["recipes"][0]["object"] = object; }) == Fault::corrupt);
    CHECK_FALSE(object_digest(object).has_value());
  }
  CHECK(with([](Json& json) { json["recipes"][0]["length"] = 9; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["recipes"][1]["base"] = "x"; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["recipes"][1]["base"][0] = 7; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["recipes"][1]["base"][0] = "x"; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["recipes"][0] = 7; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json.erase("recipes"); }) == Fault::corrupt);
  CHECK(object_digest(hex)->hex() == hex);
  CHECK(object_digest(hex + ".safetensors")->hex() == hex);
  CHECK(object_key(hex + ".safetensors") == "objects/aa/" + hex + ".safetensors");
}

TEST_CASE("of several ways the cheapest counts, all deltas and bases added up") {
  const RecipeGraph graph =
      RecipeGraph::of({whole("a", 100), whole("b", 100), delta("b", 10, {"a"}), delta("c", 10, {"b"}),
                       delta("c", 150, {}), delta("d", 1, {"a", "c"}), whole("d", 500)});
  CHECK(graph.cost(blake3("a")) == 100);
  CHECK(graph.cost(blake3("b")) == 100);
  CHECK(graph.cost(blake3("c")) == 110);
  CHECK(graph.chain_length(blake3("c")) == 1);
  CHECK(graph.cost(blake3("d")) == 211);
  CHECK(graph.chain_length(blake3("d")) == 2);
  CHECK_FALSE(graph.best(blake3("b"))->is_delta);
  std::map<Digest, const Recipe*> needed;
  graph.collect(blake3("d"), needed);
  CHECK(needed.size() == 4);
}

TEST_CASE("what several files are made of is fetched once, and each has its share of it") {
  const auto of_size = [](Recipe recipe, std::uint64_t size_bytes) {
    recipe.size_bytes = size_bytes;
    return recipe;
  };
  const auto total = [](const std::map<Digest, std::uint64_t>& shares) {
    std::uint64_t sum = 0;
    for (const auto& [digest, share] : shares) sum += share;
    return sum;
  };
  // Two shards are cut into three, of which the second has a part of both; then the first of these moves.
  const RecipeGraph graph =
      RecipeGraph::of({whole("one", 600), whole("two", 600), of_size(delta("a", 12, {"one"}), 400),
                       of_size(delta("b", 24, {"one", "two"}), 400), of_size(delta("c", 12, {"two", "two"}), 400),
                       of_size(delta("moved", 6, {"a"}), 400), of_size(delta("copies", 8, {"moved", "a"}), 100)});
  const std::vector<Digest> cut = {blake3("a"), blake3("b"), blake3("c")};
  CHECK(graph.cost_together(cut) == 1248);
  CHECK(graph.cost_together({blake3("a"), blake3("a")}) == 612);
  CHECK(graph.cost_together({blake3("copies")}) == 626);
  const auto shares = graph.shares_of_cost(cut);
  CHECK(shares.at(blake3("a")) == 312);
  CHECK(shares.at(blake3("b")) == 624);
  CHECK(shares.at(blake3("c")) == 312);
  // Where nothing else is made of it, all of it counts for the one that is, and for the file itself where it is wanted.
  CHECK(graph.shares_of_cost({blake3("moved")}).at(blake3("moved")) == 618);
  const auto both = graph.shares_of_cost({blake3("one"), blake3("a")});
  CHECK(both.at(blake3("one")) == 360);
  CHECK(both.at(blake3("a")) == 252);
  const std::vector<Digest> all = {blake3("two"), blake3("b"), blake3("moved"), blake3("copies")};
  CHECK(graph.cost_together(all) == 1250);
  CHECK(total(graph.shares_of_cost(all)) > 1245);  // each is rounded down
  CHECK(total(graph.shares_of_cost(all)) <= 1250);
  RecipeGraph with_one = graph;
  with_one.add_at_hand(blake3("one"));
  with_one.settle();
  CHECK(with_one.cost_together(cut) == 648);
  CHECK(with_one.shares_of_cost({blake3("one"), blake3("a")}).at(blake3("one")) == 0);
  // Files without bytes are no reason to divide by nothing.
  const RecipeGraph empty = RecipeGraph::of({whole("empty", 0), of_size(delta("also", 5, {"empty"}), 0)});
  CHECK(empty.shares_of_cost({blake3("also")}).at(blake3("also")) == 0);
}

TEST_CASE("a file compressed is one stored whole, and does not count where the file as it is was stored too") {
  const RecipeGraph compressed = RecipeGraph::of({delta("a", 60, {}), delta("b", 10, {"a"})});
  CHECK(compressed.is_stored_whole(blake3("a")));
  CHECK(compressed.best(blake3("a"))->is_delta);
  CHECK(compressed.chain_length(blake3("b")) == 1);
  CHECK(compressed.cost(blake3("b")) == 70);
  for (const bool first : {true, false}) {
    std::vector<Recipe> book = {delta("a", 60, {}), whole("a", 100), delta("b", 10, {"a"})};
    if (first) std::swap(book[0], book[1]);
    const RecipeGraph both = RecipeGraph::of(book);
    CHECK_FALSE(both.best(blake3("a"))->is_delta);
    CHECK(both.cost(blake3("b")) == 110);
  }
  // A model on the Hub may go away, and deltas from other files are ways of their own.
  const RecipeGraph others =
      RecipeGraph::of({delta("a", 60, {}), reference("a", 100), whole("c", 10), delta("a", 5, {"c"})});
  CHECK(others.cost(blake3("a")) == 15);
  CHECK(RecipeGraph::of({delta("a", 60, {}), reference("a", 100)}).best(blake3("a"))->is_delta);
}

TEST_CASE("what is at hand costs nothing and is made of nothing") {
  RecipeGraph graph;
  graph.add({whole("a", 100), delta("b", 10, {"a"}), whole("b", 50), delta("c", 3, {"b"})});
  graph.add_at_hand(blake3("a"));
  graph.settle();
  CHECK(graph.can_make(blake3("a")));
  CHECK(graph.best(blake3("a")) == nullptr);
  CHECK(graph.cost(blake3("a")) == 0);
  CHECK(graph.cost(blake3("b")) == 10);
  CHECK(graph.cost(blake3("c")) == 13);
  std::map<Digest, const Recipe*> needed;
  graph.collect(blake3("c"), needed);
  CHECK(needed.size() == 2);
}

TEST_CASE("where the cheapest way is as long as a chain may be, a file stored whole is taken") {
  // Compressed at the beginning, so that every chain is cheaper than a plain anchor.
  std::vector<Recipe> book = {delta("0", 600, {})};
  for (int i = 1; i <= 200; ++i) book.push_back(delta(std::to_string(i), 1, {std::to_string(i - 1)}));
  const auto made = [](int i) { return blake3(std::to_string(i)); };
  CHECK(RecipeGraph::of(book).chain_length(made(200)) == 200);
  book.push_back(whole("10", 1000));
  book.push_back(whole("64", 1000));
  book.push_back(whole("100", 1000));
  const RecipeGraph graph = RecipeGraph::of(book);
  CHECK(graph.chain_length(made(10)) == 10);
  CHECK(graph.cost(made(63)) == 663);
  CHECK(graph.is_stored_whole(made(64)));
  CHECK(graph.chain_length(made(99)) == 35);
  CHECK(graph.chain_length(made(128)) == 28);
  // Nothing is fetched whole instead of a few deltas more by who has an old version.
  RecipeGraph with_old = graph;
  with_old.add_at_hand(made(0));
  with_old.settle();
  CHECK(with_old.cost(made(200)) == 200);
}

TEST_CASE("a book knows all that store a version whole, however far back") {
  std::vector<Recipe> recipes = {delta("0", 600, {})};
  for (int i = 1; i <= 100; ++i) recipes.push_back(delta(std::to_string(i), 1, {std::to_string(i - 1)}));
  recipes.push_back(whole("3", 1000));                // dearer than the three deltas
  recipes.push_back(delta("3", 700, {"elsewhere"}));  // of no use
  recipes.push_back(whole("of another chain", 1));    // neither
  const RecipeGraph graph = RecipeGraph::of(recipes);
  REQUIRE(graph.chain_length(blake3("100")) == 100);
  const std::vector<Recipe> book = graph.book_for({blake3("100")}, 64);
  CHECK(book.size() == 102);
  CHECK(std::ranges::find(book, whole("3", 1000)) != book.end());
  // So that a delta between the two that is lost is gone around.
  const auto is_lost = [](const Recipe& recipe) { return recipe.digest == blake3("2"); };
  const RecipeGraph left = RecipeGraph::of(book).without(is_lost, [](const Digest&) { return false; });
  REQUIRE(left.can_make(blake3("100")));
  CHECK(left.chain_length(blake3("100")) == 97);
}

TEST_CASE("cycles make nothing out of nothing, and do no harm to what can be made") {
  const RecipeGraph graph = RecipeGraph::of({delta("x", 1, {"y"}), delta("y", 1, {"x"}), delta("self", 1, {"self"}),
                                             delta("z", 1, {"x", "a"}), whole("a", 10), delta("a", 1, {"b"}),
                                             delta("b", 1, {"a"}), delta("twice", 1, {"a", "a"})});
  for (const char* name : {"x", "y", "self", "z", "unknown"}) {
    CAPTURE(name);
    CHECK_FALSE(graph.can_make(blake3(name)));
    CHECK(graph.best(blake3(name)) == nullptr);
  }
  CHECK(graph.cost(blake3("a")) == 10);
  CHECK(graph.cost(blake3("b")) == 11);
  CHECK(graph.cost(blake3("twice")) == 21);
}

TEST_CASE("costs that pass 2^64 stay at the top instead of turning cheap") {
  const RecipeGraph graph =
      RecipeGraph::of({whole("a", UINT64_MAX - 5), delta("b", 100, {"a"}), delta("c", UINT64_MAX, {"b"})});
  CHECK(graph.cost(blake3("b")) == UINT64_MAX);
  CHECK(graph.cost(blake3("c")) == UINT64_MAX);
  CHECK(graph.cost_together({blake3("b"), blake3("c")}) == UINT64_MAX);
  CHECK(graph.shares_of_cost({blake3("c")}).at(blake3("c")) == std::uint64_t{1} << 63);
}

TEST_CASE("a chain of a hundred thousand deltas is settled and collected") {
  constexpr int k_length = 100'000;
  std::vector<Recipe> book = {whole("0", 10)};
  for (int i = 1; i <= k_length; ++i) book.push_back(delta(std::to_string(i), 1, {std::to_string(i - 1)}));
  std::ranges::reverse(book);
  const RecipeGraph graph = RecipeGraph::of(book);
  const Digest last = blake3(std::to_string(k_length));
  CHECK(graph.cost(last) == 10 + k_length);
  CHECK(graph.chain_length(last) == k_length);
  std::map<Digest, const Recipe*> needed;
  graph.collect(last, needed);
  CHECK(needed.size() == k_length + 1);
}

TEST_CASE("the way found for a digest never depends on the order of the recipes, and is as cheap as any") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (int round = 0; round < 50; ++round) {
    const int count = 8;
    std::vector<Recipe> book;
    for (int i = 0; i < 20; ++i) {
      std::vector<std::string> bases;
      for (auto left = random() % 3; left > 0; --left) bases.push_back(std::to_string(random() % count));
      const std::string made = std::to_string(random() % count);
      book.push_back(bases.empty() ? whole(made, 50 + random() % 100) : delta(made, random() % 60, bases));
    }
    // By relaxation until nothing changes.
    std::map<Digest, std::uint64_t> cost;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Recipe& recipe : book) {
        std::uint64_t sum = recipe.bytes.length;
        bool ready = true;
        for (const Digest& base : recipe.base) {
          ready = ready && cost.contains(base);
          if (ready) sum += cost[base];
        }
        if (!ready || (cost.contains(recipe.digest) && cost[recipe.digest] <= sum)) continue;
        cost[recipe.digest] = sum;
        changed = true;
      }
    }
    for (int order = 0; order < 5; ++order) {
      const RecipeGraph graph = RecipeGraph::of(book);
      for (int i = 0; i < count; ++i) {
        const Digest made = blake3(std::to_string(i));
        REQUIRE(graph.can_make(made) == cost.contains(made));
        if (cost.contains(made)) REQUIRE(graph.cost(made) == cost[made]);
      }
      std::ranges::shuffle(book, random);
    }
  }
}

}  // namespace wdelta
