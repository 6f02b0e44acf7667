//===- SimWorld.h - programs, checked and linked ----------------*- C++ -*-===//
//
// What the engines need of all programs together: which rank runs which, which launch waits for which, and which
// collectives meet. Records and waits come down to edges between launches here, so that an engine counts and never
// searches.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_SIMWORLD_H
#define MOE_SIMULATOR_SIMWORLD_H

#include "moe/Simulator/Program.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::moe {

struct LinkedLaunch {
  uint32_t stream = 0;
  Resource resource = Resource::None;
  int32_t group = -1;   ///< into SimWorld::groups, of a collective
  uint32_t meeting = 0; ///< its number among the program's collectives of that group
  /// Into LinkedProgram: launches that have to be done before, the stream's previous one among them, and the inverse.
  uint32_t firstDep = 0, endDep = 0;
  uint32_t firstSuccessor = 0, endSuccessor = 0;

  /// Whether members exchange data. Others that are collective only say something of it and take no time.
  bool exchanges() const { return group >= 0 && resource == Resource::Network; }
  uint32_t getNumDeps() const { return endDep - firstDep; }
};

struct LinkedProgram {
  std::vector<LinkedLaunch> launches;
  std::vector<uint32_t> deps, successors;
  std::vector<std::vector<uint32_t>> meetings; ///< by group of the world: launches in program order

  llvm::ArrayRef<uint32_t> getDeps(uint32_t launch) const {
    return llvm::ArrayRef(deps).slice(launches[launch].firstDep, launches[launch].getNumDeps());
  }
  llvm::ArrayRef<uint32_t> getSuccessors(uint32_t launch) const {
    const LinkedLaunch &linked = launches[launch];
    return llvm::ArrayRef(successors).slice(linked.firstSuccessor, linked.endSuccessor - linked.firstSuccessor);
  }
};

/// One meeting of one instance of a group.
struct MeetingId {
  uint32_t group = 0, instance = 0, number = 0;
};

struct SimWorld {
  llvm::ArrayRef<SimProgram> programs;
  std::vector<LinkedProgram> linked;   ///< as programs
  std::vector<SimGroup> groups;        ///< of all programs; one for each size and stride
  std::vector<uint32_t> programOfRank; ///< by rank
  uint32_t numStreams = 0;             ///< the most of a program

  /// `programs` must outlive the world. Fails where they do not cover `ranks` ranks once, where an index is out of
  /// range, where a wait has no record before it, and where a cost contradicts itself.
  static llvm::Expected<SimWorld> create(llvm::ArrayRef<SimProgram> programs, int64_t ranks);

  int64_t getNumRanks() const { return static_cast<int64_t>(programOfRank.size()); }
  const SimProgram &getProgram(int64_t rank) const { return programs[programOfRank[rank]]; }
  const LinkedProgram &getLinked(int64_t rank) const { return linked[programOfRank[rank]]; }
  const SimLaunch &getLaunch(int64_t rank, uint32_t launch) const { return getProgram(rank).launches[launch]; }
  int64_t getRank(const MeetingId &id, int64_t member) const { return groups[id.group].getRank(id.instance, member); }
  MeetingId getMeeting(int64_t rank, uint32_t launch) const;
  /// The launch with which `rank` comes to a meeting; none where its program ends before.
  std::optional<uint32_t> getMeetingLaunch(int64_t rank, const MeetingId &id) const;
};

/// "launch 3, 'matmul' (layer0)".
std::string describe(const SimProgram &program, uint32_t launch);
/// An error of a launch.
llvm::Error makeLaunchError(const SimProgram &program, uint32_t launch, const llvm::Twine &what);
/// The same with what another error says.
llvm::Error addLaunch(llvm::Error error, const SimProgram &program, uint32_t launch);
llvm::Error addContext(llvm::Error error, const llvm::Twine &context);
llvm::Error makeError(const llvm::Twine &what);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_SIMWORLD_H
