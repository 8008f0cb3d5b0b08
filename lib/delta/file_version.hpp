// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "delta/description.hpp"
#include "delta/rebuilt_file.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace wdelta {

/// A file that a rebuilt one starts from, and the digest that it must have.
struct Origin {
  std::shared_ptr<const ByteReader> file;
  Digest digest;
  Fault fault =
      Fault::base_mismatch;  ///< what it is when it has another: corrupt for an object that is named by its digest
};

/// One version of a checkpoint file: what it is, and how its bytes are had.
struct FileVersion {
  FileIdentity identity;
  std::shared_ptr<const RebuiltFile> rebuilt;  ///< made by deltas from `origins`; or null, and then
  std::shared_ptr<const ByteReader> whole;     ///< its bytes as they are
  std::vector<Origin> origins;                 ///< whole, or what `rebuilt` starts from

  const ByteReader& bytes() const { return whole ? *whole : *rebuilt; }
  std::shared_ptr<const ByteReader> reader() const {
    return whole ? whole : std::shared_ptr<const ByteReader>(rebuilt);
  }
};

FileVersion whole_version(FileIdentity identity, std::shared_ptr<const ByteReader> file, Fault fault_when_wrong);
/// What `delta` makes of `bases`, one for each that it names, in that order. Throws as RebuiltFile::from_delta() does.
FileVersion delta_version(const std::shared_ptr<const DeltaReader>& delta, const std::vector<FileVersion>& bases,
                          const Engine& engine);

/// What write_version() throws where an origin is not what it must be.
class WrongOrigin : public Error {
 public:
  WrongOrigin(const Origin& origin, const std::string& what)
      : Error(origin.fault, origin.file->name(), what), digest_(origin.digest) {}
  /// That it must have.
  const Digest& digest() const { return digest_; }

 private:
  Digest digest_;
};

/// Reads all of them, whatever was proven before. Throws WrongOrigin for the first that has another digest.
void require_origins(const std::vector<Origin>& origins, const Execution& execution);

/// Which origins turned out to be what they must be, for versions that start from the same: as where the tensors of
/// each file came from all of them. Safe to call from several threads.
class OriginProofs {
 public:
  /// Throws WrongOrigin when it has another digest. One that was right is not read again; who asks meanwhile waits.
  void require(const Origin& origin, const Execution& execution);

 private:
  struct Proof {
    std::mutex mutex;
    bool is_right = false;
  };
  std::mutex mutex_;
  std::map<Digest, Proof> proofs_;  // by what they must be
};

/// Writes all of `version` into `output` (not committed here) and proves it: every origin and the result are hashed, in
/// the same pass where the layout allows. Throws WrongOrigin with an origin's fault when it is not what it must be,
/// corrupt when the result is wrong although the origins are right. With a null `output` it only proves. `proofs`: of
/// versions that were written before, for those origins that take a pass of their own.
void write_version(const FileVersion& version, OutputFile* output, const Execution& execution, OriginProofs& proofs);
void write_version(const FileVersion& version, OutputFile* output, const Execution& execution);

}  // namespace wdelta
