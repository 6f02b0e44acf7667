//===- Pieces.cpp - where a checkpoint's tensors lie in an argument -------===//

#include "run/checkpoint/Pieces.h"
#include "core/Convert.h"
#include "run/checkpoint/Safetensors.h"

#include <algorithm>

namespace moert::run {
namespace {

/// Number of windows of tensors that alternate in the columns of a value.
int64_t partsOf(const Source &source) { return source.halves ? 2 : static_cast<int64_t>(source.tensors.size()); }

/// Turns a piece of one expert's matrix into a piece of the tensor with the matrices of all experts one below the
/// other.
void stack(Piece &piece, int64_t expert, const Source &source) {
  int64_t rows = 1;
  for (size_t dim = 0; dim + 1 < piece.shape.size(); ++dim)
    rows *= piece.shape[dim];
  piece.rowBegin += expert * rows;
  if (source.stacked == 2 && piece.shape.size() > 1)
    piece.shape[0] *= source.experts;
  else
    piece.shape.insert(piece.shape.begin(), source.experts);
}

/// Piece of block `block` of expert `expert` of part `part` of `value`; the matrix of one expert is `shape`.
Piece pieceOf(const Value &value, const std::vector<int64_t> &shape, size_t part, int64_t expert, int64_t block) {
  const Source &source = *value.source;
  int64_t parts = partsOf(source);
  int64_t columns = shape.empty() ? 1 : shape.back(), rows = 1;
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim)
    rows *= shape[dim];
  int64_t taken = columns / parts / source.blocks, width = source.of ? source.blocks * source.of : taken;
  int64_t begin = block * source.of + source.begin;
  if (source.halves) {
    width = parts * taken;
    begin = static_cast<int64_t>(part) * taken;
  }
  Piece piece;
  piece.tensor = source.tensors[source.halves ? 0 : part];
  if (source.experts)
    for (size_t at; (at = piece.tensor.find("{e}")) != std::string::npos;)
      piece.tensor.replace(at, 3, std::to_string(expert));
  piece.at = expert * rows * columns + block * taken * parts + static_cast<int64_t>(part);
  piece.shape = shape;
  if (!shape.empty())
    piece.shape.back() = width;
  if (source.transpose && shape.size() == 2) {
    std::swap(piece.shape[0], piece.shape[1]);
    piece.length = piece.columns = rows;
    piece.rowBegin = begin;
    piece.rows = taken;
    piece.rowStride = parts;
    piece.stride = columns;
  } else {
    piece.length = width;
    piece.rows = rows;
    piece.begin = begin;
    piece.columns = taken;
    piece.rowStride = columns;
    piece.stride = parts;
  }
  if (source.stacked)
    stack(piece, expert, source);
  if (source.isRow)
    piece.shape.insert(piece.shape.begin(), 1);
  return piece;
}

/// Calls visit(index in the block, index in the argument) for each element that both have.
template <class Visit> void forEachElement(const Piece &piece, const RowBlock &block, Visit visit) {
  // Tiles keep both sides of a transposition in the cache.
  constexpr int64_t kTile = 32;
  int64_t first = std::max(block.first, piece.rowBegin);
  int64_t end = std::min(block.first + block.count, piece.rowBegin + piece.rows);
  for (int64_t tile = 0; tile < piece.columns; tile += kTile)
    for (int64_t row = first; row < end; ++row) {
      int64_t from = (row - block.first) * piece.length + piece.begin;
      int64_t to = piece.at + (row - piece.rowBegin) * piece.rowStride;
      for (int64_t j = tile, e = std::min(tile + kTile, piece.columns); j < e; ++j)
        visit(from + j, to + j * piece.stride);
    }
}

/// Calls visit(File{}, Value{}) with the types of elements in a file and in an argument.
template <class Visit> void withTypes(const std::string &inFile, int32_t inArgument, Visit visit) {
  withAnyFloating(floatingType(inFile),
                  [&](auto file) { withAnyFloating(inArgument, [&](auto value) { visit(file, value); }); });
}

} // namespace

std::vector<Piece> piecesOf(const Value &value) {
  std::vector<int64_t> shape(value.shape.begin() + (value.source->experts ? 1 : 0), value.shape.end());
  std::vector<Piece> pieces;
  for (int64_t expert = 0; expert < std::max<int64_t>(1, value.source->experts); ++expert)
    for (size_t part = 0; part < static_cast<size_t>(partsOf(*value.source)); ++part)
      for (int64_t block = 0; block < value.source->blocks; ++block)
        pieces.push_back(pieceOf(value, shape, part, expert, block));
  return pieces;
}

std::vector<Piece> transposed(const Piece &piece) {
  std::vector<Piece> pieces;
  int64_t rows = piece.shape[1], columns = piece.shape[2];
  for (int64_t expert = 0; expert < piece.shape[0]; ++expert) {
    int64_t first = std::max(piece.rowBegin, expert * rows);
    int64_t end = std::min(piece.rowBegin + piece.rows, (expert + 1) * rows);
    if (first >= end)
      continue;
    Piece part = piece;
    part.shape = {piece.shape[0], columns, rows};
    part.length = rows;
    part.rowBegin = expert * columns + piece.begin;
    part.rows = piece.columns;
    part.begin = first - expert * rows;
    part.columns = end - first;
    part.at = piece.at + (first - piece.rowBegin) * piece.rowStride;
    std::swap(part.rowStride, part.stride);
    pieces.push_back(std::move(part));
  }
  return pieces;
}

int32_t floatingType(const std::string &dtype) {
  for (int32_t type : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16})
    if (dtype == fileDtype(type))
      return type;
  return -1;
}

void readPiece(const Piece &piece, const RowBlock &block, const std::string &dtype, const Tensor &argument) {
  withTypes(dtype, argument.dtype, [&]<class File, class Value>(File, Value) {
    const auto *from = reinterpret_cast<const File *>(block.bytes);
    auto *to = argument.as<Value>();
    forEachElement(piece, block, [&](int64_t i, int64_t j) { to[j] = convert<Value>(from[i]); });
  });
}

void writePiece(const Piece &piece, const RowBlock &block, const std::string &dtype, int32_t type,
                const char *elements) {
  withTypes(dtype, type, [&]<class File, class Value>(File, Value) {
    auto *to = reinterpret_cast<File *>(block.bytes);
    const auto *from = reinterpret_cast<const Value *>(elements);
    forEachElement(piece, block, [&](int64_t i, int64_t j) { to[i] = convert<File>(from[j - piece.first()]); });
  });
}

} // namespace moert::run
