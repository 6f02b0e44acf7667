//===- PaperOrders.h - the orders of FasterMoE and MPipeMoE -----*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_PAPERORDERS_H
#define MOE_LIB_LAUNCHORDER_PAPERORDERS_H

#include "Graph.h"

#include "moe/LaunchOrder/Order.h"

namespace mlir::moe {

/// What a launch is to the products of its chunk in its group: the launches with a chunk from the first of one label, a
/// layer's in one direction, to the first of the next.
enum class ChunkPart : uint8_t {
  None,    ///< no chunk
  Send,    ///< S: exchanges that products need, and what these exchanges need
  Compute, ///< C: products, and what is neither of the others
  Return,  ///< R: exchanges that need products
  Finish,  ///< what needs such an exchange
};

/// The launches of a program by group and chunk.
class PaperOrders {
public:
  explicit PaperOrders(const plan::Dependences &dependences);

  ChunkPart getPart(unsigned launch) const { return parts[launch]; }
  /// The launch's group, -1 where it has none, and its chunk's place among those of the group, by first launches.
  int32_t getGroup(unsigned launch) const { return groupOf[launch]; }
  unsigned getChunk(unsigned launch) const { return chunkOf[launch]; }

  /// All launches as the policy, which is not Search, would have them, whatever dependences say: each group in its
  /// order on the places that its launches have in the program.
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
