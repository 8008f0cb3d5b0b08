// SPDX-License-Identifier: Apache-2.0
#include "base/begin_thread.hpp"
#include "base/blake3.hpp"
#include "base/execution.hpp"
#include "base/json.hpp"
#include "base/mapped_stretch.hpp"
#include "base/printable.hpp"
#include "complete.hpp"
#include "context.hpp"
#include "format.hpp"
#include "manual.hpp"
#include "say.hpp"
#include "terminal_progress.hpp"
#include "usage.hpp"
#include "user/exit_codes.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace wdelta::cmd {

namespace {

#ifdef WDELTA_HAS_NETWORK
constexpr const char* k_other_stores =
    ", buckets of the Hugging Face Hub (hf://buckets/NAMESPACE/NAME), S3 and what speaks its protocol "
    "(s3://BUCKET/PREFIX)";
#else
constexpr const char* k_other_stores = "; this build reaches no network";
#endif

std::vector<std::string> engine_names() {
  std::vector<std::string> names = {"auto"};
  for (const Engine& engine : engines()) names.emplace_back(engine.name);
  return names;
}

void add_common_options(CLI::App& app, Context& context) {
  app.set_help_flag("-h,--help", "Print a short help and exit");
  declare_flag(app, "--json", context.json, "Print one machine-readable document on stdout");
  declare_flag(app, "-q,--quiet", context.quiet, "Print results and errors only: no summaries, notes or progress");
  declare_flag(app, "-v,--verbose", context.verbose, "Say more: whole ids and digests");
  declare(app, "-j,--threads", context.threads.all_along,
          "Work with so many threads, from 1 to 1024 (default: one for each core that it may use, and one more where "
          "one has to wait)")
      .value_name("THREADS")
      .in_range(1, 1024);
  declare(app, "--engine", context.engine_name,
          "Compare and patch with this engine (default: auto, the best that can run here)")
      .value_name("NAME")
      .one_of(engine_names());
  declare_flag(app, "--no-progress", context.no_progress, "Draw no progress on the terminal");
  declare(app, "--color", context.color, "Colour what is printed (default: auto, on a terminal)")
      .value_name("WHEN")
      .one_of({"auto", "always", "never"});
  add_network_options(app, context.network);
}

Json version_of(const Context& context) {
  Json engine_list = Json::array();
  for (const Engine& engine : engines()) {
    engine_list.push_back({{"name", engine.name},
                           {"usable", engine.usable()},
                           {"in_use", &engine == &context.engine()},
                           {"needs", engine.needs},
                           {"reason", engine.reason()}});
  }
  Json kernels = Json::array();
  for (const Blake3Kernel* kernel : blake3_kernels()) kernels.push_back(blake3_kernel_name(*kernel));
  return {{"version", WDELTA_VERSION},
          {"engines", engine_list},
          {"blake3_kernels", kernels},
          {"threads", context.threads.all_along}};
}

void print_version(Context& context) {
  if (context.json) return context.print(version_of(context));
  fmt::print("wdelta {}\n", WDELTA_VERSION);
  if (context.verbose == 0) return;
  fmt::print("\nengines, best first:\n");
  const Engine* chosen = &context.engine();
  for (const Engine& engine : engines()) {
    const char* state = !engine.usable() ? "cannot be used" : &engine == chosen ? "in use" : "can be used";
    fmt::print("  {:<8} {}: {}\n", engine.name, state, engine.reason());
  }
  fmt::print("\nBLAKE3 kernels, fastest first:");
  for (const Blake3Kernel* kernel : blake3_kernels()) fmt::print(" {}", blake3_kernel_name(*kernel));
  fmt::print("\nthreads: {}\nstores: a directory (a plain path or file:///PATH){}\n", context.threads.all_along,
             k_other_stores);
}

// Signals are taken by one thread that does nothing else: a handler could not safely ask for a stop. Where the system
// has no thread for that they end the program, and what it leaves behind is removed by the next one.
std::atomic<int> received_signal = 0;

// Those that ask for an end, but for what is to be ignored: by nohup(1), or by a shell for what it runs in the
// background.
sigset_t requests_to_stop() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  return signals;
}

// Whether a write would not have to wait for a reader.
bool takes_output(int descriptor) {
  pollfd output{descriptor, POLLOUT, 0};
  return ::poll(&output, 1, 0) != 0;
}

[[noreturn]] void end_by_signal(int number) {
  signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  std::abort();
}

void take_signals(std::stop_source stop) {
  const sigset_t signals = requests_to_stop();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::vector<std::jthread> threads;
  const bool are_taken = begin_thread(threads, [signals, stop]() mutable {
    int number = 0;
    while (sigwait(&signals, &number) != 0) {
    }
    received_signal = number;
    stop.request_stop();
    // What is left is to clean up, or to print to who does not read: the first ends soon, the second may not.
    constexpr timespec k_patience = {1, 0};
    int next = 0;
    while ((next = sigtimedwait(&signals, nullptr, &k_patience)) < 0 && takes_output(STDOUT_FILENO)) {
    }
    end_by_signal(next > 0 ? next : number);
  });
  if (are_taken) {
    threads.front().detach();
  } else {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

int print_error(Context& context, const Error& error) try {
  if (context.progress) context.progress->wipe();
  std::string line = "wdelta: ";
  if (!context.command.empty()) line += context.command + ": ";
  if (!error.object().empty()) line += error.object() + ": ";
  say("{}\n", printable(line + error.what()));
  if (!error.hint().empty()) say("hint: {}\n", printable(error.hint()));
  const bool is_told = error.fault() == Fault::interrupted && received_signal != 0;
  const int status = is_told ? 128 + received_signal : exit_code_of(error.fault());  // as a shell says it
  // One document for each run: a verification that failed has printed its findings already.
  if (context.json && !context.answered) {
    context.print({{"error",
                    {{"status", status},
                     {"command", context.command},
                     {"object", error.object()},
                     {"what", error.what()},
                     {"hint", error.hint()}}}});
  }
  return status;
} catch (const std::system_error& unprinted) {
  errno = unprinted.code().value();  // of stdout: flushed() tells
  return exit_code_of(error.fault());
}

// What was printed must have arrived: a full disk behind stdout is a failure like any other.
int flushed(int code, const Context& context) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const int error = errno;
  const std::string command = context.command.empty() ? "" : context.command + ": ";
  if (error != EPIPE) say("wdelta: {}stdout: write: {}\n", command, std::generic_category().message(error));
  return code == 0 || code == k_exit_differences ? exit_code_of(Fault::local) : code;
}

// A large checkpoint has more shards, and a long chain more deltas, than the usual soft limit has descriptors.
void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Where the command's name stands: behind options of every command, of which some take the next word for their value.
int place_of_command(const CLI::App& app, int argc, char** argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string word = argv[i];
    // Of "-qj 2" the last letter, where it is an option's: "-j2" has its value.
    const CLI::Option* option = app.get_option_no_throw(word.starts_with("--") ? word : std::string{'-', word.back()});
    if (option != nullptr && option->get_items_expected_min() > 0) ++i;
  }
  return i;
}

// As CLI11 wants them, the last one first. Of "--name=" it would take the next word for the value, and "[a,b]" for two
// deltas where apply takes several.
std::vector<std::string> words_of(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words;
  const int command = place_of_command(app, argc, argv);
  const bool are_paths = command < argc && argv[command] == std::string_view("apply");
  bool has_options = true;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (are_paths && word.starts_with('[') && word.ends_with(']')) word.insert(0, "./");
    has_options = has_options && word != "--";
    const bool has_empty_value = has_options && word.starts_with("--") && word.find('=') == word.size() - 1;
    if (has_empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (has_empty_value) words.emplace_back();
  }
  std::ranges::reverse(words);
  return words;
}

int run(int argc, char** argv, Context& context) {
  allow_open_files();
  // A reader that has gone, and a file that may not grow any more, are found where they are written to.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (!keep_streams_apart()) return print_error(context, system_error(errno, "/dev/null", "open"));
  CLI::App app("wdelta: git for weights", "wdelta");
  app.get_formatter()->column_width(28);
  add_common_options(app, context);
  bool version = false;
  declare_flag(app, "--version", version, "Print the version; with -v, the engines and why each can be used here");
  app.require_subcommand(0, 1);
  app.footer("wdelta help COMMAND opens the manual of a command.");
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    command.add(*sub, context);
    sub->option_defaults()->group("Options of every command");
    add_common_options(*sub, context);
  }
  if (const char* repository = std::getenv("WDELTA_REPO")) context.default_repository = repository;
  // For the shells' completions and for `make manual`; no user needs to know them.
  if (argc > 1 && argv[1] == std::string_view("complete")) return complete(app, {argv + 2, argv + argc}, context);
  if (argc > 1 && argv[1] == std::string_view("manual")) return print_manual(app, {argv + 2, argv + argc});
  try {
    app.parse(words_of(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (!app.get_subcommands().empty()) context.command = app.get_subcommands().front()->get_name();
    context.json = std::count(argv, argv + argc, std::string_view("--json")) > 0;  // not taken over yet
    return print_error(context, usage_error(app, error));
  }
  if (!app.get_subcommands().empty()) context.command = app.get_subcommands().front()->get_name();
  if (context.threads.all_along == 0) context.threads = default_threads();
  const bool draw =
      !context.quiet && !context.no_progress && isatty(STDERR_FILENO) != 0 && environment("TERM") != "dumb";
  context.progress = std::make_unique<TerminalProgress>(context.command, draw ? Bar::shown : Bar::hidden,
                                                        context.quiet ? Notes::hidden : Notes::shown);
  take_signals(context.stop);
  MappedStretch::allow();
  try {
    if (version) {
      print_version(context);
      return 0;
    }
    if (!context.run) {
      if (context.json)
        return print_error(context, Error(Fault::usage, "", "a command is missing", "wdelta --help lists them"));
      fmt::print("{}", app.help());
      return exit_code_of(Fault::usage);
    }
    const int status = context.run();
    if (context.stage_stats && !context.json) say(context.stage_stats->text());
    return status;
  } catch (const Error& error) {
    return print_error(context, error);
  } catch (const std::bad_alloc&) {
    return print_error(context, Error(Fault::local, "memory", "out of memory"));
  } catch (const std::filesystem::filesystem_error& error) {
    return print_error(context, system_error(error.code().value(), error.path1().string(), "file system"));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return print_error(context, Error(Fault::local, "", error.what()));
    // fmt's word for a stdout that does not take what is printed. A reader that has enough is told nothing.
    std::clearerr(stdout);
    if (error.code() == std::errc::broken_pipe) return exit_code_of(Fault::local);
    return print_error(context, system_error(error.code().value(), "stdout", "write"));
  } catch (const std::exception& error) {
    return print_error(context, Error(Fault::internal, "", error.what(), "this is a bug; please report it"));
  }
}

}  // namespace
}  // namespace wdelta::cmd

int main(int argc, char** argv) {
  wdelta::cmd::Context context;
  const int code = wdelta::cmd::run(argc, argv, context);
  return wdelta::cmd::flushed(code, context);
}
