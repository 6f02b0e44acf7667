//===- Pieces.h - pieces of memory as an MPI message ----------------------===//
#ifndef MOERT_MPI_PIECES_H
#define MOERT_MPI_PIECES_H

#include "core/Exchange.h"

#include <mpi.h>

namespace moert::mpi {

/// Largest count that is passed to MPI, whose counts are ints.
constexpr int64_t kMostCount = int64_t(1) << 30;

/// A message of pieces of an operand. Lengths and offsets may pass 2 GiB.
class PiecesType {
public:
  explicit PiecesType(const Pieces &pieces, int64_t mostBytes = kMostCount);
  ~PiecesType();
  PiecesType(const PiecesType &) = delete;
  PiecesType &operator=(const PiecesType &) = delete;

  MPI_Datatype get() const { return type; }
  int64_t bytes() const { return total; }

private:
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int64_t total = 0;
};

/// Calls function(first, count) for `count` elements in parts of at most `most`.
template <class Function> void forParts(int64_t count, int64_t most, Function function) {
  for (int64_t first = 0; first < count; first += most)
    function(first, static_cast<int>(std::min(most, count - first)));
}

} // namespace moert::mpi

#endif // MOERT_MPI_PIECES_H
