// SPDX-License-Identifier: Apache-2.0
#include "make_run/side_files.hpp"

#include "make_run/draw.hpp"

#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

namespace wdelta::make_run {

namespace {

constexpr std::size_t k_merges = 900;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string line(std::string_view name, std::string_view value) {
  return "  \"" + std::string(name) + "\": " + std::string(value) + ",\n";
}

std::string line(std::string_view name, std::uint64_t value) { return line(name, std::to_string(value)); }

std::string log_entry(const Training& training, std::uint64_t step) {
  const std::uint64_t key = draw(draw(training.seed, "log"), step);
  const double reward = 0.3 + 0.4 * (1 - std::exp(-static_cast<double>(step) / 200));
  const auto noise = [&](std::uint64_t index) { return static_cast<double>(between(draw(key, index), -0.02f, 0.02f)); };
  return "    {\n      \"epoch\": " + number(static_cast<double>(step) / 1000) +
         ",\n      \"grad_norm\": " + number(0.15 + noise(0)) +
         ",\n      \"learning_rate\": " + number(training.learning_rate) + ",\n      \"loss\": " + number(noise(1)) +
         ",\n      \"reward\": " + number(reward + noise(2)) + ",\n      \"step\": " + std::to_string(step) + "\n    }";
}

/// Alphabet first, then each merge's product: pairs of earlier tokens, short ones more often, as in a trained one.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;

  explicit Vocabulary(std::uint64_t key) {
    for (char letter = '!'; letter <= '~'; ++letter) tokens.emplace_back(1, letter);
    tokens.emplace_back("\u0120");  // how byte-level tokenizers write a space
    std::set<std::string> known(tokens.begin(), tokens.end());
    constexpr std::string_view k_frequent = "etaoinshrdlucmfwygpb";
    const std::size_t alphabet_count = tokens.size();
    for (std::uint64_t turn = 0; merges.size() < k_merges; ++turn) {
      const auto pick = [&](std::uint64_t drawn) -> std::string {
        const std::size_t merged = tokens.size() - alphabet_count;
        if (merged > 20 && drawn % 3 == 0) return tokens[alphabet_count + (drawn >> 8) % merged];
        return std::string(1, k_frequent[(drawn >> 8) % k_frequent.size()]);
      };
      const std::uint64_t drawn = draw(key, turn);
      const std::string left = drawn % 5 == 0 ? "\u0120" : pick(draw(drawn, 0));
      const std::string right = pick(draw(drawn, 1));
      if (right.starts_with("\u0120") || left.size() + right.size() > 12) continue;
      if (!known.insert(left + right).second) continue;
      tokens.push_back(left + right);
      merges.push_back(left + " " + right);
    }
  }
};

std::string as_json(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "\"";
}

}  // namespace

std::string config_json(const ModelShape& shape) {
  return "{\n  \"architectures\": [\n    \"Qwen2ForCausalLM\"\n  ],\n" + line("attention_dropout", "0.0") +
         line("bos_token_id", "0") + line("eos_token_id", "1") + line("hidden_act", "\"silu\"") +
         line("hidden_size", shape.hidden) + line("initializer_range", "0.02") +
         line("intermediate_size", shape.intermediate) + line("max_position_embeddings", "32768") +
         line("model_type", "\"qwen2\"") + line("num_attention_heads", shape.heads) +
         line("num_hidden_layers", shape.layers) + line("num_key_value_heads", shape.key_value_heads) +
         line("rms_norm_eps", "1e-06") + line("rope_theta", "1000000.0") +
         line("tie_word_embeddings", shape.tied_embeddings ? "true" : "false") + line("torch_dtype", "\"bfloat16\"") +
         line("transformers_version", "\"4.51.3\"") + line("use_cache", "true") +
         "  \"vocab_size\": " + std::to_string(shape.vocabulary) + "\n}\n";
}

std::string generation_config_json() {
  return "{\n" + line("bos_token_id", "0") + line("do_sample", "true") + line("eos_token_id", "1") +
         line("temperature", "0.7") + line("top_p", "0.8") + "  \"transformers_version\": \"4.51.3\"\n}\n";
}

std::string tokenizer_json(const Training& training) {
  const Vocabulary vocabulary(draw(training.seed, "tokenizer"));
  std::string text = "{\n" + line("version", "\"1.0\"") + line("truncation", "null") + line("padding", "null") +
                     line("added_tokens", "[]") + line("normalizer", "{\"type\": \"NFC\"}") +
                     line("pre_tokenizer", "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}") +
                     line("decoder", "{\"type\": \"ByteLevel\"}") +
                     "  \"model\": {\n    \"type\": \"BPE\",\n    \"vocab\": {";
  const char* separator = "\n";
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    text += separator + ("      " + as_json(vocabulary.tokens[token]) + ": " + std::to_string(token));
    separator = ",\n";
  }
  text += "\n    },\n    \"merges\": [";
  separator = "\n";
  for (const std::string& merge : vocabulary.merges) {
    text += separator + ("      " + as_json(merge));
    separator = ",\n";
  }
  return text + "\n    ]\n  }\n}\n";
}

std::string trainer_state_json(const Training& training, std::uint64_t step) {
  std::string text = "{\n" + line("best_metric", "null") + line("epoch", number(static_cast<double>(step) / 1000)) +
                     line("eval_steps", "500") + line("global_step", step) + line("is_hyper_param_search", "false") +
                     line("is_local_process_zero", "true") + line("is_world_process_zero", "true") +
                     "  \"log_history\": [";
  const char* separator = "\n";
  for (std::uint64_t logged = 1; logged <= step; ++logged) {
    text += separator + log_entry(training, logged);
    separator = ",\n";
  }
  return text + "\n  ],\n" + line("learning_rate", number(training.learning_rate)) + line("logging_steps", "1") +
         line("max_steps", "1000") + line("num_train_epochs", "1") + line("save_steps", "1") +
         "  \"train_batch_size\": 8\n}\n";
}

std::string scheduler_bytes(const Training& training, std::uint64_t step) {
  constexpr std::uint64_t k_words = 512;
  const std::uint64_t key = draw(training.seed, "scheduler");
  std::string bytes;
  for (std::uint64_t index = 0; index < k_words; ++index) {
    const std::uint64_t word = draw(index < k_words / 2 ? key : draw(key, step), index);
    for (int byte = 0; byte < 8; ++byte) bytes.push_back(static_cast<char>(word >> (8 * byte) & 0xff));
  }
  return bytes;
}

}  // namespace wdelta::make_run
