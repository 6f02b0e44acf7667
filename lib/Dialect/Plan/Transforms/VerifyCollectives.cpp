//===- VerifyCollectives.cpp - no hangs -----------------------------------===//
//
// A communicator is a (size, stride), and its instances are sets of ranks. Transfers from one member to another have a
// communicator of these two alone. No interleaving can hang if (1) the collectives of each communicator are totally
// ordered in each program, (2) programs whose ranks share an instance issue the same sequence, and (3) the orders of
// all programs together have no cycle.
//
//===----------------------------------------------------------------------===//
#include "Verify.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::plan;

namespace {

/// A group, or two members of a channel.
struct Communicator {
  int64_t size, stride;
  int64_t from = -1, to = -1;

  auto operator<=>(const Communicator &) const = default;
  bool isChannel() const { return from >= 0; }
  int64_t getMember(int64_t rank) const { return rank / stride % size; }
  int64_t getInstance(int64_t rank) const { return rank / (size * stride) * stride + rank % stride; }
  bool contains(int64_t rank) const { return !isChannel() || getMember(rank) == from || getMember(rank) == to; }
};
/// Launch numbers in program order.
using Sequence = std::vector<unsigned>;

class CollectiveChecker {
public:
  CollectiveChecker(ArrayRef<Program> programs, int64_t world) : programs(programs), world(world) {}
  LogicalResult run();

private:
  LogicalResult collect(unsigned program);
  LogicalResult checkGroup(LaunchOp op);
  LogicalResult checkPeer(unsigned program, LaunchOp op);
  LogicalResult checkOrdered(unsigned program);
  LogicalResult checkAgreement();
  LogicalResult compare(const Communicator &communicator, unsigned first, unsigned second);
  /// Pairs of programs, the smaller first, that share an instance of `communicator`.
  std::set<std::pair<unsigned, unsigned>> findSharing(const Communicator &communicator) const;
  LaunchOp getOp(unsigned program, unsigned launch) const { return programs[program].order.getLaunches()[launch]; }

  ArrayRef<Program> programs;
  int64_t world;
  std::vector<std::map<Communicator, Sequence>> sequences;
  std::set<Communicator> communicators;
  /// Sets of programs that share instances, by communicator: the first program of each program's set.
  std::map<Communicator, std::vector<unsigned>> sharing;

  friend class OrderGraph;
};

/// Graph of the order of all collectives of all programs. A node is one meeting, and an edge one program's order of two
/// meetings.
class OrderGraph {
public:
  explicit OrderGraph(const CollectiveChecker &checker);
  /// Fails after an error if there is a cycle.
  LogicalResult check();

private:
  struct Edge {
    unsigned from, to, program;
    LaunchOp first, second;
  };

  void addProgram(unsigned program);
  SmallVector<Edge> findCycle(const std::vector<unsigned> &degrees) const;

  const CollectiveChecker &checker;
  std::map<std::pair<Communicator, unsigned>, unsigned> firstNode;
  unsigned numNodes = 0;
  std::vector<Edge> edges;
};

} // namespace

LogicalResult CollectiveChecker::checkGroup(LaunchOp op) {
  moe::GroupAttr group = *op.getGroup();
  int64_t block = group.getSize() * group.getStride();
  if (world == 0 || world % block == 0)
    return success();
  return op.emitOpError("expected group '")
         << group.getName() << "' of " << op.describe() << " to divide the world of " << world
         << " ranks but its size * stride is " << group.getSize() << " * " << group.getStride() << " = " << block;
}

/// Checks that all ranks of the program are one member, which is not the peer.
LogicalResult CollectiveChecker::checkPeer(unsigned program, LaunchOp op) {
  const Program &it = programs[program];
  Communicator group{op.getGroup()->getSize(), op.getGroup()->getStride()};
  int64_t first = group.getMember(it.firstRank), last = group.getMember(it.firstRank + it.numRanks - 1);
  if (it.numRanks <= group.stride && first == last && first != static_cast<int64_t>(*op.getPeer()))
    return success();
  func::FuncOp function = it.function;
  return op.emitOpError("expected ") << op.describe()
                                     << " in a program that is for one member of the group, other than the peer, but '"
                                     << function.getName() << "' is for " << it.numRanks << " ranks from "
                                     << it.firstRank << " on";
}

LogicalResult CollectiveChecker::collect(unsigned program) {
  for (auto [index, launch] : llvm::enumerate(programs[program].order.getLaunches())) {
    LaunchOp op = launch;
    if (!op.getGroup())
      continue;
    if (failed(checkGroup(op)))
      return failure();
    Communicator communicator{op.getGroup()->getSize(), op.getGroup()->getStride()};
    // One rank alone meets no other.
    if (!op.getCollective() || communicator.size == 1)
      continue;
    if (std::optional<Channel> channel = op.getChannel()) {
      if (failed(checkPeer(program, op)))
        return failure();
      communicator.from = channel->from;
      communicator.to = channel->to;
    }
    sequences[program][communicator].push_back(index);
    communicators.insert(communicator);
  }
  return success();
}

LogicalResult CollectiveChecker::checkOrdered(unsigned program) {
  const HappensBefore &order = programs[program].order;
  for (const auto &[communicator, sequence] : sequences[program])
    for (auto [first, second] : llvm::zip(sequence, llvm::drop_begin(sequence)))
      if (!order.isBefore(first, second)) {
        LaunchOp op = getOp(program, second), other = getOp(program, first);
        InFlightDiagnostic diagnostic = op.emitOpError("hang: expected ")
                                        << op.describe() << " to be ordered after " << other.describe()
                                        << ", a collective of the same communicator, but no plan.record and plan.wait "
                                           "order the two";
        diagnostic.attachNote(other.getLoc()) << other.describe() << " is here";
        return diagnostic;
      }
  return success();
}

std::set<std::pair<unsigned, unsigned>> CollectiveChecker::findSharing(const Communicator &communicator) const {
  std::map<int64_t, unsigned> firstOf;
  std::set<std::pair<unsigned, unsigned>> pairs;
  for (auto [index, program] : llvm::enumerate(programs))
    for (int64_t rank = program.firstRank; rank < program.firstRank + program.numRanks; ++rank) {
      if (!communicator.contains(rank))
        continue;
      unsigned first = firstOf.try_emplace(communicator.getInstance(rank), index).first->second;
      if (first != index)
        pairs.insert({first, index});
    }
  return pairs;
}

/// Text for the difference between two collectives that meet, or an empty text.
static std::string findDifference(LaunchOp first, LaunchOp second) {
  auto shapes = [](ValueRange values) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleaveComma(values.getTypes(), stream, [&](Type type) {
      auto memref = cast<MemRefType>(type);
      stream << MemRefType::get(memref.getShape(), memref.getElementType());
    });
    return "(" + text + ")";
  };
  auto describe = [](StringRef what, const std::string &expected, const std::string &got) {
    return ("with " + what + " " + expected + " but got " + got).str();
  };
  if (first.getPeer()) {
    std::string sent = shapes(first->getOperands()), received = shapes(second->getOperands());
    if (first.getOutputs().empty() == second.getOutputs().empty())
      return "one that sends and one that receives but got two '" + first.getKernel().str() + "'";
    return sent == received ? "" : describe("the value", sent, received);
  }
  if (first.getKernel() != second.getKernel())
    return ("'" + first.getKernel() + "' but got '" + second.getKernel() + "'").str();
  if (std::string a = shapes(first.getInputs()), b = shapes(second.getInputs()); a != b)
    return describe("inputs", a, b);
  if (std::string a = shapes(first.getOutputs()), b = shapes(second.getOutputs()); a != b)
    return describe("outputs", a, b);
  if (first.getParamsAttr() != second.getParamsAttr() || first.getAbsentAttr() != second.getAbsentAttr())
    return "with the same params and absent inputs but got others";
  return {};
}

LogicalResult CollectiveChecker::compare(const Communicator &communicator, unsigned first, unsigned second) {
  const Sequence &expected = sequences[first][communicator], &got = sequences[second][communicator];
  func::FuncOp firstFunction = programs[first].function;
  for (auto [index, pair] : llvm::enumerate(llvm::zip(expected, got))) {
    LaunchOp op = getOp(second, std::get<1>(pair)), other = getOp(first, std::get<0>(pair));
    std::string difference = findDifference(other, op);
    if (difference.empty())
      continue;
    InFlightDiagnostic diagnostic = op.emitOpError("hang: expected collective ")
                                    << index << " over '" << op.getGroup()->getName() << "' to be that of '"
                                    << firstFunction.getName() << "', " << difference << " in " << op.describe();
    diagnostic.attachNote(other.getLoc()) << other.describe() << " of '" << firstFunction.getName() << "' is here";
    return diagnostic;
  }
  if (expected.size() == got.size())
    return success();
  auto [longer, shorter] = got.size() > expected.size() ? std::pair(second, first) : std::pair(first, second);
  const Sequence &common = sequences[shorter][communicator];
  LaunchOp extra = getOp(longer, sequences[longer][communicator][common.size()]);
  func::FuncOp function = programs[shorter].function;
  InFlightDiagnostic diagnostic = extra.emitOpError("hang: expected all members of '")
                                  << extra.getGroup()->getName() << "' to issue the same number of collectives, but "
                                  << extra.describe() << " has no partner in '" << function.getName()
                                  << "', which ends after " << common.size();
  if (common.empty()) {
    diagnostic.attachNote(function.getLoc()) << "'" << function.getName() << "' is here";
    return diagnostic;
  }
  LaunchOp last = getOp(shorter, common.back());
  diagnostic.attachNote(last.getLoc()) << last.describe() << " is the last one of '" << function.getName() << "'";
  return diagnostic;
}

LogicalResult CollectiveChecker::checkAgreement() {
  for (const Communicator &communicator : communicators) {
    std::vector<unsigned> &set = sharing[communicator];
    for (unsigned program = 0; program < programs.size(); ++program)
      set.push_back(program);
    for (auto [first, second] : findSharing(communicator)) {
      if (failed(compare(communicator, first, second)))
        return failure();
      unsigned from = std::max(set[first], set[second]), into = std::min(set[first], set[second]);
      std::replace(set.begin(), set.end(), from, into);
    }
  }
  return success();
}

LogicalResult CollectiveChecker::run() {
  sequences.resize(programs.size());
  for (unsigned program = 0; program < programs.size(); ++program)
    if (failed(collect(program)) || failed(checkOrdered(program)))
      return failure();
  // One program cannot contradict its own order.
  if (programs.size() == 1)
    return success();
  return failure(failed(checkAgreement()) || failed(OrderGraph(*this).check()));
}

OrderGraph::OrderGraph(const CollectiveChecker &checker) : checker(checker) {
  for (const auto &[communicator, set] : checker.sharing)
    for (auto [program, representative] : llvm::enumerate(set)) {
      const auto &sequences = checker.sequences[program];
      auto it = sequences.find(communicator);
      if (it == sequences.end() || !firstNode.try_emplace({communicator, representative}, numNodes).second)
        continue;
      numNodes += it->second.size();
    }
  for (unsigned program = 0; program < checker.programs.size(); ++program)
    addProgram(program);
}

void OrderGraph::addProgram(unsigned program) {
  const HappensBefore &order = checker.programs[program].order;
  std::map<unsigned, unsigned> nodes; // by launch, so in program order
  for (const auto &[communicator, sequence] : checker.sequences[program])
    for (auto [index, launch] : llvm::enumerate(sequence))
      nodes[launch] = firstNode.at({communicator, checker.sharing.at(communicator)[program]}) + index;
  // The last collective on each stream that a launch surely follows implies the earlier ones there.
  std::vector<std::vector<unsigned>> onStream(order.getNumStreams());
  for (auto [launch, node] : nodes) {
    ArrayRef<int32_t> clock = order.getClock(launch);
    for (auto [stream, earlier] : llvm::enumerate(onStream)) {
      auto end =
          llvm::partition_point(earlier, [&](unsigned other) { return order.getPosition(other) <= clock[stream]; });
      if (end == earlier.begin())
        continue;
      unsigned other = *std::prev(end);
      edges.push_back({nodes[other], node, program, checker.getOp(program, other), checker.getOp(program, launch)});
    }
    onStream[order.getStream(launch)].push_back(launch);
  }
}

SmallVector<OrderGraph::Edge> OrderGraph::findCycle(const std::vector<unsigned> &degrees) const {
  // Each remaining node has an edge from another remaining node, so walking back must reach a node twice.
  std::map<unsigned, const Edge *> into;
  for (const Edge &edge : edges)
    if (degrees[edge.from] > 0 && degrees[edge.to] > 0)
      into.try_emplace(edge.to, &edge);
  std::set<unsigned> seen;
  unsigned node = into.begin()->first;
  while (seen.insert(node).second)
    node = into.at(node)->from;
  SmallVector<Edge> cycle = {*into.at(node)};
  while (cycle.back().from != node)
    cycle.push_back(*into.at(cycle.back().from));
  return cycle;
}

LogicalResult OrderGraph::check() {
  std::vector<unsigned> degrees(numNodes, 0), ready;
  std::vector<std::vector<unsigned>> successors(numNodes);
  for (const Edge &edge : edges) {
    ++degrees[edge.to];
    successors[edge.from].push_back(edge.to);
  }
  for (unsigned node = 0; node < numNodes; ++node)
    if (degrees[node] == 0)
      ready.push_back(node);
  unsigned done = 0;
  for (; !ready.empty(); ++done) {
    unsigned node = ready.back();
    ready.pop_back();
    for (unsigned next : successors[node])
      if (--degrees[next] == 0)
        ready.push_back(next);
  }
  if (done == numNodes)
    return success();
  SmallVector<Edge> cycle = findCycle(degrees);
  InFlightDiagnostic diagnostic = cycle.front().second.emitOpError("hang: expected all programs to order their "
                                                                   "collectives alike, but ")
                                  << cycle.front().second.describe() << " waits for itself";
  for (Edge &edge : cycle) {
    func::FuncOp function = checker.programs[edge.program].function;
    diagnostic.attachNote(edge.second.getLoc())
        << edge.second.describe() << " comes after " << edge.first.describe() << " in '" << function.getName() << "'";
  }
  return diagnostic;
}

LogicalResult mlir::plan::verifyCollectives(ArrayRef<Program> programs, int64_t world) {
  return CollectiveChecker(programs, world).run();
}
