/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of wdelta.h, from C.
 *   laws all FOLDER             every law; leaves repositories there for library_test.py
 *   laws fill REPOSITORY REV    reads everything of a commit; exits with the status
 *   laws push REPOSITORY STEP   pushes the model of that step twice, with the environment's settings; the same
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wdelta.h>

static const char* scratch;
static int failures;
static const char* law = "";

static void failed(int line, const char* what, const wdelta_error* error) {
  ++failures;
  fprintf(stderr, "laws.c:%d: %s: %s", line, law, what);
  if (error != NULL) fprintf(stderr, " (%d: %s; %s)", (int)error->status, error->message, error->hint);
  fprintf(stderr, "\n");
}
#define CHECK(condition)                                  \
  do {                                                    \
    if (!(condition)) failed(__LINE__, #condition, NULL); \
  } while (0)
/* The status must be this one; the message names what it is about, and a failure always says something. */
#define EXPECT(expected, call, word)                                                                              \
  do {                                                                                                            \
    wdelta_error error_;                                                                                          \
    wdelta_status status_;                                                                                        \
    memset(&error_, 'x', sizeof error_);                                                                          \
    status_ = (call);                                                                                             \
    if (status_ != (expected) || status_ != error_.status) failed(__LINE__, #call " is not " #expected, &error_); \
    if ((status_ == WDELTA_DONE) != (error_.message[0] == '\0')) failed(__LINE__, "message", &error_);            \
    if (strstr(error_.message, word) == NULL) failed(__LINE__, "the message does not say " word, &error_);        \
  } while (0)
#define OK(call) EXPECT(WDELTA_DONE, call, "")

static const char* path_of(const char* name) {
  static char paths[16][1024];
  static int next;
  char* path = paths[next++ % 16];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

static wdelta_repository* open_as(const char* name, const char* host, const wdelta_callbacks* callbacks) {
  wdelta_repository_options options = WDELTA_REPOSITORY_OPTIONS_INIT;
  wdelta_repository* repository = NULL;
  char state[1200];
  const char* settings[] = {state, "USER=somebody", NULL};
  snprintf(state, sizeof state, "WDELTA_STATE_DIR=%s", path_of(host));
  options.settings = settings;
  options.create = WDELTA_CREATE_REPOSITORY;
  options.threads = 2;
  options.callbacks = callbacks;
  OK(wdelta_open(path_of(name), &options, &repository, &error_));
  return repository;
}

/* ---- A model ---------------------------------------------------------------------------------------------------- */

enum { ROWS = 640, COLUMNS = 333 };
typedef struct model {
  uint16_t embed[ROWS * COLUMNS];
  uint16_t transposed[ROWS * COLUMNS]; /* kept column by column */
  float norm[COLUMNS];
  int64_t count;
  uint8_t mask[7];
} model;

/* library_test.py knows these numbers. */
static uint16_t number(int index, int step) {
  const uint16_t old = (uint16_t)(((uint32_t)index * 2654435761u) >> 13);
  return index % 97 == step % 97 ? (uint16_t)(old + step) : old;
}

static void set_model(model* m, int step) {
  for (int row = 0; row < ROWS; ++row) {
    for (int column = 0; column < COLUMNS; ++column) {
      const int index = row * COLUMNS + column;
      m->embed[index] = number(index, step);
      m->transposed[column * ROWS + row] = number(index + 1, step);
    }
  }
  for (int i = 0; i < COLUMNS; ++i) m->norm[i] = (float)i / 4;
  m->count = step;
  for (int i = 0; i < 7; ++i) m->mask[i] = (uint8_t)(i % 2);
}

static const int64_t matrix_shape[] = {ROWS, COLUMNS};
static const int64_t matrix_strides[] = {1, ROWS};
static const int64_t norm_shape[] = {COLUMNS};
static const int64_t mask_shape[] = {7};
static const int64_t empty_shape[] = {0, 3};

static wdelta_tensor tensor(const char* name, const char* dtype, const int64_t* shape, uint32_t dimensions,
                            void* elements) {
  wdelta_tensor t = WDELTA_TENSOR_INIT;
  t.name = name;
  t.dtype = dtype;
  t.shape = shape;
  t.dimensions = dimensions;
  t.elements = elements;
  return t;
}

enum { TENSORS = 6 };
static void describe(model* m, wdelta_tensor tensors[TENSORS]) {
  tensors[0] = tensor("model.embed", "BF16", matrix_shape, 2, m->embed);
  tensors[1] = tensor("model.transposed", "BF16", matrix_shape, 2, m->transposed);
  tensors[1].strides = matrix_strides;
  tensors[2] = tensor("model.norm", "F32", norm_shape, 1, m->norm);
  tensors[3] = tensor("count", "I64", NULL, 0, &m->count);
  tensors[4] = tensor("mask", "BOOL", mask_shape, 1, m->mask);
  tensors[5] = tensor("empty", "F32", empty_shape, 2, NULL);
}

static const char config[] = "{\"model_type\": \"laws\"}\n";

static wdelta_push* begin(wdelta_repository* repository, model* m, const wdelta_push_options* options) {
  wdelta_tensor tensors[TENSORS];
  wdelta_push* push = NULL;
  OK(wdelta_push_begin(repository, options, &push, &error_));
  describe(m, tensors);
  for (int i = 0; i < TENSORS; ++i) OK(wdelta_push_add(push, &tensors[i], &error_));
  OK(wdelta_push_add_file(push, "config.json", config, strlen(config), &error_));
  return push;
}

static wdelta_push_report commit(wdelta_push* push) {
  wdelta_push_report report = WDELTA_PUSH_REPORT_INIT;
  OK(wdelta_push_commit(push, &report, &error_));
  CHECK(report.struct_size == sizeof report);
  wdelta_push_free(push);
  return report;
}

static wdelta_push_options options_of(int step) {
  wdelta_push_options options = WDELTA_PUSH_OPTIONS_INIT;
  options.message = "a step";
  options.step = (uint64_t)step;
  options.has_step = 1;
  return options;
}

/* Whether a commit holds the model of that step. */
static int holds(wdelta_repository* repository, const char* revision, int step) {
  wdelta_commit* opened = NULL;
  model *wanted = malloc(sizeof *wanted), *found = malloc(sizeof *found);
  wdelta_tensor tensors[TENSORS];
  int same;
  memset(wanted, 0, sizeof *wanted);
  memset(found, 0, sizeof *found);
  set_model(wanted, step);
  describe(found, tensors);
  OK(wdelta_commit_open(repository, revision, NULL, &opened, &error_));
  if (opened == NULL) return 0;
  OK(wdelta_commit_fill(opened, tensors, TENSORS, &error_));
  same = memcmp(wanted, found, sizeof *wanted) == 0;
  wdelta_commit_free(opened);
  free(wanted);
  free(found);
  return same;
}

static int exists(wdelta_repository* repository, const char* revision) {
  char id[65];
  return wdelta_resolve(repository, revision, id, NULL) == WDELTA_DONE;
}

/* ---- Laws -------------------------------------------------------------------------------------------------------- */

static void errors_are_statuses_with_a_message_and_structs_of_other_sizes_are_understood(void) {
  wdelta_repository* repository = (wdelta_repository*)1;
  wdelta_repository_options options = WDELTA_REPOSITORY_OPTIONS_INIT;
  wdelta_push_options push_options = WDELTA_PUSH_OPTIONS_INIT;
  struct {
    wdelta_push_options known;
    uint64_t unknown;
  } later;
  wdelta_push* push = NULL;
  const char* chosen = NULL;
  static const int64_t shape[] = {2, 2};
  uint8_t bytes[4] = {0};
  wdelta_tensor four = tensor("four", "U8", shape, 2, bytes);
  wdelta_push_report report = WDELTA_PUSH_REPORT_INIT;
  const char* settings[] = {"WDELTA_STATE_DIR", NULL};
  CHECK(strchr(wdelta_version(), '.') != NULL);
  CHECK(strcmp(wdelta_status_text(WDELTA_NETWORK), "network") == 0);
  CHECK(strcmp(wdelta_status_text(77), "unknown") == 0);
  OK(wdelta_engine(NULL, &chosen, &error_));
  CHECK(chosen != NULL);
  EXPECT(WDELTA_USAGE, wdelta_engine("none such", &chosen, &error_), "none such");
  EXPECT(WDELTA_NOT_FOUND, wdelta_open(path_of("nothing"), NULL, &repository, &error_), "nothing");
  CHECK(repository == NULL);
  EXPECT(WDELTA_USAGE, wdelta_open(NULL, NULL, &repository, &error_), "location");
  EXPECT(WDELTA_USAGE, wdelta_open("", NULL, &repository, &error_), "location");
  EXPECT(WDELTA_UNSUPPORTED, wdelta_open("gopher://x/y", NULL, &repository, &error_), "gopher");
  options.settings = settings;
  EXPECT(WDELTA_USAGE, wdelta_open(path_of("errors"), &options, &repository, &error_), "settings");
  options.settings = NULL;
  options.struct_size = 0;
  EXPECT(WDELTA_USAGE, wdelta_open(path_of("errors"), &options, &repository, &error_), "struct_size");
  CHECK(wdelta_open(NULL, NULL, &repository, NULL) == WDELTA_USAGE);

  /* Without any setting there is no place for state: a push does without. */
  options.struct_size = sizeof options;
  options.create = WDELTA_CREATE_REPOSITORY;
  OK(wdelta_open(path_of("stateless"), &options, &repository, &error_));
  OK(wdelta_push_begin(repository, NULL, &push, &error_));
  OK(wdelta_push_add(push, &four, &error_));
  OK(wdelta_push_commit(push, &report, &error_));
  CHECK(report.created && report.file_count == 1);
  wdelta_push_free(push);
  wdelta_close(repository);

  repository = open_as("errors", "host", NULL);
  memset(&later, 0, sizeof later);
  later.known.struct_size = sizeof later;
  OK(wdelta_push_begin(repository, &later.known, &push, &error_));
  wdelta_push_free(push);
  later.unknown = 1;
  EXPECT(WDELTA_UNSUPPORTED, wdelta_push_begin(repository, &later.known, &push, &error_), "struct_size");
  push_options.branch = "no good";
  EXPECT(WDELTA_USAGE, wdelta_push_begin(repository, &push_options, &push, &error_), "no good");
  push_options.branch = NULL;
  push_options.tensors = 7;
  EXPECT(WDELTA_USAGE, wdelta_push_begin(repository, &push_options, &push, &error_), "tensors");
  push_options.tensors = 0;
  push_options.reference = WDELTA_REFERENCE_DEVICE;
  if (!wdelta_cuda(NULL))
    EXPECT(WDELTA_UNSUPPORTED, wdelta_push_begin(repository, &push_options, &push, &error_), "reference");
  EXPECT(WDELTA_NOT_FOUND, wdelta_resolve(repository, "main", (char[65]){0}, &error_), "main");
  wdelta_close(repository);
  wdelta_close(NULL);
  wdelta_push_free(NULL);
  wdelta_commit_free(NULL);
}

static void what_no_file_can_hold_is_refused_and_leaves_the_push_as_it_was(void) {
  wdelta_repository* repository = open_as("refused", "host", NULL);
  wdelta_push* push = NULL;
  static const int64_t far[] = {INT64_MAX, INT64_MAX};
  static const int64_t shape[] = {2, 2};
  static const int64_t odd[] = {3};
  static const int64_t negative[] = {-1};
  static const int64_t huge[] = {INT64_MAX, 3};
  uint8_t bytes[64] = {0};
  wdelta_push_report report = WDELTA_PUSH_REPORT_INIT;
  wdelta_tensor t = tensor("t", "U8", shape, 2, bytes);
  OK(wdelta_push_begin(repository, NULL, &push, &error_));
  EXPECT(WDELTA_USAGE, wdelta_push_commit(push, NULL, &error_), "no tensors");
#define REFUSED(member, value, word)                                    \
  do {                                                                  \
    wdelta_tensor other = t;                                            \
    other.member = value;                                               \
    EXPECT(WDELTA_USAGE, wdelta_push_add(push, &other, &error_), word); \
  } while (0)
  REFUSED(name, NULL, "name");
  REFUSED(name, "", "name");
  REFUSED(name, "__metadata__", "__metadata__");
  REFUSED(name, "\xff", "UTF-8");
  REFUSED(dtype, NULL, "dtype");
  REFUSED(dtype, "FLOAT", "FLOAT");
  REFUSED(shape, NULL, "shape");
  REFUSED(shape, negative, "less than nothing");
  REFUSED(shape, huge, "more elements than can be counted");
  REFUSED(strides, far, "further than memory");
  REFUSED(elements, NULL, "no memory");
  REFUSED(file, "../x.safetensors", "cannot be the place");
  REFUSED(file, "x.bin", ".safetensors");
  {
    wdelta_tensor narrow = tensor("narrow", "F4", odd, 1, bytes);
    EXPECT(WDELTA_USAGE, wdelta_push_add(push, &narrow, &error_), "whole number of bytes");
  }
  OK(wdelta_push_add(push, &t, &error_));
  EXPECT(WDELTA_USAGE, wdelta_push_add(push, &t, &error_), "added already");
  EXPECT(WDELTA_USAGE, wdelta_push_add_file(push, "/etc/passwd", "x", 1, &error_), "passwd");
  EXPECT(WDELTA_USAGE, wdelta_push_add_file(push, "a", NULL, 1, &error_), "bytes");
  OK(wdelta_push_add_file(push, "a", NULL, 0, &error_));
  EXPECT(WDELTA_USAGE, wdelta_push_add_file(push, "a", NULL, 0, &error_), "added already");
  EXPECT(WDELTA_USAGE, wdelta_push_meta(push, "", "x", &error_), "meta");
  t.device = 9;
  t.name = "elsewhere";
  EXPECT(WDELTA_UNSUPPORTED, wdelta_push_add(push, &t, &error_), "elsewhere");
  OK(wdelta_push_commit(push, &report, &error_));
  CHECK(report.created && report.file_count == 2);
  EXPECT(WDELTA_USAGE, wdelta_push_commit(push, &report, &error_), "committed already");
  t.device = WDELTA_HOST;
  EXPECT(WDELTA_USAGE, wdelta_push_add(push, &t, &error_), "committed already");
  wdelta_push_free(push);
  /* A file and a folder of one name cannot lie side by side. */
  OK(wdelta_push_begin(repository, NULL, &push, &error_));
  OK(wdelta_push_add_file(push, "a", NULL, 0, &error_));
  OK(wdelta_push_add_file(push, "a/b", NULL, 0, &error_));
  EXPECT(WDELTA_USAGE, wdelta_push_commit(push, NULL, &error_), "side by side");
  wdelta_push_free(push);
  wdelta_close(repository);
}

static void a_commit_holds_what_was_pushed_whatever_happens_to_copied_tensors_then(void) {
  wdelta_repository* repository = open_as("run", "host", NULL);
  model* m = malloc(sizeof *m);
  wdelta_push_options options = options_of(1);
  wdelta_push* push;
  wdelta_push_report report;
  wdelta_commit_summary summary = WDELTA_COMMIT_SUMMARY_INIT;
  wdelta_commit* opened = NULL;
  wdelta_file file = WDELTA_FILE_INIT;
  wdelta_tensor_description found = WDELTA_TENSOR_DESCRIPTION_INIT;
  char text[64] = {0}, long_name[501];
  uint64_t size_bytes = 0;
  memset(long_name, 1, sizeof long_name - 1); /* each takes four characters to be shown */
  long_name[sizeof long_name - 1] = '\0';
  set_model(m, 1);
  options.tag = "first";
  push = begin(repository, m, &options);
  memset(m, 0x55, sizeof *m);
  OK(wdelta_push_meta(push, "loss", "2.5", &error_));
  OK(wdelta_push_meta(push, "loss", "1.5", &error_));
  report = commit(push);
  CHECK(report.created == 1 && report.file_count == 2 && report.parent[0] == '\0');
  CHECK(report.reference_bytes == report.checkpoint_bytes);
  CHECK(wdelta_reference_bytes(repository) == report.reference_bytes);
  CHECK(holds(repository, "main", 1));
  CHECK(holds(repository, "first", 1));

  OK(wdelta_commit_open(repository, "", NULL, &opened, &error_));
  OK(wdelta_commit_summarise(opened, &summary, &error_));
  CHECK(strcmp(summary.id, report.id) == 0 && summary.parent[0] == '\0' && strcmp(summary.message, "a step") == 0);
  CHECK(summary.has_step && summary.step == 1 && strchr(summary.author, '@') != NULL && summary.time[10] == 'T');
  CHECK(summary.meta_count == 1 && strcmp(summary.meta_keys[0], "loss") == 0);
  CHECK(strcmp(summary.meta_values[0], "1.5") == 0);
  CHECK(summary.file_count == 2 && summary.tensor_count == TENSORS);
  OK(wdelta_commit_file(opened, 0, &file, &error_));
  CHECK(strcmp(file.path, "config.json") == 0 && file.size_bytes == strlen(config) && strlen(file.digest) == 64);
  EXPECT(WDELTA_USAGE, wdelta_commit_file(opened, 2, &file, &error_), "2");
  OK(wdelta_commit_read_size(opened, "config.json", &size_bytes, &error_));
  CHECK(size_bytes == strlen(config));
  OK(wdelta_commit_read(opened, "config.json", text, (size_t)size_bytes, &error_));
  CHECK(strcmp(text, config) == 0);
  EXPECT(WDELTA_USAGE, wdelta_commit_read(opened, "config.json", text, 3, &error_), "config.json");
  EXPECT(WDELTA_NOT_FOUND, wdelta_commit_read(opened, "other.json", text, 3, &error_), "other.json");
  for (size_t i = 0; i < TENSORS; ++i) {
    OK(wdelta_commit_tensor(opened, i, &found, &error_));
    if (i == 0) CHECK(strcmp(found.name, "count") == 0 && found.dimensions == 0 && found.size_bytes == 8);
  }
  EXPECT(WDELTA_USAGE, wdelta_commit_tensor(opened, TENSORS, &found, &error_), "6");
  OK(wdelta_commit_find(opened, "model.norm", NULL, &found, &error_));
  CHECK(found.dimensions == 1 && found.shape[0] == COLUMNS && strcmp(found.dtype, "F32") == 0);
  CHECK(strcmp(found.file, "model.safetensors") == 0);
  EXPECT(WDELTA_NOT_FOUND, wdelta_commit_find(opened, "model.none", NULL, &found, &error_), "model.none");
  EXPECT(WDELTA_NOT_FOUND, wdelta_commit_find(opened, long_name, NULL, &found, &error_), "...: is no tensor of commit");
  /* The repository's handle may go first. */
  wdelta_close(repository);
  OK(wdelta_commit_read(opened, "config.json", text, (size_t)size_bytes, &error_));
  wdelta_commit_free(opened);
  free(m);
}

static void a_push_compares_with_the_reference_copy_and_copied_and_borrowed_make_the_same_commit(void) {
  for (int borrowed = 0; borrowed < 2; ++borrowed) {
    wdelta_repository* repository = open_as("run", "host", NULL);
    model* m = malloc(sizeof *m);
    wdelta_push_report report;
    wdelta_push_options options;
    int step;
    set_model(m, 1 + 3 * borrowed);
    options = options_of(1 + 3 * borrowed);
    options.tensors = borrowed ? WDELTA_TENSORS_BORROWED : WDELTA_TENSORS_COPIED;
    if (!borrowed) options.tag = "first";
    /* What the tip is already makes no commit, but a reference copy. */
    if (!borrowed) {
      wdelta_push* push = begin(repository, m, &options);
      OK(wdelta_push_meta(push, "loss", "1.5", &error_));
      report = commit(push);
    } else {
      report = commit(begin(repository, m, &options));
    }
    CHECK(report.created == 0 && report.compared_with_repository == 1);
    CHECK(strcmp(report.parent, report.id) != 0 && (report.parent[0] != '\0') == borrowed);
    for (step = 2 + 3 * borrowed; step <= 4 + 3 * borrowed; ++step) {
      set_model(m, step);
      options = options_of(step);
      options.tensors = borrowed ? WDELTA_TENSORS_BORROWED : WDELTA_TENSORS_COPIED;
      report = commit(begin(repository, m, &options));
      CHECK(report.created == 1 && report.compared_with_repository == 0);
      CHECK(report.change_count > 4000 && report.change_count < 10000 && report.delta_bytes > 0);
      CHECK(report.stored_bytes < report.checkpoint_bytes / 4);
      CHECK(report.reference_bytes == report.checkpoint_bytes);
      CHECK(holds(repository, "main", step));
      CHECK(holds(repository, "main~1", step - 1));
    }
    wdelta_drop_references(repository);
    CHECK(wdelta_reference_bytes(repository) == 0);
    report = commit(begin(repository, m, &options));
    CHECK(report.created == 0 && report.compared_with_repository == 1 && report.reference_bytes > 0);
    options.reference = WDELTA_REFERENCE_REPOSITORY;
    report = commit(begin(repository, m, &options));
    CHECK(report.created == 0 && report.compared_with_repository == 0 && report.reference_bytes == 0);
    CHECK(wdelta_reference_bytes(repository) == 0);
    report = commit(begin(repository, m, &options));
    CHECK(report.compared_with_repository == 1);
    wdelta_close(repository);
    free(m);
  }
}

static model* changing;
static int change_when_pushing(void* context, const char* label, uint64_t done, uint64_t total) {
  (void)context;
  CHECK(done <= total || total == 0);
  if (changing != NULL && strcmp(label, "pushing") == 0) {
    for (int i = 0; i < ROWS * COLUMNS; ++i) changing->embed[i] ^= 0x101;
    changing = NULL;
  }
  return 0;
}

static void a_borrowed_tensor_that_changes_while_it_is_pushed_is_refused_and_the_branch_stays(void) {
  wdelta_callbacks callbacks = WDELTA_CALLBACKS_INIT;
  wdelta_repository* repository;
  wdelta_push_options options = options_of(1);
  wdelta_push* push;
  model* m = malloc(sizeof *m);
  char before[65], after[65];
  callbacks.progress = change_when_pushing;
  repository = open_as("changed", "host", &callbacks);
  set_model(m, 1);
  options.tensors = WDELTA_TENSORS_BORROWED;
  commit(begin(repository, m, &options));
  OK(wdelta_resolve(repository, "main", before, &error_));
  for (int reference = 0; reference < 2; ++reference) {
    set_model(m, 2);
    options.step = 2;
    push = begin(repository, m, &options);
    changing = m;
    EXPECT(WDELTA_LOCAL, wdelta_push_commit(push, NULL, &error_), "changed while it was read");
    CHECK(changing == NULL);
    wdelta_push_free(push);
    OK(wdelta_resolve(repository, "main", after, &error_));
    CHECK(strcmp(before, after) == 0);
    wdelta_drop_references(repository);
  }
  /* Copied ones may. */
  set_model(m, 2);
  options.tensors = WDELTA_TENSORS_COPIED;
  push = begin(repository, m, &options);
  changing = m;
  commit(push);
  CHECK(holds(repository, "main", 2));
  wdelta_close(repository);
  free(m);
}

static void strided_tensors_are_gathered_and_filled(void) {
  enum { A = 5, B = 7, C = 11 };
  static const int64_t shape[] = {A, B, C};
  static uint32_t source[4 * A * B * C], target[4 * A * B * C], dense[A * B * C], again[A * B * C];
  /* Every order of the axes, each forwards or backwards, with or without gaps. */
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const char* widths[] = {"U8", "BF16", "F32", "I64"};
  wdelta_repository* repository = open_as("strided", "host", NULL);
  for (int i = 0; i < 4 * A * B * C; ++i) source[i] = (uint32_t)i * 2246822519u;
  for (int turn = 0; turn < 6 * 2 * 2; ++turn) {
    const int* order = orders[turn % 6];
    const int backwards = turn / 6 % 2, gap = turn / 12 + 1;
    const int width = 1 << (turn % 4);
    int64_t strides[3], step = gap, first = 0;
    char *from = (char*)source, *into = (char*)target;
    wdelta_push_options options = options_of(turn);
    wdelta_push* push = NULL;
    wdelta_commit* opened = NULL;
    wdelta_tensor t;
    for (int i = 2; i >= 0; --i) {
      const int axis = order[i];
      strides[axis] = backwards && axis != 1 ? -step : step;
      if (strides[axis] < 0) first += step * (shape[axis] - 1);
      step *= shape[axis];
    }
    if (step * width > (int64_t)sizeof source) continue;
    OK(wdelta_push_begin(repository, &options, &push, &error_));
    t = tensor("t", widths[turn % 4], shape, 3, from + first * width);
    t.strides = strides;
    OK(wdelta_push_add(push, &t, &error_));
    commit(push);
    OK(wdelta_commit_open(repository, "", NULL, &opened, &error_));
    memset(target, 0, sizeof target);
    memset(dense, 0, sizeof dense);
    t.elements = into + first * width;
    OK(wdelta_commit_fill(opened, &t, 1, &error_));
    /* Filled as it was pushed ... */
    for (int a = 0; a < A; ++a) {
      for (int b = 0; b < B; ++b) {
        for (int c = 0; c < C; ++c) {
          const int64_t place = (first + a * strides[0] + b * strides[1] + c * strides[2]) * width;
          if (width <= 4) memcpy((char*)dense + ((a * B + b) * C + c) * width, from + place, (size_t)width);
          if (memcmp(into + place, from + place, (size_t)width) != 0) {
            CHECK(!"an element is another");
            a = A, b = B, c = C;
          }
        }
      }
    }
    /* ... and without strides in row-major order. */
    if (width <= 4) {
      t.strides = NULL;
      t.elements = again;
      memset(again, 0, sizeof again);
      OK(wdelta_commit_fill(opened, &t, 1, &error_));
      CHECK(memcmp(dense, again, sizeof dense) == 0);
    }
    wdelta_commit_free(opened);
  }
  {
    /* A number that is repeated may be pushed, and not be filled. */
    static const int64_t still[] = {0, 0, 0};
    wdelta_push* push = NULL;
    wdelta_commit* opened = NULL;
    wdelta_tensor t = tensor("t", "F32", shape, 3, source + 9);
    t.strides = still;
    OK(wdelta_push_begin(repository, NULL, &push, &error_));
    OK(wdelta_push_add(push, &t, &error_));
    commit(push);
    OK(wdelta_commit_open(repository, "", NULL, &opened, &error_));
    EXPECT(WDELTA_USAGE, wdelta_commit_fill(opened, &t, 1, &error_), "one place");
    t.strides = NULL;
    t.elements = again;
    OK(wdelta_commit_fill(opened, &t, 1, &error_));
    for (int i = 0; i < A * B * C; ++i) CHECK(again[i] == source[9]);
    t.dtype = "I32";
    EXPECT(WDELTA_USAGE, wdelta_commit_fill(opened, &t, 1, &error_), "F32");
    t.dtype = "F32";
    t.name = "u";
    EXPECT(WDELTA_NOT_FOUND, wdelta_commit_fill(opened, &t, 1, &error_), "u");
    wdelta_commit_free(opened);
  }
  wdelta_close(repository);
}

/* DLPack's structs, as its own header has them. */
typedef struct {
  int32_t device_type, device_id;
} DLDevice;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};
static int deleted;
static void count_deleted(struct DLManagedTensor* self) {
  (void)self;
  ++deleted;
}
static void count_deleted_versioned(struct DLManagedTensorVersioned* self) {
  (void)self;
  ++deleted;
}

static void dlpack_tensors_are_taken_over_and_given_back(void) {
  static uint16_t numbers[40];
  int64_t shape[] = {4, 8}, strides[] = {1, 4};
  uint16_t found[32];
  for (int i = 0; i < 40; ++i) numbers[i] = (uint16_t)(i * 771);
  for (int borrowed = 0; borrowed < 2; ++borrowed) {
    wdelta_repository* repository = open_as("dlpack", "host", NULL);
    wdelta_push_options options = options_of(borrowed);
    wdelta_push* push = NULL;
    wdelta_commit* opened = NULL;
    struct DLManagedTensor old = {{numbers, {1, 0}, 2, {4, 16, 1}, shape, strides, 16}, NULL, count_deleted};
    struct DLManagedTensorVersioned new = {
        1, 0, NULL, count_deleted_versioned, 0, {numbers, {1, 0}, 2, {2, 16, 1}, shape, NULL, 0}};
    wdelta_tensor t = tensor("old", "BF16", shape, 2, found);
    deleted = 0;
    options.tensors = borrowed ? WDELTA_TENSORS_BORROWED : WDELTA_TENSORS_COPIED;
    OK(wdelta_push_begin(repository, &options, &push, &error_));
    new.major = 2;
    EXPECT(WDELTA_UNSUPPORTED, wdelta_push_add_dlpack_versioned(push, "new", NULL, &new, NULL, &error_), "version");
    new.major = 1;
    new.dl_tensor.dtype.code = 3;
    EXPECT(WDELTA_UNSUPPORTED, wdelta_push_add_dlpack_versioned(push, "new", NULL, &new, NULL, &error_), "dtype");
    EXPECT(WDELTA_USAGE, wdelta_push_add_dlpack_versioned(push, "new", "U8", &new, NULL, &error_), "16 bits");
    new.dl_tensor.device.device_type = 4;
    EXPECT(WDELTA_UNSUPPORTED, wdelta_push_add_dlpack_versioned(push, "new", "F16", &new, NULL, &error_), "device");
    CHECK(deleted == 0);
    new.dl_tensor.device.device_type = 3;
    OK(wdelta_push_add_dlpack_versioned(push, "new", "F16", &new, NULL, &error_));
    OK(wdelta_push_add_dlpack(push, "old", NULL, &old, NULL, &error_));
    CHECK(deleted == (borrowed ? 0 : 2));
    OK(wdelta_push_commit(push, NULL, &error_));
    wdelta_push_free(push);
    CHECK(deleted == 2);
    OK(wdelta_commit_open(repository, "", NULL, &opened, &error_));
    OK(wdelta_commit_fill(opened, &t, 1, &error_));
    for (int i = 0; i < 32; ++i) CHECK(found[i] == numbers[8 + i / 8 + i % 8 * 4]);
    t.name = "new";
    t.dtype = "F16";
    OK(wdelta_commit_fill(opened, &t, 1, &error_));
    CHECK(memcmp(found, numbers, sizeof found) == 0);
    wdelta_commit_free(opened);
    /* Those of a push that is abandoned are given back too. */
    deleted = 0;
    OK(wdelta_push_begin(repository, &options, &push, &error_));
    OK(wdelta_push_add_dlpack(push, "old", NULL, &old, NULL, &error_));
    wdelta_push_free(push);
    CHECK(deleted == 1);
    wdelta_close(repository);
  }
}

static void large_checkpoints_have_shards_and_a_name_may_be_in_several_files(void) {
  wdelta_repository* repository = open_as("shards", "host", NULL);
  wdelta_push_options options = options_of(5);
  wdelta_push* push;
  wdelta_push_report report;
  wdelta_commit* opened = NULL;
  wdelta_tensor_description found = WDELTA_TENSOR_DESCRIPTION_INIT;
  uint8_t first[] = {1, 2, 3}, second[] = {4, 5, 6}, read[3];
  static const int64_t shape[] = {3};
  wdelta_tensor t = tensor("bias", "U8", shape, 1, first);
  model* m = malloc(sizeof *m);
  set_model(m, 5);
  options.largest_shard_bytes = 2 * ROWS * COLUMNS;
  push = begin(repository, m, &options);
  t.file = "vae/model.safetensors";
  OK(wdelta_push_add(push, &t, &error_));
  t.file = "unet/model.safetensors";
  t.elements = second;
  OK(wdelta_push_add(push, &t, &error_));
  OK(wdelta_push_file_metadata(push, "format", NULL, &error_));
  OK(wdelta_push_file_metadata(push, "made", "by laws", &error_));
  report = commit(push);
  CHECK(report.file_count == 8);
  CHECK(holds(repository, "", 5));
  OK(wdelta_commit_open(repository, "", NULL, &opened, &error_));
  EXPECT(WDELTA_USAGE, wdelta_commit_find(opened, "bias", NULL, &found, &error_), "several files");
  OK(wdelta_commit_find(opened, "bias", "vae/model.safetensors", &found, &error_));
  EXPECT(WDELTA_NOT_FOUND, wdelta_commit_find(opened, "bias", "other/model.safetensors", &found, &error_), "bias");
  t.elements = read;
  OK(wdelta_commit_fill(opened, &t, 1, &error_));
  CHECK(memcmp(read, second, 3) == 0);
  t.file = NULL;
  EXPECT(WDELTA_USAGE, wdelta_commit_fill(opened, &t, 1, &error_), "several files");
  wdelta_commit_free(opened);
  free(m);
  wdelta_close(repository);
}

static int stop_at_once(void* context, const char* label, uint64_t done, uint64_t total) {
  (void)context, (void)label, (void)done, (void)total;
  return 1;
}

static void a_cancelled_push_leaves_the_branch_where_it_was(void) {
  wdelta_callbacks callbacks = WDELTA_CALLBACKS_INIT;
  wdelta_repository* repository = open_as("cancelled", "host", NULL);
  wdelta_push_options options = options_of(1);
  wdelta_push* push;
  wdelta_commit* opened = NULL;
  wdelta_tensor tensors[TENSORS];
  model* m = malloc(sizeof *m);
  set_model(m, 1);
  callbacks.progress = stop_at_once;
  options.callbacks = &callbacks;
  push = begin(repository, m, &options);
  EXPECT(WDELTA_INTERRUPTED, wdelta_push_commit(push, NULL, &error_), "interrupted");
  EXPECT(WDELTA_INTERRUPTED, wdelta_push_commit(push, NULL, &error_), "interrupted");
  wdelta_push_free(push);
  CHECK(!exists(repository, "main"));
  options.callbacks = NULL;
  push = begin(repository, m, &options);
  wdelta_push_cancel(push);
  OK(wdelta_push_meta(push, "noted", "all the same", &error_));
  EXPECT(WDELTA_INTERRUPTED, wdelta_push_commit(push, NULL, &error_), "interrupted");
  wdelta_push_free(push);
  CHECK(!exists(repository, "main"));
  commit(begin(repository, m, &options));
  describe(m, tensors);
  OK(wdelta_commit_open(repository, "main", &callbacks, &opened, &error_));
  EXPECT(WDELTA_INTERRUPTED, wdelta_commit_fill(opened, tensors, TENSORS, &error_), "interrupted");
  wdelta_commit_free(opened);
  free(m);
  wdelta_close(repository);
}

typedef struct pusher {
  pthread_t thread;
  wdelta_repository* repository;
  const char* branch;
  int first_step, conflicts;
} pusher;

static void* push_ten(void* argument) {
  pusher* p = argument;
  model* m = malloc(sizeof *m);
  for (int i = 0; i < 10; ++i) {
    wdelta_push_options options = options_of(p->first_step + i);
    wdelta_push* push;
    wdelta_status status;
    wdelta_error error;
    options.branch = p->branch;
    options.anchor = WDELTA_ANCHOR_NEVER;
    set_model(m, p->first_step + i);
    push = begin(p->repository, m, &options);
    while ((status = wdelta_push_commit(push, NULL, &error)) == WDELTA_CONFLICT) ++p->conflicts;
    if (status != WDELTA_DONE) failed(__LINE__, "push", &error);
    wdelta_push_free(push);
  }
  free(m);
  return NULL;
}

/* Every step is in the history once. */
static void check_history(wdelta_repository* repository, const char* branch, int commits) {
  char revision[64], id[65];
  for (int step = 100; step < 100 + commits; ++step) {
    snprintf(revision, sizeof revision, "%s~%d", branch, step - 100);
    OK(wdelta_resolve(repository, revision, id, &error_));
  }
  snprintf(revision, sizeof revision, "%s~%d", branch, commits);
  CHECK(!exists(repository, revision));
}

static void threads_with_handles_of_their_own_and_threads_that_share_one_lose_no_commit(void) {
  for (int shared = 0; shared < 2; ++shared) {
    for (int hosts = 1; hosts <= 2; ++hosts) {
      char name[32];
      pusher pushers[2];
      wdelta_repository *first, *second;
      snprintf(name, sizeof name, "race-%d-%d", shared, hosts);
      first = open_as(name, "host", NULL);
      second = shared ? first : open_as(name, hosts == 1 ? "host" : "other host", NULL);
      for (int i = 0; i < 2; ++i) {
        pushers[i] =
            (pusher){0, i == 0 ? first : second, shared && hosts == 2 && i == 1 ? "side" : "main", 100 + 10 * i, 0};
        pthread_create(&pushers[i].thread, NULL, push_ten, &pushers[i]);
      }
      for (int i = 0; i < 2; ++i) pthread_join(pushers[i].thread, NULL);
      if (shared || hosts == 1) CHECK(pushers[0].conflicts + pushers[1].conflicts == 0);
      if (shared && hosts == 2) {
        check_history(first, "main", 10);
        check_history(first, "side", 10);
      } else {
        check_history(first, "main", 20);
      }
      for (int step = 100; step < 120; step += 7) {
        char revision[32];
        if (shared && hosts == 2 && step >= 110) continue;
        snprintf(revision, sizeof revision, "step:%d", step);
        CHECK(holds(first, revision, step));
      }
      if (!shared) wdelta_close(second);
      wdelta_close(first);
    }
  }
}

static void settings_count_before_the_environment(void) {
  wdelta_repository_options options = WDELTA_REPOSITORY_OPTIONS_INIT;
  wdelta_repository* repository = NULL;
  wdelta_push* push = NULL;
  char state[1200];
  const char* settings[] = {state, "WDELTA_ENGINE=scalar", NULL};
  setenv("WDELTA_STATE_DIR", "/proc/none/such", 1);
  setenv("WDELTA_ENGINE", "none such", 1);
  options.environment = wdelta_environment_of_process;
  options.create = WDELTA_CREATE_REPOSITORY;
  EXPECT(WDELTA_USAGE, wdelta_open(path_of("settings"), &options, &repository, &error_), "none such");
  snprintf(state, sizeof state, "WDELTA_STATE_DIR=%s", path_of("host"));
  options.settings = settings;
  OK(wdelta_open(path_of("settings"), &options, &repository, &error_));
  OK(wdelta_push_begin(repository, NULL, &push, &error_));
  OK(wdelta_push_add_file(push, "a", "b", 1, &error_));
  commit(push);
  wdelta_close(repository);
  unsetenv("WDELTA_STATE_DIR");
  unsetenv("WDELTA_ENGINE");
}

static void tensors_of_a_device_that_is_not_there_are_refused_with_the_reason(void) {
  const char* reason = NULL;
  wdelta_repository* repository;
  wdelta_push* push = NULL;
  wdelta_tensor t = tensor("t", "U8", mask_shape, 1, &failures);
  if (wdelta_cuda(&reason)) {
    printf("skipped: there is a CUDA device here: %s\n", reason);
    return;
  }
  CHECK(reason != NULL && reason[0] != '\0');
  repository = open_as("device", "host", NULL);
  t.device = WDELTA_CUDA;
  OK(wdelta_push_begin(repository, NULL, &push, &error_));
  EXPECT(WDELTA_UNSUPPORTED, wdelta_push_add(push, &t, &error_), "cannot be used here");
  wdelta_push_free(push);
  wdelta_close(repository);
}

#define RUN(name)        \
  do {                   \
    law = #name;         \
    name();              \
    printf("%s\n", law); \
    fflush(stdout);      \
  } while (0)

static wdelta_repository_options options_of_environment(void) {
  wdelta_repository_options options = WDELTA_REPOSITORY_OPTIONS_INIT;
  options.environment = wdelta_environment_of_process;
  options.create = WDELTA_CREATE_REPOSITORY;
  return options;
}

static int push_twice(const char* location, int step) {
  wdelta_repository_options options = options_of_environment();
  wdelta_repository* repository = NULL;
  wdelta_error error;
  wdelta_status status = wdelta_open(location, &options, &repository, &error);
  model* m = malloc(sizeof *m);
  for (int i = 0; status == WDELTA_DONE && i < 2; ++i) {
    wdelta_push_options push_options = options_of(step + i);
    wdelta_push_report report = WDELTA_PUSH_REPORT_INIT;
    set_model(m, step + i);
    report = commit(begin(repository, m, &push_options));
    CHECK(report.created && (i == 0 || !report.compared_with_repository));
  }
  if (status != WDELTA_DONE) fprintf(stderr, "%s\n%s\n", error.message, error.hint);
  free(m);
  wdelta_close(repository);
  return status != WDELTA_DONE ? status : failures;
}

static int fill(const char* location, const char* revision) {
  const wdelta_repository_options options = options_of_environment();
  wdelta_repository* repository = NULL;
  wdelta_commit* opened = NULL;
  wdelta_commit_summary summary = WDELTA_COMMIT_SUMMARY_INIT;
  wdelta_error error;
  wdelta_status status = wdelta_open(location, &options, &repository, &error);
  if (status == WDELTA_DONE) status = wdelta_commit_open(repository, revision, NULL, &opened, &error);
  if (status == WDELTA_DONE) status = wdelta_commit_summarise(opened, &summary, &error);
  for (size_t i = 0; status == WDELTA_DONE && i < summary.tensor_count; ++i) {
    wdelta_tensor_description found = WDELTA_TENSOR_DESCRIPTION_INIT;
    wdelta_tensor t = WDELTA_TENSOR_INIT;
    status = wdelta_commit_tensor(opened, i, &found, &error);
    if (status != WDELTA_DONE) break;
    t = tensor(found.name, found.dtype, found.shape, found.dimensions, malloc((size_t)found.size_bytes + 1));
    t.file = found.file;
    status = wdelta_commit_fill(opened, &t, 1, &error);
    free(t.elements);
  }
  if (status != WDELTA_DONE) fprintf(stderr, "%s\n%s\n", error.message, error.hint);
  wdelta_commit_free(opened);
  wdelta_close(repository);
  return status;
}

int main(int count, char** words) {
  if (count == 4 && strcmp(words[1], "fill") == 0) return fill(words[2], words[3]);
  if (count == 4 && strcmp(words[1], "push") == 0) return push_twice(words[2], atoi(words[3]));
  if (count != 3 || strcmp(words[1], "all") != 0) {
    fprintf(stderr, "usage: laws all FOLDER | laws fill REPOSITORY REVISION | laws push REPOSITORY STEP\n");
    return 2;
  }
  scratch = words[2];
  RUN(errors_are_statuses_with_a_message_and_structs_of_other_sizes_are_understood);
  RUN(what_no_file_can_hold_is_refused_and_leaves_the_push_as_it_was);
  RUN(a_commit_holds_what_was_pushed_whatever_happens_to_copied_tensors_then);
  RUN(a_push_compares_with_the_reference_copy_and_copied_and_borrowed_make_the_same_commit);
  RUN(a_borrowed_tensor_that_changes_while_it_is_pushed_is_refused_and_the_branch_stays);
  RUN(strided_tensors_are_gathered_and_filled);
  RUN(dlpack_tensors_are_taken_over_and_given_back);
  RUN(large_checkpoints_have_shards_and_a_name_may_be_in_several_files);
  RUN(a_cancelled_push_leaves_the_branch_where_it_was);
  RUN(threads_with_handles_of_their_own_and_threads_that_share_one_lose_no_commit);
  RUN(settings_count_before_the_environment);
  RUN(tensors_of_a_device_that_is_not_there_are_refused_with_the_reason);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
