//===- SimWorld.h - programs, checked and linked ----------------*- C++ -*-===//
//
// Facts that the engines need about all programs together: the program of each rank, the launches that each launch
// waits for, and the collectives that meet. Records and waits become edges between launches, so that an engine only has
// to count them.
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
  int32_t group = -1;   ///< index in SimWorld::groups; -1 if the launch is no collective
  uint32_t meeting = 0; ///< number among the program's collectives of that group
  /// Launches that this one waits for, with the stream's previous launch, and launches that wait for it.
  llvm::SmallVector<uint32_t, 2> deps, successors;

  /// Whether members exchange data. Other collectives only check or describe values, and take no time.
  bool exchanges() const { return group >= 0 && resource == Resource::Network; }
};

struct LinkedProgram {
  std::vector<LinkedLaunch> launches;
  std::vector<std::vector<uint32_t>> meetings; ///< launches in program order, by group of the world
};

/// A meeting of one instance of a group.
struct MeetingId {
  uint32_t group = 0, instance = 0, number = 0;
};

struct SimWorld {
  llvm::ArrayRef<SimProgram> programs;
  std::vector<LinkedProgram> linked;   ///< parallel to `programs`
  std::vector<SimGroup> groups;        ///< groups of all programs, each once
  std::vector<uint32_t> programOfRank; ///< by rank
  uint32_t numStreams = 0;             ///< most streams of a program

  /// `programs` must outlive the world. Fails if they do not cover each of `ranks` ranks once, if an index is out of
  /// range, if a wait has no record before it, or if a cost contradicts itself.
  static llvm::Expected<SimWorld> create(llvm::ArrayRef<SimProgram> programs, int64_t ranks);

  int64_t getNumRanks() const { return static_cast<int64_t>(programOfRank.size()); }
  const SimProgram &getProgram(int64_t rank) const { return programs[programOfRank[rank]]; }
  const LinkedProgram &getLinked(int64_t rank) const { return linked[programOfRank[rank]]; }
  const SimLaunch &getLaunch(int64_t rank, uint32_t launch) const { return getProgram(rank).launches[launch]; }
  int64_t getRank(const MeetingId &id, int64_t member) const { return groups[id.group].getRank(id.instance, member); }
  MeetingId getMeeting(int64_t rank, uint32_t launch) const;
  /// Launch with which `rank` comes to a meeting. None if its program ends before.
  std::optional<uint32_t> getMeetingLaunch(int64_t rank, const MeetingId &id) const;
};

/// "launch 3, 'matmul' (layer0)".
std::string describe(const SimProgram &program, uint32_t launch);
/// Makes an error about a launch.
llvm::Error makeLaunchError(const SimProgram &program, uint32_t launch, const llvm::Twine &what);
/// Adds the launch to the text of an error.
llvm::Error addLaunch(llvm::Error error, const SimProgram &program, uint32_t launch);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_SIMWORLD_H
