// SPDX-License-Identifier: Apache-2.0
// What the places of files say: which is whose next version, and what kind each is.
#include "checkpoint/counterpart.hpp"
#include "checkpoint/file_kind.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace wdelta {

namespace {

/// Which of `before` is most like `path`.
std::string most_like(const std::string& path, const std::vector<std::string>& before) {
  return *std::ranges::max_element(before, {}, [&](const std::string& each) { return likeness_of_places(each, path); });
}

}  // namespace

TEST_CASE("of places the same one is most alike, then those that differ in fewest numbers, then those that end alike") {
  const std::string path = "global_step200/rank_01/optim.pt";
  const std::vector<std::string> ranked = {path,
                                           "global_step100/rank_01/optim.pt",
                                           "global_step200/rank_10/optim.pt",
                                           "global_step99/rank_1/optim.pt",
                                           "old/rank_01/optim.pt",
                                           "global_step200/rank_01/x.pt",
                                           "global_step200/rank_01/optim.bin",
                                           ""};
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    CAPTURE(ranked[i]);
    CHECK(likeness_of_places(ranked[i], path) <= likeness_of_places(ranked[i - 1], path));
    CHECK(likeness_of_places(ranked[i], path).same_but_numbers == (i < 4));
    CHECK_FALSE(likeness_of_places(ranked[i], path).same);
  }
  CHECK(likeness_of_places(path, path).same);
  CHECK(likeness_of_places(path, path).same_but_numbers);
  CHECK(likeness_of_places(path, path).common_end == path.size());
}

TEST_CASE("a run of digits stands for any other, none of them for none, at either end too") {
  const auto alike = [](const char* before, const char* path) {
    return likeness_of_places(before, path).same_but_numbers;
  };
  for (const auto& [before, path] :
       {std::pair("1", "22"), {"a1", "a9"}, {"1a", "900a"}, {"1.2.3", "4.5.6"}, {"0", "00"}}) {
    CHECK(alike(before, path));
    CHECK(alike(path, before));
  }
  for (const auto& [before, path] : {std::pair("a", "a1"), {"1", ""}, {"1.2", "12"}, {"a1b", "ab"}, {"a1", "b1"}}) {
    CHECK_FALSE(alike(before, path));
    CHECK_FALSE(alike(path, before));
  }
  CHECK(likeness_of_places("abc", "xbc").common_end == 2);
  CHECK(likeness_of_places("bc", "abc").common_end == 2);
  CHECK(likeness_of_places("", "abc").common_end == 0);
}

TEST_CASE("the same rank of the step before is found among all ranks, whichever number comes first") {
  const auto place = [](int form, int step, int rank) {
    const std::string step_text = std::to_string(step);
    const std::string rank_text = std::to_string(rank);
    if (form == 0) return "global_step" + step_text + "/rank_" + rank_text + "_states.pt";
    if (form == 1) return "rank" + rank_text + "_step" + step_text + ".pt";
    return "rank" + rank_text + "-of-12/" + step_text;
  };
  for (const int form : {0, 1, 2}) {
    std::vector<std::string> before;
    for (int rank = 0; rank < 12; ++rank) before.push_back(place(form, 100, rank));
    for (int rank = 0; rank < 12; ++rank) {
      CHECK(most_like(place(form, 200, rank), before) == place(form, 100, rank));
      CHECK(most_like(place(form, 99, rank), before) == place(form, 100, rank));
    }
  }
}

TEST_CASE("the kind of a file goes by its name: weights, what only training needs, and all else") {
  for (const char* path : {"model.safetensors", "model-00001-of-00002.safetensors", "pytorch_model.bin", "a/b/x.pt",
                           "consolidated.00.pth", "last.ckpt", "__0_0.distcp", "q4.gguf", "a.npz", "flax.msgpack",
                           "tf_model.h5", "adapter_model.bin", "global_step10/mp_rank_00_model_states.pt"}) {
    CAPTURE(path);
    CHECK(kind_of(path) == FileKind::weights);
  }
  for (const char* path : {"optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth", "rng_state_3.pth",
                           "random_states_0.pkl", "scaler.pt", "checkpoint-5/optimizer.safetensors",
                           "optim/__0_0.distcp", "global_step10/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"}) {
    CAPTURE(path);
    CHECK(kind_of(path) == FileKind::optimizer);
  }
  for (const char* path :
       {"config.json", "tokenizer.json", "tokenizer.model", "README.md", "training_args.bin",
        "checkpoint-5/training_args.bin", "model.safetensors.index.json", "bin", "x.ptx", ".gitattributes"}) {
    CAPTURE(path);
    CHECK(kind_of(path) == FileKind::side);
  }
  for (const FileKind kind : k_file_kinds) CHECK(std::string(name_of(kind)).empty() == false);
  CHECK(std::string(name_of(FileKind::side)) == "side");
}

}  // namespace wdelta
