//===- DroplessChunks.h - dropless rows in chunks of tokens ---------------===//
//
// What moert_route and moert_divide_choices share: both number the choices of tokens chunk by chunk.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_DROPLESSCHUNKS_H
#define MOERT_HOST_DROPLESSCHUNKS_H

#include "host/KernelSupport.h"

#include <limits>

namespace moert::host {

/// The first token of chunk `chunk` of `chunks`: token s is in chunk floor(s * chunks / tokens). That of chunk 1 is the
/// most tokens of a chunk.
inline int64_t firstToken(int64_t chunk, int64_t chunks, int64_t tokens) {
  return (chunk * tokens + chunks - 1) / chunks;
}

/// That `chunkRows` hold the choices of each of `chunks`, 1 or more; 0 with one chunk: all.
inline void checkDroplessChunks(Checker &check, int64_t tokens, int64_t choices, int64_t chunks, int64_t chunkRows) {
  // Also keeps what is computed of chunks * tokens small.
  check.that(chunks <= std::numeric_limits<int32_t>::max() && tokens <= std::numeric_limits<int32_t>::max(),
             [&] { return joined("expected at most 2^31 - 1 tokens and chunks but got ", tokens, " and ", chunks); });
  if (!check.ok())
    return;
  const int64_t most = firstToken(1, chunks, tokens) * choices;
  check.that(chunkRows >= most || (chunks == 1 && chunkRows == 0), [&] {
    return joined("expected 'chunk_rows' of ", most, " or more, the most choices of one of ", chunks,
                  " chunks, but got ", chunkRows);
  });
}

} // namespace moert::host

#endif // MOERT_HOST_DROPLESSCHUNKS_H
