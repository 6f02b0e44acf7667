//===- Pieces.cpp - pieces of memory as an MPI message --------------------===//

#include "mpi/Pieces.h"

#include <algorithm>

namespace moert::mpi {

PiecesType::PiecesType(const Pieces &pieces, int64_t mostBytes) {
  std::vector<int> lengths;
  std::vector<MPI_Aint> offsets;
  for (const Piece &piece : pieces)
    forParts(piece.bytes, mostBytes, [&](int64_t first, int length) {
      total += length;
      MPI_Aint offset = piece.offset + first;
      bool follows =
          !lengths.empty() && offsets.back() + lengths.back() == offset && lengths.back() <= mostBytes - length;
      if (follows) {
        lengths.back() += length;
        return;
      }
      lengths.push_back(length);
      offsets.push_back(offset);
    });
  MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(), MPI_BYTE, &type);
  MPI_Type_commit(&type);
}

PiecesType::~PiecesType() { MPI_Type_free(&type); }

} // namespace moert::mpi
