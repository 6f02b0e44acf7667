//===- PaperOrders.h - the orders of FasterMoE and MPipeMoE -----*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_PAPERORDERS_H
#define MOE_LIB_LAUNCHORDER_PAPERORDERS_H

#include "Graph.h"

#include "moe/LaunchOrder/Order.h"

namespace mlir::moe {

/// Role of a launch for the products of its chunk in its group. A group begins with the first launch that has a chunk
/// and a new label, so it is a layer in one direction.
enum class ChunkPart : uint8_t {
  None,    ///< no chunk
  Send,    ///< S: exchanges that products need, and what these exchanges need
  Compute, ///< C: products and all other launches
  Return,  ///< R: exchanges that need products
  Finish,  ///< launches that need such an exchange
};

/// Launches of a program by group and chunk.
class PaperOrders {
public:
  explicit PaperOrders(const plan::Dependences &dependences);

  ChunkPart getPart(unsigned launch) const { return parts[launch]; }
  /// Group of a launch, or -1, and place of its chunk in the group. Chunks are sorted by their first launches.
  int32_t getGroup(unsigned launch) const { return groupOf[launch]; }
  unsigned getChunk(unsigned launch) const { return chunkOf[launch]; }

  /// All launches in the order of `policy`, which is not Search, without regard to dependences. The launches of a group
  /// are reordered among their places in the program.
  Order getPreference(OrderPolicy policy) const;

private:
  struct Group {
    Order launches; ///< in program order
    std::vector<int64_t> chunks;
  };

  void findGroups(ArrayRef<plan::LaunchOp> launches);
  void findParts(const plan::Dependences &dependences);
  Order getOrder(const Group &group, OrderPolicy policy) const;

  std::vector<Group> groups;
  std::vector<int32_t> groupOf;
  std::vector<unsigned> chunkOf;
  std::vector<ChunkPart> parts;
};

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_PAPERORDERS_H
