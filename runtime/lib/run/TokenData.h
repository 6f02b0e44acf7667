//===- TokenData.h - a file of token ids as batches -------------*- C++ -*-===//
#ifndef MOERT_RUN_TOKENDATA_H
#define MOERT_RUN_TOKENDATA_H

#include "run/Tensor.h"

namespace moert::run {

/// A file that is mapped into memory, read-only: the system reads the pages that are used.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  Status open(const std::string &path);
  const char *bytes() const { return address; }
  int64_t size() const { return length; }
  /// Fails where the file has another size than when it was opened. Reading bytes that it has lost would end the
  /// process.
  Status checkSize() const;

private:
  std::string path;
  int descriptor = -1;
  const char *address = nullptr;
  int64_t length = 0;
};

/// How a file holds a token id.
struct TokenType {
  const char *name;  ///< as --data-type has it
  const char *descr; ///< as the header of a .npy file has it
  int64_t bytes;
  int64_t (*read)(const char *id);
};

/// A file of token ids, cut into sequences that begin at random places. The places depend on the seed, the step and the
/// number of the sequence in the step alone. So training can be resumed at any step, and the number of ranks does not
/// matter.
class TokenData {
public:
  struct Request {
    int64_t sequence;   ///< tokens of a sequence
    int64_t step;       ///< tokens of a step of all ranks, a multiple of `sequence`
    int64_t vocabulary; ///< ids are from 0 on and below this
    uint64_t seed;
  };

  /// Maps a file whose ids have `type`, a name of --data-type. An empty `type` stands for what the header of a .npy
  /// file says, and for the bytes of a text where there is no such header. Fails where the file and the type do not fit
  /// each other, or where the file is shorter than a step and the one token that follows it.
  Status open(const std::string &path, const std::string &type, const Request &request);

  /// Fills i32 values of `request.step` elements: the ids of the sequences of step `step`, and for each id the one that
  /// follows it. Fails where an id is not in the vocabulary.
  Status fill(int64_t step, Tensor &tokens, Tensor &labels) const;

  int64_t size() const { return count; }
  const TokenType &getType() const { return *type; }

private:
  Status findType(const std::string &name);
  Status parseNpy();
  Status checkText() const;
  Status error(const std::string &message) const;

  std::string path;
  MappedFile file;
  Request request = {};
  const TokenType *type = nullptr;
  const char *first = nullptr;
  int64_t count = 0;
};

/// The names of --data-type, with `separator` between them.
std::string tokenTypeNames(const std::string &separator = ", ");

} // namespace moert::run

#endif // MOERT_RUN_TOKENDATA_H
