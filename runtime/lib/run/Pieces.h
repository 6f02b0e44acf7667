//===- Pieces.h - where a checkpoint's tensors lie in an argument ---------===//
#ifndef MOERT_RUN_PIECES_H
#define MOERT_RUN_PIECES_H

#include "run/Tensor.h"

namespace moert::run {

/// A tensor of a checkpoint, seen as rows, and the window of it that an argument has: element [rowBegin + i, begin + j]
/// is element at + i rowStride + j stride of the argument.
struct Piece {
  std::string tensor;
  std::vector<int64_t> shape; ///< of the tensor
  int64_t length = 1;         ///< of the tensor's rows
  int64_t rowBegin = 0, rows = 1;
  int64_t begin = 0, columns = 1;
  int64_t at = 0, rowStride = 1, stride = 1;

  int64_t elements() const { return rows * columns; }
};

/// What `value`, which has a source, is made of: together exactly its elements.
std::vector<Piece> piecesOf(const Value &value);

/// The same window of a tensor [experts, R, C] that is stored as [experts, C, R]: a piece for each expert that has rows
/// of it.
std::vector<Piece> transposed(const Piece &piece);

/// Whether tensors of this dtype are converted from and to the arguments' types: F32, F64, BF16 and F16.
bool isConvertible(const std::string &fileDtype);

/// Rows of a tensor in memory: `count` of them from `first` on.
struct RowBlock {
  char *bytes;
  int64_t first, count;
};

/// Puts what `block` has of the piece into the argument, or the other way round. `dtype` is the tensor's.
void readPiece(const Piece &piece, const RowBlock &block, const std::string &dtype, const Tensor &argument);
void writePiece(const Piece &piece, const RowBlock &block, const std::string &dtype, const Tensor &argument);

} // namespace moert::run

#endif // MOERT_RUN_PIECES_H
