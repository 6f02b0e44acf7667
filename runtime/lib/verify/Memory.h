//===- Memory.h - memory of ranks in runs that verify ---------------------===//
//
// Values may have another type than in the plan, begin as NaN, or have separate allocations (Guard.h).
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_VERIFY_MEMORY_H
#define MOERT_VERIFY_MEMORY_H

#include "core/Instrument.h"
#include "verify/Guard.h"

namespace moert::verify {

class Memory {
public:
  /// `guard`: bytes of each fence, or no value if pieces of an arena have no separate allocations.
  Memory(const WorldPrograms &programs, const std::vector<Group> &groups, const VerifyModes &modes,
         std::optional<int64_t> guard);

  /// Lists the bytes of whole arenas that calls use, if types change. Must be called first.
  Status listUses();
  bool isWide() const { return wideType != kPlanTypes; }
  int64_t bytesOf(const Value &value) const;
  double arenaBytes(const Program &program) const;
  Status allocate(Device &device, moert_rank &rank);
  Status place(const moert_rank &rank, const moert_buffer &buffer, int64_t begin, View &view) const;
  Status checkFences(Device &device) const { return fences.check(device); }

private:
  struct Bytes {
    int64_t begin, end;
  };
  /// Used bytes, by moert_space and size class.
  using Uses = std::array<std::array<std::vector<Bytes>, kSizeClasses>, 2>;
  /// Pieces, by moert_space. An arena without guards is one piece.
  using Pieces = std::array<std::vector<ArenaPiece>, 2>;

  static void join(std::vector<Bytes> &parts);
  int32_t typeOf(int32_t dtype) const;
  Status poison(Device &device, char *data, int64_t bytes) const;
  Status allocateBlock(Device &device, int64_t rank, int32_t space, int64_t bytes, int64_t phase,
                       const std::string &what, char *&data);
  Status listPiecesOf(const moert_rank &rank, Pieces &pieces) const;
  Status allocateArenas(Device &device, const moert_rank &rank, Pieces &pieces);
  Status poisonUses(Device &device, const moert_rank &rank, const Pieces &pieces) const;

  const WorldPrograms programs;
  const std::vector<Group> &groups;
  const int32_t wideType;
  const bool beginsAsNaN;
  const bool liesApart;
  int sizeClasses = 1;    ///< size classes of the programs' values
  std::vector<Uses> uses; ///< by program: bytes of the arenas that calls use, sorted
  Fences fences;
  std::vector<Pieces> ranks;
};

} // namespace moert::verify

#endif // MOERT_VERIFY_MEMORY_H
