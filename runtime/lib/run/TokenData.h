//===- TokenData.h - a file of token ids as batches -------------*- C++ -*-===//
#ifndef MOERT_RUN_TOKENDATA_H
#define MOERT_RUN_TOKENDATA_H

#include "run/Tensor.h"

namespace moert::run {

/// Representation of token ids in a file.
struct TokenType {
  const char *name;  ///< name in --data-type
  const char *descr; ///< name in the header of a .npy file
  int64_t bytes;
  int64_t (*read)(const char *id);
};

/// File of token ids, mapped into memory: the system reads only the used pages. It is cut into sequences that begin at
/// random places. The places depend only on the seed, the step and the number of the sequence in the step. So training
/// can be resumed at any step, and the number of ranks does not matter.
class TokenData {
public:
  TokenData() = default;
  TokenData(const TokenData &) = delete;
  TokenData &operator=(const TokenData &) = delete;
  ~TokenData();

  struct Request {
    int64_t sequence;   ///< number of tokens of a sequence
    int64_t step;       ///< number of tokens of a step of all ranks, a multiple of `sequence`
    int64_t vocabulary; ///< limit of the ids, which begin at 0
    uint64_t seed;
  };

  /// Maps a file whose ids have `type`, a name of --data-type. If `type` is empty, the header of a .npy file gives the
  /// type, and another file is a text of bytes. Fails if the file and the type do not match, or if the file is shorter
  /// than a step and the token after it.
  Status open(const std::string &path, const std::string &type, const Request &request);

  /// Fills i32 values of `request.step` elements: the ids of the sequences of step `step`, and the id after each of
  /// them. Fails if an id is not in the vocabulary.
  Status fill(int64_t step, Tensor &tokens, Tensor &labels) const;

  int64_t size() const { return count; }
  const TokenType &getType() const { return *type; }

private:
  Status map();
  Status checkSize() const;
  Status findType(const std::string &name);
  Status parseNpy();
  Status error(const std::string &message) const;

  std::string path;
  int descriptor = -1;
  std::string_view file; ///< contents
  Request request = {};
  const TokenType *type = nullptr;
  const char *first = nullptr;
  int64_t count = 0;
};

/// Names of --data-type, with `separator` between them.
std::string tokenTypeNames(const std::string &separator = ", ");

} // namespace moert::run

#endif // MOERT_RUN_TOKENDATA_H
