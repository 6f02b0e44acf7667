//===- PaperOrders.cpp - the orders of FasterMoE and MPipeMoE -------------===//
#include "PaperOrders.h"

#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

PaperOrders::PaperOrders(const plan::Dependences &dependences)
    : groupOf(dependences.getLaunches().size(), -1), chunkOf(groupOf.size(), 0),
      parts(groupOf.size(), ChunkPart::None) {
  findGroups(dependences.getLaunches());
  findParts(dependences);
}

/// A launch belongs to the group that began last. Only a new label begins a group.
void PaperOrders::findGroups(ArrayRef<plan::LaunchOp> launches) {
  llvm::StringSet<> labels;
  for (auto [number, launch] : llvm::enumerate(launches)) {
    plan::LaunchOp op = launch;
    std::optional<ChunkAttr> chunk = op.getChunk();
    if (!chunk)
      continue;
    if (labels.insert(op.getLabel().value_or("")).second)
      groups.emplace_back();
    Group &group = groups.back();
    auto found = llvm::find(group.chunks, chunk->getIndex());
    groupOf[number] = static_cast<int32_t>(groups.size()) - 1;
    chunkOf[number] = found - group.chunks.begin();
    if (found == group.chunks.end())
      group.chunks.push_back(chunk->getIndex());
    group.launches.push_back(number);
  }
}

/// Parts follow from dependences, not from program order. Products of weight gradients may come after an exchange that
/// does not need them.
void PaperOrders::findParts(const plan::Dependences &dependences) {
  size_t count = groupOf.size();
  auto isProduct = [&](unsigned launch) {
    plan::LaunchOp op = dependences.getLaunches()[launch];
    return op.getOpCost().resource == Resource::Matrix;
  };
  auto forEachPair = [&](unsigned launch, auto visit) {
    for (unsigned other : dependences.get(launch))
      if (other < launch && groupOf[launch] >= 0 && groupOf[other] == groupOf[launch] &&
          chunkOf[other] == chunkOf[launch])
        visit(other);
  };
  auto isCollective = [&](unsigned launch) {
    plan::LaunchOp op = dependences.getLaunches()[launch];
    return groupOf[launch] >= 0 && op.getCollective();
  };
  // Whether each launch depends on one of its chunk for which `isSuch` holds (findAfter: or such a one on it).
  auto findBefore = [&](auto isSuch) {
    std::vector<bool> before(count);
    for (unsigned launch = 0; launch < count; ++launch)
      forEachPair(launch, [&](unsigned other) { before[launch] = before[launch] || before[other] || isSuch(other); });
    return before;
  };
  auto findAfter = [&](auto isSuch) {
    std::vector<bool> after(count);
    for (unsigned launch = count; launch-- > 0;)
      forEachPair(launch, [&](unsigned other) { after[other] = after[other] || after[launch] || isSuch(launch); });
    return after;
  };
  std::vector<bool> productBefore = findBefore(isProduct), productAfter = findAfter(isProduct);
  auto isSend = [&](unsigned it) { return isCollective(it) && !productBefore[it] && productAfter[it]; };
  auto isReturn = [&](unsigned it) { return isCollective(it) && productBefore[it] && !productAfter[it]; };
  std::vector<bool> returnBefore = findBefore(isReturn), sendAfter = findAfter(isSend);
  for (unsigned launch = 0; launch < count; ++launch)
    if (groupOf[launch] >= 0)
      parts[launch] = isReturn(launch)                      ? ChunkPart::Return
                      : returnBefore[launch]                ? ChunkPart::Finish
                      : isSend(launch) || sendAfter[launch] ? ChunkPart::Send
                                                            : ChunkPart::Compute;
}

Order PaperOrders::getOrder(const Group &group, OrderPolicy policy) const {
  unsigned chunks = group.chunks.size();
  std::map<std::pair<ChunkPart, unsigned>, Order> byPart;
  for (unsigned launch : group.launches)
    byPart[{parts[launch], chunkOf[launch]}].push_back(launch);
  Order order;
  auto add = [&](ChunkPart part, unsigned chunk) {
    if (chunk < chunks)
      llvm::append_range(order, byPart[{part, chunk}]);
  };
  unsigned ahead = policy == OrderPolicy::MPipeMoe ? 2 : chunks;
  for (unsigned chunk = 0; chunk < ahead; ++chunk)
    add(ChunkPart::Send, chunk);
  for (unsigned chunk = 0; chunk < chunks; ++chunk) {
    add(ChunkPart::Compute, chunk);
    add(ChunkPart::Return, chunk);
    add(ChunkPart::Send, chunk + ahead);
  }
  // They come last because they would delay products of later chunks on the compute stream.
  for (unsigned chunk = 0; chunk < chunks; ++chunk)
    add(ChunkPart::Finish, chunk);
  return order;
}

Order PaperOrders::getPreference(OrderPolicy policy) const {
  Order order = getProgramOrder(groupOf.size());
  if (policy == OrderPolicy::Program)
    return order;
  for (const Group &group : groups)
    for (auto [place, launch] : llvm::zip_equal(group.launches, getOrder(group, policy)))
      order[place] = launch;
  return order;
}

llvm::StringRef mlir::moe::getName(OrderPolicy policy) {
  static const llvm::StringLiteral names[] = {"program", "mpipemoe", "fastermoe", "search"};
  return names[static_cast<unsigned>(policy)];
}

std::optional<OrderPolicy> mlir::moe::parseOrderPolicy(llvm::StringRef name) {
  for (OrderPolicy policy : {OrderPolicy::Program, OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe, OrderPolicy::Search})
    if (getName(policy) == name)
      return policy;
  return std::nullopt;
}
