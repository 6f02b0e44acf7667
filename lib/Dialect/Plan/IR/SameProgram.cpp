//===- SameProgram.cpp - programs that differ in their sizes alone --------===//
//
// Each launch gets a hash of its own fields and of the hashes of the launches that made its inputs. So two programs
// have the same hashes, in any order, if they are the same graphs.
//
//===----------------------------------------------------------------------===//
#include "moe/Dialect/Plan/IR/SameProgram.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace mlir::plan;
using llvm::hash_code;
using llvm::hash_combine;

/// Hashes are of texts and numbers, because the plans may be in different contexts and attributes differ between these.
static hash_code hashGroup(std::optional<moe::GroupAttr> group) {
  if (!group || !*group)
    return hash_code(0);
  return hash_combine(group->getName(), group->getSize(), group->getStride());
}

/// Whether a view is a piece of a bucket without a value. The number of such pieces depends on sizes.
static bool isPadding(Value value) {
  auto view = value.getDefiningOp<ViewOp>();
  return view && view.getAt() && llvm::all_of(view->getUsers(), [](Operation *user) {
           auto launch = dyn_cast<LaunchOp>(user);
           return launch && launch.getInputs().empty();
         });
}

namespace {
/// Bytes of a memory, and the part that a rank has, if it depends on the rank.
using Place = std::tuple<int64_t, int64_t, size_t>;

/// Launches of a program in an order of issue, with their hashes.
class Graph {
public:
  Graph(func::FuncOp program, int64_t microBatches, ArrayRef<int64_t> iterations);

  struct Node {
    hash_code hash;
    LaunchOp launch;
  };
  ArrayRef<Node> getNodes() const { return nodes; }
  /// Hash of the arguments at the end: results, and states that steps change.
  hash_code getResults() const { return results; }

private:
  void visit(LaunchOp launch, int64_t iteration);
  /// Returns the source of `value` if `value` is the only piece of its memory apart from padding, and else `value`.
  Value skipOnlyPiece(Value value) const;
  Place getPlace(Value value, int64_t iteration) const;
  hash_code hashView(Value value, int64_t iteration) const;
  hash_code read(Value value, int64_t iteration);
  void write(Value value, int64_t iteration, hash_code hash);

  const int64_t microBatches;
  /// Numbers of the pieces of each memory, by first element. Elements depend on sizes, but these numbers do not.
  llvm::DenseMap<Value, std::map<int64_t, size_t>> pieces;
  llvm::DenseMap<Value, std::map<Place, hash_code>> contents;
  std::vector<Node> nodes;
  hash_code results{0};
};
} // namespace

Graph::Graph(func::FuncOp program, int64_t microBatches, ArrayRef<int64_t> iterations) : microBatches(microBatches) {
  program.walk([&](ViewOp view) {
    if (view.getAt() && !isPadding(view))
      pieces[getMemory(view)][*view.getAt()] = 0;
  });
  for (auto &[memory, ofMemory] : pieces)
    for (auto [number, piece] : llvm::enumerate(ofMemory))
      piece.second = number;
  for (auto [index, argument] : llvm::enumerate(program.getArguments())) {
    auto name = program.getArgAttrOfType<StringAttr>(index, moe::kNameAttrName);
    contents[argument][{0, getByteSize(argument), 0}] = hash_combine(name ? name.getValue() : StringRef(), index);
  }
  auto visitLaunch = [&](Operation *op, int64_t iteration) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch, iteration);
  };
  const int64_t *next = iterations.begin();
  forEachIssued(program, [&](LoopOp) { return *next++; }, visitLaunch);
  for (Value argument : program.getArguments())
    for (const auto &[place, hash] : contents[argument])
      results = hash_combine(results, hash);
}

Value Graph::skipOnlyPiece(Value value) const {
  auto view = value.getDefiningOp<ViewOp>();
  if (!view || !view.getAt())
    return value;
  auto ofMemory = pieces.find(getMemory(value));
  return ofMemory != pieces.end() && ofMemory->second.size() == 1 ? view.getSource() : value;
}

/// A part that depends on the rank counts as all of its source, under the view's own hash.
Place Graph::getPlace(Value value, int64_t iteration) const {
  size_t part = 0;
  if (auto view = value.getDefiningOp<ViewOp>(); view && view.getGroup()) {
    part = hashView(value, iteration);
    value = view.getSource();
  }
  value = skipOnlyPiece(value);
  auto view = value.getDefiningOp<ViewOp>();
  const int64_t begin = view ? view.getByteOffset(/*rank=*/0, iteration) : 0;
  return {begin, begin + getByteSize(value), part};
}

hash_code Graph::hashView(Value value, int64_t iteration) const {
  hash_code hash(0);
  for (auto view = value.getDefiningOp<ViewOp>(); view; view = view.getSource().getDefiningOp<ViewOp>()) {
    if (skipOnlyPiece(view) != view)
      continue;
    size_t piece = 0;
    if (view.getAt())
      piece = 1 + pieces.find(getMemory(view))->second.at(*view.getAt());
    // Part of one micro-batch in a value of all micro-batches.
    const int64_t parts = !view.getGroup() && view.getParts() == microBatches ? 0 : view.getParts();
    const int64_t part = view.getGroup() ? view.getShift() : view.getPart(/*rank=*/0, iteration);
    hash = hash_combine(hash, part, parts, hashGroup(view.getGroup()), piece);
  }
  return hash;
}

hash_code Graph::read(Value value, int64_t iteration) {
  const std::map<Place, hash_code> &content = contents[getMemory(value)];
  const Place place = getPlace(value, iteration);
  const auto [begin, end, part] = place;
  // The place of a value does not matter to launches that read all of it, perhaps with a gap after it.
  hash_code hash = hashView(value, iteration), last(0);
  size_t values = 0;
  bool isWhole = true;
  for (const auto &[other, written] : content) {
    const auto [otherBegin, otherEnd, otherPart] = other;
    if (otherEnd <= begin || otherBegin >= end)
      continue;
    ++values;
    isWhole &= otherBegin >= begin && otherEnd <= end && otherPart == part;
    hash = hash_combine(hash, last = written, otherPart);
  }
  return isWhole && values == 1 ? last : hash;
}

void Graph::write(Value value, int64_t iteration, hash_code hash) {
  std::map<Place, hash_code> &content = contents[getMemory(value)];
  const Place place = getPlace(value, iteration);
  const auto [begin, end, part] = place;
  // A value is gone when all of its bytes are overwritten.
  for (auto it = content.begin(); it != content.end();) {
    const auto [otherBegin, otherEnd, otherPart] = it->first;
    const bool isGone = otherBegin >= begin && otherEnd <= end && (part == 0 || it->first == place);
    it = isGone ? content.erase(it) : std::next(it);
  }
  content[place] = hash;
}

void Graph::visit(LaunchOp launch, int64_t iteration) {
  if (!launch.getOutputs().empty() && llvm::all_of(launch.getOutputs(), isPadding))
    return;
  hash_code hash = hash_combine(
      launch.getKernel(), launch.getCollective(), hashGroup(launch.getGroup()), launch.getPeer().value_or(-1),
      llvm::hash_combine_range(launch.getAbsentInputs().begin(), launch.getAbsentInputs().end()));
  auto addType = [&](Value value) {
    auto type = cast<MemRefType>(value.getType());
    std::string element;
    llvm::raw_string_ostream(element) << type.getElementType();
    hash = hash_combine(hash, type.getRank(), element);
  };
  for (Value input : launch.getInputs()) {
    addType(input);
    hash = hash_combine(hash, read(input, iteration));
  }
  llvm::for_each(launch.getOutputs(), addType);
  nodes.push_back({hash, launch});
  for (auto [index, output] : llvm::enumerate(launch.getOutputs()))
    write(output, iteration, hash_combine(hash, index));
}

/// Number of equal numbers, if all numbers of `small` are at most those of `large`.
static std::optional<size_t> countSameNumbers(LaunchOp large, LaunchOp small) {
  auto getParams = [](LaunchOp launch) {
    return launch.getParams() ? launch.getParams()->getValue() : ArrayRef<Attribute>();
  };
  ArrayRef<Attribute> ofLarge = getParams(large), ofSmall = getParams(small);
  size_t same = 0;
  bool areSmaller = ofLarge.size() == ofSmall.size();
  for (auto [ofWhole, ofReduced] : llvm::zip(ofLarge, ofSmall)) {
    auto whole = dyn_cast<IntegerAttr>(ofWhole), reduced = dyn_cast<IntegerAttr>(ofReduced);
    if (!whole || !reduced) {
      areSmaller &= !whole && !reduced;
      continue;
    }
    same += whole.getInt() == reduced.getInt();
    areSmaller &= whole.getInt() == reduced.getInt() || (reduced.getInt() > 0 && reduced.getInt() < whole.getInt());
  }
  return areSmaller ? std::optional(same) : std::nullopt;
}

static std::optional<std::string> findDifference(func::FuncOp program, const Graph &large, const Graph &small) {
  auto describe = [&](LaunchOp launch, StringRef what) {
    return ("in '" + program.getName() + "', " + launch.describe() + " " + what).str();
  };
  std::map<size_t, SmallVector<LaunchOp, 1>> left;
  for (const Graph::Node &node : small.getNodes())
    left[node.hash].push_back(node.launch);
  for (const Graph::Node &node : large.getNodes()) {
    SmallVector<LaunchOp, 1> &alike = left[node.hash];
    if (alike.empty())
      return describe(node.launch, "has no counterpart");
    // Launches of the same values may differ in their numbers. Those with the most equal numbers belong together.
    auto *nearest = llvm::max_element(alike, [&](LaunchOp a, LaunchOp b) {
      return countSameNumbers(node.launch, a) < countSameNumbers(node.launch, b);
    });
    if (!countSameNumbers(node.launch, *nearest))
      return describe(node.launch, "has other attributes than its counterpart");
    alike.erase(nearest);
  }
  for (const auto &[hash, alike] : left)
    if (!alike.empty())
      return describe(alike.front(), "of the small plan has no counterpart");
  if (large.getResults() != small.getResults())
    return ("in '" + program.getName() + "', other launches make the results").str();
  return std::nullopt;
}

/// Programs of ranks, and the subprograms that they run.
static SmallVector<func::FuncOp> getPrograms(ModuleOp plan) {
  SmallVector<func::FuncOp> programs = getRankPrograms(plan);
  llvm::append_range(programs, llvm::make_filter_range(plan.getOps<func::FuncOp>(), isSubprogram));
  return programs;
}

std::optional<std::string> mlir::plan::findDifference(ModuleOp large, int64_t largeMicroBatches, ModuleOp small,
                                                      int64_t smallMicroBatches) {
  SmallVector<func::FuncOp> ofLarge = getPrograms(large), ofSmall = getPrograms(small);
  if (ofLarge.size() != ofSmall.size())
    return "there are " + std::to_string(ofLarge.size()) + " programs in place of " + std::to_string(ofSmall.size());
  for (auto [program, its] : llvm::zip_equal(ofLarge, ofSmall)) {
    auto iterations = llvm::map_to_vector(its.getOps<LoopOp>(), [](LoopOp loop) { return loop.getCount(); });
    if (auto loops = llvm::range_size(program.getOps<LoopOp>()); loops != iterations.size())
      return ("in '" + program.getName() + "', there are " + Twine(loops) + " loops in place of " +
              Twine(iterations.size()))
          .str();
    if (std::optional<std::string> difference = ::findDifference(program, Graph(program, largeMicroBatches, iterations),
                                                                 Graph(its, smallMicroBatches, iterations)))
      return difference;
  }
  return std::nullopt;
}
