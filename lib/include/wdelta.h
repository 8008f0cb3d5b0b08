/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwdelta: commits of tensors in memory, git for weights from inside a training or serving process.
 *
 * Push:   wdelta_open, wdelta_push_begin, wdelta_push_add ..., wdelta_push_commit, wdelta_push_free, wdelta_close
 * Fetch:  wdelta_open, wdelta_commit_open, wdelta_commit_fill, wdelta_commit_free, wdelta_close
 *
 * What a repository, a branch, a revision and a commit are: wdelta(1). The files that a push from memory makes:
 * wdelta-library(3), "Layout". A commit made here and one made by the program of the same files are the same to both.
 *
 * Errors. Every function that can fail returns a wdelta_status, whose numbers are the program's exit statuses, and
 *   fills the caller's wdelta_error where that is not NULL. Nothing is thrown, printed, or ended.
 * Strings are UTF-8, end with a zero byte, and are copied during the call. Those that the library returns are its own
 *   and live as long as the handle that they were asked of, unless it says otherwise.
 * Options are structs whose first member is their size: initialise them with the INIT macro (all other members zero),
 *   then set what should not be as by default. Programs built with this header go on working with later libraries.
 * Threads. Functions without a handle may be called by any thread at any time. One wdelta_repository may be used by
 *   several threads at once; pushes of one repository handle queue for each other. A wdelta_push and a wdelta_commit
 *   are used by one thread at a time, but for wdelta_push_cancel and wdelta_commit_cancel, which any thread may call
 *   as long as the handle lives. Handles may be freed in any order: what a push needs of its repository stays.
 *   After fork() the child must not touch handles of its parent.
 * Environment. The library reads no variables by itself: see wdelta_repository_options. (One exception is libcurl's
 *   own: it takes its proxies from http_proxy, https_proxy, all_proxy and no_proxy.)
 */
#ifndef WDELTA_H
#define WDELTA_H

#include <stddef.h>
#include <stdint.h>

/* What the INIT macros stand for: the size, and zeros. */
#ifdef __cplusplus
template <typename Type>
inline Type wdelta_sized() {
  Type sized = Type();
  sized.struct_size = sizeof(Type);
  return sized;
}
#define WDELTA_SIZED(type) wdelta_sized<type>()
#else
#define WDELTA_SIZED(type) \
  { .struct_size = sizeof(type) }
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WDELTA_API __attribute__((visibility("default")))
#else
#define WDELTA_API
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------- */

/* An integer of 32 bits whatever the compiler makes of enums. */
typedef int32_t wdelta_status;
enum {
  WDELTA_DONE = 0,
  WDELTA_INTERNAL = 1,      /* a bug in the library */
  WDELTA_USAGE = 2,         /* the caller asked for something that makes no sense */
  WDELTA_LOCAL = 3,         /* a file, memory or device here failed; a tensor changed while it was read */
  WDELTA_NOT_FOUND = 4,     /* no such repository, revision, file or tensor */
  WDELTA_CORRUPT = 5,       /* bytes are not what they claim to be */
  WDELTA_BASE_MISMATCH = 6, /* a delta was offered a base that it was not made from */
  WDELTA_CONFLICT = 7,      /* someone else pushed first, or the tag is taken: push again */
  WDELTA_NETWORK = 8,       /* a remote store failed */
  WDELTA_UNSUPPORTED = 9,   /* this build, store, device or processor cannot do it */
  WDELTA_VERIFICATION = 10, /* a check found a difference */
  WDELTA_INTERRUPTED = 130  /* cancelled; nothing half-done is left */
};

/* What went wrong, in the caller's memory; cut at the end of a character where it would not fit. Written by every call
 * that is given one: after WDELTA_DONE both texts are empty. */
typedef struct wdelta_error {
  wdelta_status status;
  char message[1532]; /* one line, "object: what is wrong: reason" */
  char hint[512];     /* the way out, or empty */
} wdelta_error;

/* "0.1.0". */
WDELTA_API const char* wdelta_version(void);
/* A status in words, for instance "conflict: someone else was first"; "unknown" for a number that is none. */
WDELTA_API const char* wdelta_status_text(wdelta_status status);
/* The name of the engine that "auto" (or another name) stands for on this machine, for instance "avx512". */
WDELTA_API wdelta_status wdelta_engine(const char* name, const char** chosen, wdelta_error* error);
/* Whether tensors in the memory of a CUDA device can be read and filled: 1 or 0. `reason`, where it is not NULL, is
 * told the device's name or what is missing; that text is never freed. */
WDELTA_API int wdelta_cuda(const char** reason);

/* ---- Repositories -------------------------------------------------------------------------------------------- */

typedef struct wdelta_repository wdelta_repository;

/* The value of a variable, or NULL where it is not set. The result must live until the next call. Called only while
 * wdelta_open and wdelta_push_begin run, by their thread. */
typedef const char* (*wdelta_getenv)(const char* name, void* context);
/* The variables of this process, by getenv(): what the program `wdelta` goes by. `context` is not looked at. As with
 * getenv(), no other thread may change the environment meanwhile. */
WDELTA_API const char* wdelta_environment_of_process(const char* name, void* context);

/* Told how work goes on. Any may be NULL. They are called by threads of the library, one call at a time for each
 * handle (several handles that share them may call at a time), and must not call the library with that handle, except
 * to cancel. */
typedef struct wdelta_callbacks {
  size_t struct_size;
  void* context; /* given to both */
  /* `done` of `total` bytes of the stretch of work that is called `label` ("pushing"); total may be 0, when nobody
   * knows. Called at most some ten times a second, when a stretch begins, and while a network is waited for, "opening"
   * a repository included. A result that is not 0 cancels the call. */
  int (*progress)(void* context, const char* label, uint64_t done, uint64_t total);
  /* Something worth knowing that is no error: one line. */
  void (*note)(void* context, const char* text);
} wdelta_callbacks;
#define WDELTA_CALLBACKS_INIT WDELTA_SIZED(wdelta_callbacks)

/* What is made where it is not there. */
enum {
  WDELTA_CREATE_NOTHING = 0, /* then there must be a repository */
  WDELTA_CREATE_REPOSITORY = 1,
  WDELTA_CREATE_BUCKET = 2,        /* the bucket too; on the Hub, for all to read */
  WDELTA_CREATE_PRIVATE_BUCKET = 3 /* the same, for its owner only */
};

typedef struct wdelta_repository_options {
  size_t struct_size;
  /* What the program takes from its environment: state directory, credentials, endpoints, staging directory, engine,
   * author: the variables of wdelta(1), "Environment", and those that name the files in which AWS's and the Hub's
   * own programs keep credentials. `settings` is an array of "NAME=VALUE" that ends with NULL, or NULL; what it does
   * not name is asked of `environment`, or is not set where that is NULL. So { NULL, NULL } is a process without any
   * variable, { NULL, wdelta_environment_of_process } is as on the command line, and settings beside it count first:
   * { "WDELTA_STATE_DIR=/scratch/state", "AWS_PROFILE=training", NULL }. An empty value is as good as none. */
  const char* const* settings;
  wdelta_getenv environment;
  void* environment_context;
  int32_t create;                    /* one of WDELTA_CREATE_... */
  uint32_t threads;                  /* how many may work on one push or fill; 0: one for each core that the caller
                                        may use, and one more where one has to wait */
  const char* engine;                /* "auto", "scalar", "avx2", ...; NULL: the variable WDELTA_ENGINE, else "auto" */
  uint32_t transfers;                /* at most so many objects or parts at a time; 0: 8 */
  uint64_t bytes_per_second;         /* of all transfers together; 0: no limit */
  const wdelta_callbacks* callbacks; /* copied; for pushes and commits that have none of their own; NULL: none */
} wdelta_repository_options;
#define WDELTA_REPOSITORY_OPTIONS_INIT WDELTA_SIZED(wdelta_repository_options)

/* Opens a repository: a path, file://, s3:// or hf://buckets/ location. `options` may be NULL: all by default, no
 * environment. On failure *repository is NULL. */
WDELTA_API wdelta_status wdelta_open(const char* location, const wdelta_repository_options* options,
                                     wdelta_repository** repository, wdelta_error* error);
/* Frees it and its reference copies. NULL is no error. */
WDELTA_API void wdelta_close(wdelta_repository* repository);

/* The commit that a revision names ("main", a tag, "step:100", "main~2", an id's first 8 or more digits; "" is the tip
 * of main): 64 hexadecimal digits and a zero byte are written to `id`. */
WDELTA_API wdelta_status wdelta_resolve(wdelta_repository* repository, const char* revision, char id[65],
                                        wdelta_error* error);

/* How many bytes of memory this handle's reference copies take, and how to be rid of them, and of memory that is kept
 * for the next push's copies: then that push reads the previous state out of the repository. wdelta_drop_references
 * waits for a push that runs. */
WDELTA_API uint64_t wdelta_reference_bytes(wdelta_repository* repository);
WDELTA_API void wdelta_drop_references(wdelta_repository* repository);

/* ---- Tensors ------------------------------------------------------------------------------------------------- */

/* Where a tensor's memory is. */
enum {
  WDELTA_HOST = 0, /* the processor can read it: pinned and managed memory too */
  WDELTA_CUDA = 1  /* on a CUDA device */
};

/* A tensor of the caller's: to be pushed, or to be filled. Numbers are little-endian, as the machine has them. */
typedef struct wdelta_tensor {
  size_t struct_size;
  const char* name;     /* unique in its file; neither empty nor "__metadata__" */
  const char* dtype;    /* as safetensors writes it: "BF16", "F16", "F32", "F64", "F8_E4M3", "I64", "U8", "BOOL", ... */
  uint32_t dimensions;  /* 0: a single number */
  const int64_t* shape; /* one for each dimension; may be NULL where there is none */
  const int64_t* strides; /* in elements, one for each dimension, 0 and less too when pushed; NULL: row-major without
                             gaps, as dtypes narrower than a byte (F4, F6_...) must be */
  void* elements;         /* the element at index 0, 0, ...; any alignment. A push never writes to it. */
  int32_t device;         /* WDELTA_HOST or WDELTA_CUDA */
  int32_t device_index;   /* which one, for whoever reads this: the CUDA runtime knows whose memory it is */
  void* stream;           /* a cudaStream_t: what is queued there now is done before the tensor is read, and what a
                             fill wrote is there for work queued later. NULL: the default one. Host: not looked at. */
  const char* file;       /* the file of a commit that it is in: NULL as a rule, see wdelta_push_options.weights_path.
                             When filling: needed only where a name is in several files. */
} wdelta_tensor;
#define WDELTA_TENSOR_INIT WDELTA_SIZED(wdelta_tensor)

/* A DLPack tensor, in either form: declared here, defined by dlpack.h, which need not be included. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* ---- Pushing ------------------------------------------------------------------------------------------------- */

typedef struct wdelta_push wdelta_push;

/* When a push reads what it is given. */
enum {
  /* wdelta_push_add copies: the tensor is the caller's again when it returns, so that training goes on while another
   * thread commits. Takes as much host memory as the tensors have bytes, until the push is freed; with
   * WDELTA_REFERENCE_HOST these copies then become the reference copy, and the memory of the one before is kept for
   * the copies of the next push: from the second push on there is memory for two. Where a tensor of 4 MiB or more
   * comes from a CUDA device that memory is pinned, so that the device copies by itself. */
  WDELTA_TENSORS_COPIED = 0,
  /* wdelta_push_commit reads, twice: the tensors must stay as they are until it returns. No memory but what each
   * thread works in. Each 256 KiB is read against the digest that its first reading gave: where a tensor changed in
   * between, the push fails with WDELTA_LOCAL; what becomes of the branch says wdelta_push_commit. */
  WDELTA_TENSORS_BORROWED = 1
};

/* What the next push of this repository handle to this branch compares with. A reference copy is believed only once its
 * digests are those of the commit that the branch stands at: where they are not, the repository is read. */
enum {
  /* A copy of what was pushed, in host memory: as many bytes as its files have. */
  WDELTA_REFERENCE_HOST = 0,
  /* Nothing: it is read out of the repository, as large as it is, or rebuilt from what is there. No memory. */
  WDELTA_REFERENCE_REPOSITORY = 1,
  /* A copy in the memory of the CUDA device, as many bytes. With the engine "cuda" tensors that lie there are compared
   * there, and only what changed comes to the host; copies of WDELTA_TENSORS_COPIED are on the device too, then. */
  WDELTA_REFERENCE_DEVICE = 2
};

/* Whether weights are stored whole as well, once the branch has moved: wdelta-push(1), --anchor. */
enum { WDELTA_ANCHOR_AUTO = 0, WDELTA_ANCHOR_NEVER = 1, WDELTA_ANCHOR_NOW = 2 };

typedef struct wdelta_push_options {
  size_t struct_size;
  const char* branch;  /* NULL: "main". It is made where there is none. */
  const char* message; /* NULL: empty */
  const char* author;  /* NULL: "user@host" as the program has it */
  const char* tag;     /* a tag for the commit; NULL: none */
  uint64_t step;       /* counts where has_step is not 0 */
  int32_t has_step;
  int32_t tensors;                   /* one of WDELTA_TENSORS_... */
  int32_t reference;                 /* one of WDELTA_REFERENCE_... */
  int32_t anchor;                    /* one of WDELTA_ANCHOR_... */
  int32_t compress_whole;            /* not 0: weights that are stored whole are stored compressed */
  const char* weights_path;          /* the place of tensors that name no file; NULL: "model.safetensors" */
  uint64_t largest_shard_bytes;      /* beyond it tensors go to several files, with an index; 0: 5,000,000,000 */
  const wdelta_callbacks* callbacks; /* copied; NULL: those of the repository */
} wdelta_push_options;
#define WDELTA_PUSH_OPTIONS_INIT WDELTA_SIZED(wdelta_push_options)

/* Begins a push. Nothing is read or written yet. `options` may be NULL. On failure *push is NULL. */
WDELTA_API wdelta_status wdelta_push_begin(wdelta_repository* repository, const wdelta_push_options* options,
                                           wdelta_push** push, wdelta_error* error);
/* Adds a tensor. The order in which tensors come makes no difference. On failure the push is as it was before. */
WDELTA_API wdelta_status wdelta_push_add(wdelta_push* push, const wdelta_tensor* tensor, wdelta_error* error);
/* Adds a DLPack tensor under a name. `dtype` NULL: that of the DLPack tensor; else a dtype of the same width, for
 * frameworks that hand over what DLPack has no name for as bytes. `stream` as in wdelta_tensor. On success the tensor
 * belongs to the library, which calls its deleter in the thread of one of its calls with this push: before this one
 * returns where tensors are copied, in wdelta_push_free at the latest. On failure it stays the caller's. */
WDELTA_API wdelta_status wdelta_push_add_dlpack(wdelta_push* push, const char* name, const char* dtype,
                                                struct DLManagedTensor* tensor, void* stream, wdelta_error* error);
WDELTA_API wdelta_status wdelta_push_add_dlpack_versioned(wdelta_push* push, const char* name, const char* dtype,
                                                          struct DLManagedTensorVersioned* tensor, void* stream,
                                                          wdelta_error* error);
/* Adds a side file (config.json, tokenizer.json) whose bytes are copied. `path` is its place: relative, parts separated
 * by '/'. A safetensors file may be added so too. */
WDELTA_API wdelta_status wdelta_push_add_file(wdelta_push* push, const char* path, const void* bytes, size_t size_bytes,
                                              wdelta_error* error);
/* Keeps a value under a key in the commit: --meta. The last one given counts. */
WDELTA_API wdelta_status wdelta_push_meta(wdelta_push* push, const char* key, const char* value, wdelta_error* error);
/* Keeps a value under a key in `__metadata__` of every file that is made of tensors. Without a call there is one entry,
 * "format": "pt", which loaders ask for; value NULL takes an entry away. */
WDELTA_API wdelta_status wdelta_push_file_metadata(wdelta_push* push, const char* key, const char* value,
                                                   wdelta_error* error);

typedef struct wdelta_push_report {
  size_t struct_size;
  char id[65];                      /* of the commit that the branch stands at now */
  char parent[65];                  /* of that commit; empty: it is the branch's first */
  int32_t created;                  /* 0: the tip was this already, and no commit was made */
  int32_t compared_with_repository; /* there was no reference copy of the commit that the branch stood at */
  uint64_t file_count;
  uint64_t checkpoint_bytes;
  uint64_t stored_bytes;  /* of objects written, without an anchor */
  uint64_t delta_bytes;   /* of deltas among them */
  uint64_t element_count; /* of tensors that were compared */
  uint64_t change_count;
  uint64_t anchor_bytes;
  uint64_t reference_bytes; /* of memory that this branch's reference copy takes now */
} wdelta_push_report;
#define WDELTA_PUSH_REPORT_INIT WDELTA_SIZED(wdelta_push_report)

/* Makes the commit. `report` may be NULL. The branch moves last: nobody sees a half-pushed commit, and a failure leaves
 * it where it was; but for what fails, or is cancelled, while a tag or an anchor is put behind the commit: then the
 * hint names the commit, which is there. After a failure it may be called again: what was added is still there, so a
 * lost race (WDELTA_CONFLICT) or a lost network is a matter of calling once more. After success only wdelta_push_free
 * is left. */
WDELTA_API wdelta_status wdelta_push_commit(wdelta_push* push, wdelta_push_report* report, wdelta_error* error);
/* Makes the call that works on this push, and every later one that takes long, end soon with WDELTA_INTERRUPTED; what
 * is done at once (a small tensor, a value, something to refuse) may be done as ever, but nothing is committed any
 * more. Any thread; not from a signal handler. A progress callback whose result is not 0 does the same. */
WDELTA_API void wdelta_push_cancel(wdelta_push* push);
/* Frees it; abandons what is not committed. NULL is no error. */
WDELTA_API void wdelta_push_free(wdelta_push* push);

/* ---- Reading a commit ---------------------------------------------------------------------------------------- */

typedef struct wdelta_commit wdelta_commit;

typedef struct wdelta_commit_summary {
  size_t struct_size;
  const char* id;     /* 64 hexadecimal digits */
  const char* parent; /* the same, or empty */
  const char* message;
  const char* author;
  const char* time; /* "2026-11-21T22:30:00Z" */
  uint64_t step;    /* counts where has_step is not 0 */
  int32_t has_step;
  size_t meta_count;
  const char* const* meta_keys;
  const char* const* meta_values;
  size_t file_count;
  size_t tensor_count;
} wdelta_commit_summary;
#define WDELTA_COMMIT_SUMMARY_INIT WDELTA_SIZED(wdelta_commit_summary)

typedef struct wdelta_file {
  size_t struct_size;
  const char* path;
  uint64_t size_bytes;
  const char* digest; /* BLAKE3, 64 hexadecimal digits: what b3sum says of the file */
} wdelta_file;
#define WDELTA_FILE_INIT WDELTA_SIZED(wdelta_file)

typedef struct wdelta_tensor_description {
  size_t struct_size;
  const char* name;
  const char* dtype;
  const char* file; /* the place of the safetensors file that it is in */
  uint32_t dimensions;
  const int64_t* shape;
  uint64_t size_bytes;
} wdelta_tensor_description;
#define WDELTA_TENSOR_DESCRIPTION_INIT WDELTA_SIZED(wdelta_tensor_description)

/* Opens the commit that a revision names, as in wdelta_resolve, and reads the headers of its safetensors files. What is
 * told of tensors is what these say, proven by digests once a fill is done, and before anything is refused for it.
 * `callbacks` may be NULL: those of the repository. On failure *commit is NULL. */
WDELTA_API wdelta_status wdelta_commit_open(wdelta_repository* repository, const char* revision,
                                            const wdelta_callbacks* callbacks, wdelta_commit** commit,
                                            wdelta_error* error);
/* What is told of it lives as long as `commit`; set struct_size first. */
WDELTA_API wdelta_status wdelta_commit_summarise(wdelta_commit* commit, wdelta_commit_summary* summary,
                                                 wdelta_error* error);
/* File `index`, from 0 on, ordered by path. */
WDELTA_API wdelta_status wdelta_commit_file(wdelta_commit* commit, size_t index, wdelta_file* file,
                                            wdelta_error* error);
/* Tensor `index`, from 0 on, ordered by name, then by file. */
WDELTA_API wdelta_status wdelta_commit_tensor(wdelta_commit* commit, size_t index, wdelta_tensor_description* tensor,
                                              wdelta_error* error);
/* The tensor of that name. `file` may be NULL unless the name is in several files. WDELTA_NOT_FOUND is proven: every
 * file that might have it is read, once for all calls, and WDELTA_CORRUPT unless it has its digest. */
WDELTA_API wdelta_status wdelta_commit_find(wdelta_commit* commit, const char* name, const char* file,
                                            wdelta_tensor_description* tensor, wdelta_error* error);

/* `tensors` is an array of `count`, each as large as the first one's struct_size says. Fills tensors of the caller's
 * with what the commit holds under their names: dtype and shape must be the same, strides, device and place need not.
 * One call for all of them reads every file that has any of them once, to its last byte, and compares it with its
 * digest: WDELTA_DONE means that the bytes are the commit's. Whenever else it ends the tensors hold anything. Tensors
 * that the commit does not have are WDELTA_NOT_FOUND, others are WDELTA_USAGE, before anything is written; for that,
 * too, files are compared with their digests first. Several tensors may be the same memory, read in the same order:
 * WDELTA_USAGE at the end where the commit has other bytes for one of them. Those that overlap in another way are
 * WDELTA_USAGE, before anything is written. */
WDELTA_API wdelta_status wdelta_commit_fill(wdelta_commit* commit, const wdelta_tensor* tensors, size_t count,
                                            wdelta_error* error);
/* Reads a whole file of the commit, compared with its digest, into memory of `size_bytes` bytes, which must be its size
 * (wdelta_commit_read_size). */
WDELTA_API wdelta_status wdelta_commit_read(wdelta_commit* commit, const char* path, void* bytes, size_t size_bytes,
                                            wdelta_error* error);
WDELTA_API wdelta_status wdelta_commit_read_size(wdelta_commit* commit, const char* path, uint64_t* size_bytes,
                                                 wdelta_error* error);
/* As wdelta_push_cancel: what is known without reading may be told as ever. */
WDELTA_API void wdelta_commit_cancel(wdelta_commit* commit);
/* NULL is no error. */
WDELTA_API void wdelta_commit_free(wdelta_commit* commit);

#ifdef __cplusplus
}
#endif

#endif
