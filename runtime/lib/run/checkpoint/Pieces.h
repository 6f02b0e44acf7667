//===- Pieces.h - where a checkpoint's tensors lie in an argument ---------===//
#ifndef MOERT_RUN_CHECKPOINT_PIECES_H
#define MOERT_RUN_CHECKPOINT_PIECES_H

#include "run/Tensor.h"

namespace moert::run {

/// Rows of a tensor in memory: `count` rows, which begin at row `first`.
struct RowBlock {
  char *bytes;
  int64_t first, count;
};

/// Tensor of a checkpoint, seen as rows, and the window of it that an argument has: element [rowBegin + i, begin + j]
/// is element at + i rowStride + j stride of the argument.
struct Piece {
  std::string tensor;
  std::vector<int64_t> shape; ///< shape of the tensor
  int64_t length = 1;         ///< length of the tensor's rows
  int64_t rowBegin = 0, rows = 1;
  int64_t begin = 0, columns = 1;
  int64_t at = 0, rowStride = 1, stride = 1;

  int64_t elements() const { return rows * columns; }
  /// Range of the argument's elements that has those of the piece.
  int64_t first() const { return at; }
  int64_t span() const { return elements() ? (rows - 1) * rowStride + (columns - 1) * stride + 1 : 0; }
  /// Whether some of the rows belong to the piece.
  bool meets(const RowBlock &block) const {
    return block.first < rowBegin + rows && rowBegin < block.first + block.count;
  }
};

/// Pieces that have each element of `value`, which has a source, once.
std::vector<Piece> piecesOf(const Value &value);

/// Pieces of the same window of a tensor [experts, R, C] that is stored as [experts, C, R]: one for each expert that
/// has rows of it.
std::vector<Piece> transposed(const Piece &piece);

/// moert_dtype of a file's floating-point type, which is converted from and to the arguments' types: F32, F64, BF16 or
/// F16. -1 for other types.
int32_t floatingType(const std::string &dtype);
inline bool isConvertible(const std::string &dtype) { return floatingType(dtype) >= 0; }

/// Copies the part of the piece that `block` has into the argument. `dtype` is the tensor's.
void readPiece(const Piece &piece, const RowBlock &block, const std::string &dtype, const Tensor &argument);
/// Copies in the other direction; `elements` are those of the argument, of type `type`, from piece.first() on.
void writePiece(const Piece &piece, const RowBlock &block, const std::string &dtype, int32_t type,
                const char *elements);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_PIECES_H
