//===- PieceCopies.cu - many copies by one kernel -------------------------===//

#include "cuda/Map.cuh"
#include "cuda/PieceCopies.h"

namespace moert::cuda {
namespace {

/// Units that a block copies at a time. Portions keep all blocks busy for copies of any size.
constexpr int kPortion = 1024;

/// Table of at most `Most` copies. It is a parameter of the kernel, which CUDA limits to 32764 bytes.
template <int Most> struct CopyTable {
  PieceCopy copies[Most];
  int64_t firstPortion[Most]; ///< number of the copy's first portion among all
  int64_t portions = 0;
  int count = 0;
};

template <class Unit, int Most>
__global__ void __launch_bounds__(kThreads) copyPiecesKernel(const __grid_constant__ CopyTable<Most> table) {
  for (int64_t portion = blockIdx.x; portion < table.portions; portion += gridDim.x) {
    const int64_t *first = table.firstPortion;
    const auto number = std::upper_bound(first + 1, first + table.count, portion) - first - 1;
    const PieceCopy &copy = table.copies[number];
    const int64_t units = copy.bytes / static_cast<int64_t>(sizeof(Unit));
    const int64_t begin = (portion - first[number]) * kPortion;
    const int64_t left = units * copy.count - begin;
    const int64_t firstRun = begin / units, firstUnit = begin % units;
    for (int i = threadIdx.x; i < kPortion && i < left; i += blockDim.x) {
      int64_t run = firstRun, unit = firstUnit + i;
      if (units > kPortion) {
        // No second run ends in this portion. The branch avoids a slow division of 64 bits.
        if (unit >= units) {
          unit -= units;
          ++run;
        }
      } else {
        run += static_cast<unsigned>(unit) / static_cast<unsigned>(units);
        unit = static_cast<unsigned>(unit) % static_cast<unsigned>(units);
      }
      reinterpret_cast<Unit *>(copy.to + run * copy.toStep)[unit] =
          reinterpret_cast<const Unit *>(copy.from + run * copy.fromStep)[unit];
    }
  }
}

template <class Unit, int Most> Status launchTable(const Target &target, std::span<const PieceCopy> copies) {
  CopyTable<Most> table;
  for (const PieceCopy &copy : copies) {
    table.copies[table.count] = copy;
    table.firstPortion[table.count++] = table.portions;
    table.portions += divideUp(copy.bytes / static_cast<int64_t>(sizeof(Unit)) * copy.count, kPortion);
  }
  return launch(copyPiecesKernel<Unit, Most>, gridOf(target, table.portions * kThreads), target, table);
}

/// Launches with the smallest table that fits, because a launch copies the whole table. Uses several launches if no
/// table fits.
template <class Unit> Status launchBy(const Target &target, std::span<const PieceCopy> copies) {
  constexpr size_t kFew = 32, kMost = 480;
  if (copies.size() <= kFew)
    return launchTable<Unit, kFew>(target, copies);
  for (size_t begin = 0; begin < copies.size(); begin += kMost)
    MOERT_RETURN_IF_ERROR(
        (launchTable<Unit, kMost>(target, copies.subspan(begin, std::min(kMost, copies.size() - begin)))));
  return {};
}

/// Whether `next` continues `copy` on both sides.
bool isBeside(const PieceCopy &copy, const PieceCopy &next) {
  return copy.count == 1 && copy.from + copy.bytes == next.from && copy.to + copy.bytes == next.to;
}

/// Whether `next` is a further run of `copy`. The second run may be anywhere.
bool isFurtherRun(PieceCopy &copy, const PieceCopy &next) {
  if (copy.bytes != next.bytes || next.count != 1)
    return false;
  if (copy.count > 1)
    return copy.from + copy.count * copy.fromStep == next.from && copy.to + copy.count * copy.toStep == next.to;
  copy.fromStep = next.from - copy.from;
  copy.toStep = next.to - copy.to;
  return true;
}

} // namespace

void PieceCopies::add(const PieceCopy &copy) {
  if (copy.bytes <= 0 || copy.count <= 0 || (copy.from == copy.to && copy.fromStep == copy.toStep))
    return;
  if (!copies.empty() && isFurtherRun(copies.back(), copy))
    ++copies.back().count;
  else
    copies.push_back(copy);
}

void PieceCopies::add(const char *from, const Pieces &fromPieces, char *to, const Pieces &toPieces) {
  PieceCopy joined;
  for (size_t i = 0; i < fromPieces.size(); ++i) {
    const PieceCopy piece{from + fromPieces[i].offset, to + toPieces[i].offset, fromPieces[i].bytes};
    if (piece.bytes == 0)
      continue;
    if (joined.bytes > 0 && isBeside(joined, piece)) {
      joined.bytes += piece.bytes;
      continue;
    }
    add(joined);
    joined = piece;
  }
  add(joined);
}

Status PieceCopies::launch(const Target &target) const {
  if (copies.empty())
    return {};
  uintptr_t all = 0;
  for (const PieceCopy &copy : copies)
    all |= reinterpret_cast<uintptr_t>(copy.from) | reinterpret_cast<uintptr_t>(copy.to) |
           static_cast<uintptr_t>(copy.bytes | copy.fromStep | copy.toStep);
  return withWidestUnit(all, [&]<class T>(Type<T>) { return launchBy<T>(target, copies); });
}

} // namespace moert::cuda
