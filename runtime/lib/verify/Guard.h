//===- Guard.h - memory that shows calls which leave their buffers --------===//
//
// Buffers of a plan are adjacent in an arena, so a kernel that writes past one of them damages the next, and no tool
// notices. MOERT_GUARD=BYTES finds such kernels. It splits an arena into pieces so that each operand of a call lies
// within one piece. Each piece, argument and result gets its own allocation, with BYTES guard bytes before and after
// it. Guard bytes are checked after each step.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_VERIFY_GUARD_H
#define MOERT_VERIFY_GUARD_H

#include "core/World.h"

#include <optional>

namespace moert::verify {

/// Number of size classes of values: those that are 1, 2 or 4 times as large as in the plan.
inline constexpr size_t kSizeClasses = 3;

/// Consecutive bytes of an arena. Each buffer lies completely inside or outside.
struct ArenaPiece {
  int64_t begin = 0, end = 0;
  std::vector<int32_t> ops;      ///< ops that use it, in the order of the program
  char *data[kSizeClasses] = {}; ///< address of byte `begin`, by size class
};

/// Reads MOERT_GUARD; no value if it is not set or empty.
Status readGuard(std::optional<int64_t> &width);

/// Lists the pieces of both arenas of a rank, in rising order.
Status listPieces(const Program &program, const std::vector<Group> &groups, ProgramEntry entry, int64_t rank,
                  std::array<std::vector<ArenaPiece>, 2> &pieces);

/// Finds the piece that contains these bytes; null if there is none.
const ArenaPiece *findPiece(const std::vector<ArenaPiece> &pieces, int64_t begin, int64_t end);

/// "bytes 0 to 48 of the device arena, used by op 0 matmul 'layer0'".
std::string pieceText(const Program &program, int32_t space, const ArenaPiece &piece);

/// Allocations with bytes before and after them that nobody may write.
class Fences {
public:
  explicit Fences(int64_t width = 0) : width(width) {}

  /// Allocates memory with fences at an address that is `phase` more than a multiple of 256.
  Status allocate(Device &device, int64_t rank, int32_t space, int64_t bytes, int64_t phase, const std::string &what,
                  char *&data);
  /// Fails if a byte of a fence has changed.
  Status check(Device &device) const;

private:
  struct Fence {
    int64_t rank;
    std::string what;
    char *begin;
    int64_t bytes;
    const char *side;
  };
  Status raise(Device &device, Fence fence);

  int64_t width;
  std::vector<Fence> fences;
};

} // namespace moert::verify

#endif // MOERT_VERIFY_GUARD_H
