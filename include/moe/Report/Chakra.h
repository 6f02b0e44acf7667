//===- Chakra.h - a step as Chakra execution traces -------------*- C++ -*-===//
//
// MLCommons' form of each rank's operations in a training step, which ASTRA-sim simulates or replays.
// docs/Outputs.md, "Chakra execution traces", explains each node and attribute.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_REPORT_CHAKRA_H
#define MOE_REPORT_CHAKRA_H

#include "moe/Simulator/Report.h"
#include "moe/Simulator/SimWorld.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace moe_chakra {
class Node;
}

namespace mlir::moe {

/// The traces of all ranks of a step. Ranks that share a simulated rank share its times.
class ChakraTraces {
public:
  /// Fails if members of a group meet on streams of different names. `step` has all iterations and outlives the traces.
  static llvm::Expected<ChakraTraces> create(const SimHeader &header, const SimResult &step);

  int64_t getNumRanks() const { return world.getNumRanks(); }
  /// Writes the trace of a rank, and returns its bytes.
  uint64_t write(int64_t rank, llvm::raw_ostream &os) const;
  /// Approximate bytes of all traces: ranks that do the same differ by some bytes.
  uint64_t getBytes() const;
  /// Writes the communicators as ASTRA-sim reads them: {"ID": [RANK, ..], ..}.
  void writeGroups(llvm::raw_ostream &os) const;
  /// Sentences about the differences between the plan and ASTRA-sim's simulation of it.
  std::vector<std::string> getNotes() const;

private:
  /// A transfer from one rank to another.
  struct Transfer {
    bool isSend = false;
    int64_t peer = 0, bytes = 0;
    int64_t part = 0;      ///< number among the transfers of a pair of ranks in the launch
    bool passesOn = false; ///< whether it sends what the transfer before it has received
  };
  /// Time in which the host of a rank is busy before it issues a launch that was late.
  struct HostWait {
    double begin = 0, end = 0; ///< seconds
    int32_t after = -1;        ///< launch that the host waited for, if any
    int32_t before = -1;       ///< launch before which it was busy the last time, if any
  };
  /// A launch of all ranks of a class.
  struct TracedLaunch {
    const SimTime *time = nullptr;
    std::optional<HostWait> host;
    double begin = 0;  ///< seconds at which the rank comes to the launch
    int32_t turn = -1; ///< other exchange that ends earlier, and has its turn before this one; -1 if there is none
  };
  /// Nodes of a launch of a rank.
  struct NodeIds {
    uint64_t host = 0, first = 0;
    /// The last send and the last receive, or the only node.
    llvm::SmallVector<uint64_t, 2> last;
  };
  /// The world's group and its instance.
  using Instance = std::pair<uint32_t, uint32_t>;

  ChakraTraces(const SimHeader &header, const SimResult &step, SimWorld world)
      : header(header), step(step), world(std::move(world)) {}
  llvm::Error findGroups();
  void addGroup(int64_t rank, uint32_t launch);
  std::pair<Instance, std::string> getGroupKey(int64_t rank, uint32_t launch) const;
  void findHostWaits(uint32_t rankClass);
  bool endTogether() const;
  void findTurns(uint32_t rankClass, bool together);
  std::vector<std::pair<uint32_t, bool>> getOrder(uint32_t rankClass) const;
  std::vector<NodeIds> numberNodes(int64_t rank) const;
  double getReady(uint32_t rankClass, uint32_t launch) const;
  double getReadyOfAll(uint32_t rankClass, uint32_t launch) const;

  uint32_t getClass(int64_t rank) const;
  const TracedLaunch &getTraced(int64_t rank, uint32_t launch) const { return classes[getClass(rank)][launch]; }
  double getUse(int64_t rank, uint32_t launch) const;
  int64_t getUsedBytes(int64_t rank, uint32_t launch) const;
  int64_t getCollectiveBytes(int64_t rank, uint32_t launch) const;
  std::vector<Transfer> getTransfers(int64_t rank, uint32_t launch) const;
  std::vector<Transfer> getPairs(int64_t rank, uint32_t launch, const MeetingId &id) const;
  std::vector<Transfer> getChain(int64_t rank, uint32_t launch, const MeetingId &id) const;
  int64_t getPairBytes(int64_t from, uint32_t launch, const MeetingId &id, int64_t to) const;
  int64_t getTag(int64_t rank, uint32_t launch, int64_t part) const;

  uint64_t writeHost(int64_t rank, uint32_t launch, llvm::ArrayRef<NodeIds> ids, llvm::raw_ostream &os) const;
  uint64_t writeLaunch(int64_t rank, uint32_t launch, llvm::ArrayRef<NodeIds> ids, llvm::raw_ostream &os) const;
  uint64_t writeTransfers(int64_t rank, uint32_t launch, llvm::ArrayRef<Transfer> transfers,
                          const moe_chakra::Node &node, llvm::raw_ostream &os) const;
  uint64_t writeEnd(int64_t rank, llvm::ArrayRef<NodeIds> ids, llvm::raw_ostream &os) const;
  void setWork(moe_chakra::Node &node, int64_t rank, uint32_t launch) const;
  void setCollective(moe_chakra::Node &node, int64_t rank, uint32_t launch) const;
  void setTransfer(moe_chakra::Node &node, int64_t rank, uint32_t launch, const Transfer &transfer) const;

  const SimHeader &header;
  const SimResult &step;
  SimWorld world;
  std::vector<std::vector<TracedLaunch>> classes; ///< in the order of step.ranks
  /// Communicators of collectives, from 1 on: ASTRA-sim takes 0 for all ranks. Each set of ranks has one for each name
  /// of a stream, since ASTRA-sim counts its collectives, and relies on the same order for all members.
  std::map<std::pair<Instance, std::string>, int64_t> groupIds;
  std::vector<std::vector<int64_t>> groupMembers; ///< ranks in rising order, by id - 1
  /// Results of getUsedBytes for ragged collectives, by instance and number.
  mutable llvm::DenseMap<std::pair<Instance, uint32_t>, int64_t> knownBytes;
};

} // namespace mlir::moe

#endif // MOE_REPORT_CHAKRA_H
