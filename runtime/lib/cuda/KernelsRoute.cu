//===- KernelsRoute.cu - choosing experts ---------------------------------===//
//
// Routing. The logits are read once to get scores, choices and weights. Then the choices are counted and ranked, by one
// kernel in the usual case and by several otherwise. Experts, slots and counts do not depend on the order of threads.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ranks.cuh"
#include "cuda/RoutePlace.cuh"
#include "cuda/RouteScores.cuh"

#include <limits>

namespace moert::cuda {
namespace {

// --- Slots with a capacity ---------------------------------------------------

/// Choices of routing groups, each in the order (choice, token).
struct GroupChoices {
  ExpertOfChoice ofChoice;
  int64_t groupTokens, choices;

  __device__ int64_t count(int64_t) const { return groupTokens * choices; }
  __device__ int64_t index(int64_t group, int64_t position) const {
    // There are fewer than 2^31 choices.
    const auto at = static_cast<uint32_t>(position), tokens = static_cast<uint32_t>(groupTokens);
    return (group * groupTokens + at % tokens) * choices + at / tokens;
  }
  __device__ int32_t key(int64_t choice) const { return ofChoice(choice); }
};

/// Rows of the experts, chunk by chunk.
struct CapacityRows {
  int64_t experts, groups, capacity;
  int64_t width; ///< rows of an expert in a chunk
  int32_t *slots;

  __device__ void operator()(int64_t group, int64_t choice, int32_t expert, int32_t rank) const {
    int64_t slot = -1;
    if (expert >= 0 && rank < capacity) {
      const int64_t row = group * capacity + rank;
      slot = (row / width * experts + expert) * width + row % width;
    }
    slots[choice] = static_cast<int32_t>(slot);
  }
};

/// Computes counts[c,e], the number of the expert's rows in the chunk that are used. Each group uses its first rows.
__global__ void __launch_bounds__(kThreads)
    capacityCountsKernel(CapacityRows rows, int64_t chunks, const int32_t *chosen, int32_t *counts) {
  for (int64_t i = globalThread(); i < chunks * rows.experts; i += globalThreads()) {
    const int64_t first = i / rows.experts * rows.width, last = first + rows.width, expert = i % rows.experts;
    int64_t count = 0;
    for (int64_t g = first / rows.capacity; g < rows.groups && g * rows.capacity < last; ++g) {
      const int64_t begin = g * rows.capacity, all = chosen[g * rows.experts + expert];
      const int64_t end = begin + (all < rows.capacity ? all : rows.capacity);
      const int64_t low = begin > first ? begin : first, high = end < last ? end : last;
      count += high > low ? high - low : 0;
    }
    counts[i] = static_cast<int32_t>(count);
  }
}

// --- Auxiliary loss ----------------------------------------------------------

/// Computes terms[g,e], the choices of e in g times the sum of its probabilities there.
struct LoadTerms {
  const int32_t *loads;
  int64_t experts;
  double *terms;

  __device__ void operator()(int64_t group, int64_t expert, double probabilities) const {
    terms[group * experts + expert] = loads[group * experts + expert] * probabilities;
  }
};

struct StoreColumn {
  double *to;

  __device__ void operator()(int64_t, int64_t column, double sum) const { to[column] = sum; }
};

// --- Route -------------------------------------------------------------------

RoutePlan planOf(const Target &target, const RouteOptions &options, View logits, View experts, View forced) {
  RoutePlan plan{options};
  plan.groupTokens = logits.dims[0] / options.groups;
  // There are more parts than fit at once, so that no multiprocessor waits long for the last ones.
  plan.parts = std::clamp<int64_t>(int64_t(target.device.multiProcessors) * 8 / plan.groups, 1,
                                   std::max<int64_t>(divideUp(plan.groupTokens, kThreads / kWarp), 1));
  plan.experts = static_cast<int>(logits.dims[1]);
  plan.choices = static_cast<int>(experts.dims[1]);
  // The gate has no effect if all choices of a group may leave, or if one home holds all experts.
  plan.isGated = !forced && options.leave >= 0 && options.leave < plan.groupTokens && options.homes > 1;
  return plan;
}

/// A call of route.
template <class T, class O> class Router {
public:
  using A = Acc<T, O>;

  Router(const Target &target, const RouteOptions &options, View logits, View scores, View experts, View forced)
      : target(target), options(options), tokens(logits.dims[0]), experts(logits.dims[1]), choices(experts.dims[1]),
        plan(planOf(target, options, logits, experts, forced)) {
    data.logits = logits.as<const T>();
    data.forced = forced.as<const int32_t>();
    data.scores = scores.as<O>();
    data.experts = experts.as<int32_t>();
    data.site = target.faults();
  }

  Status run(View selectionBias, View slots, View weights, View counts, View aux) {
    data.bias = selectionBias.as<const O>();
    data.weights = weights.as<O>();
    if (isUsual())
      return runUsual(slots, counts, aux);
    groupItems = {{data.experts, experts, data.site}, plan.groupTokens, choices};
    chunkItems = {groupItems.ofChoice, tokens, choices, options.chunks};
    loadItems = {groupItems.ofChoice, tokens, choices, options.groups};
    MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) { take(pieces); }));
    MOERT_RETURN_IF_ERROR(choose());
    if (plan.isGated)
      MOERT_RETURN_IF_ERROR(chooseAtHome());
    if (options.capacity > 0)
      MOERT_RETURN_IF_ERROR(fillCapacity(slots.as<int32_t>(), counts.as<int32_t>()));
    else
      MOERT_RETURN_IF_ERROR(fillDropless(slots.as<int32_t>(), counts.as<int32_t>()));
    return sumAux(aux);
  }

private:
  /// Whether two kernels compute all: a dropless routing of all tokens at once.
  bool isUsual() const {
    return options.capacity == 0 && options.chunks == 1 && options.groups == 1 && options.chunkRows == 0 &&
           !plan.isGated && experts <= kMostPlaced && tokens > 0 && choices > 0;
  }

  /// Runs the two kernels. They also make the tables that ops of the layer will ask for.
  Status runUsual(View slots, View counts, View aux) {
    using Table = RoutingTables::Table;
    // Each block of the second kernel reads the counts of all parts.
    plan.parts =
        std::clamp<int64_t>(32768 / experts, target.device.multiProcessors, int64_t(target.device.multiProcessors) * 8);
    plan.parts = std::min(plan.parts, divideUp(tokens, kThreads / kWarp));
    const View chosen{data.experts, MOERT_I32, 2, {tokens, choices}};
    const int64_t rows = tokens * choices;
    const RoutingTables::Key keys[] = {
        {Table::Offsets, counts, rows}, {Table::Sources, slots, rows}, {Table::Loads, chosen, 1}};
    const int64_t bytes[] = {(experts + 1) * 8, rows * 4, experts * 4};
    RoutingTables::Block *blocks[3];
    for (int i = 0; i < 3; ++i)
      MOERT_RETURN_IF_ERROR(target.stream.tables->reserve(target.stream.stream, bytes[i], blocks[i]));
    MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
      data.partial = pieces.take<A>(plan.parts * experts);
      data.partCounts = pieces.take<int32_t>(plan.parts * experts);
      perWarp = experts > kLongestRow ? LaneMemory::bytes(experts, 5) : 0;
      laneMemory = pieces.take<char>(tokenGrid().blocks.x * (kThreads / kWarp) * perWarp);
    }));
    MOERT_RETURN_IF_ERROR(choose());
    Placing<A, O> placing{plan};
    placing.chosen = data.experts;
    placing.partCounts = data.partCounts;
    placing.partial = data.partial;
    placing.slots = slots.as<int32_t>();
    placing.counts = counts.as<int32_t>();
    placing.offsets = static_cast<int64_t *>(blocks[0]->memory.get());
    placing.sources = static_cast<int32_t *>(blocks[1]->memory.get());
    placing.loads = static_cast<int32_t *>(blocks[2]->memory.get());
    placing.auxFactor = auxFactor();
    placing.aux = aux.as<O>();
    const Grid grid{.blocks = dim3(static_cast<unsigned>(plan.parts + 1))};
    MOERT_RETURN_IF_ERROR(launch(placeKernel<A, O>, grid, target, placing));
    for (int i = 0; i < 3; ++i)
      MOERT_RETURN_IF_ERROR(target.stream.tables->publish(target.stream.stream, keys[i], blocks[i]));
    return {};
  }

  double auxFactor() const {
    const double groupChoices = static_cast<double>(plan.groupTokens) * static_cast<double>(choices);
    return static_cast<double>(experts) / static_cast<double>(tokens) / groupChoices;
  }

  Grid tokenGrid() const { return gridOf(target, plan.groups * plan.parts * kThreads); }
  Ranking groupRanking() const { return Ranking::of(target, options.groups, plan.groupTokens * choices, experts); }

  void take(Regions &pieces) {
    const int64_t segments = std::max(options.groups, options.chunks);
    const int64_t counts = std::max({groupRanking().counts(), chunkItems.ranking(target, experts).counts(),
                                     loadItems.ranking(target, experts).counts()});
    data.partial = pieces.take<A>(plan.groups * plan.parts * experts);
    if (plan.isGated && !std::is_same_v<O, A>)
      data.wideScores = pieces.take<A>(tokens * experts);
    tileCounts = pieces.take<int32_t>(counts);
    loads = pieces.take<int32_t>(options.groups * experts);
    offsets = pieces.take<int32_t>(segments * experts);
    terms = pieces.take<double>(options.groups * experts);
    sums = pieces.take<double>(experts);
    wanted = pieces.take<int32_t>(plan.isGated ? tokens * choices : 0);
    local = pieces.take<int32_t>(plan.isGated ? tokens * choices : 0);
    keys = pieces.take<Ordered<A>>(plan.isGated ? tokens : 0);
    // Both kernels that keep rows in memory have at most gridOf's blocks.
    const Grid grid = gridOf(target, std::max(plan.groups * plan.parts * kThreads, tokens * kWarp));
    perWarp = experts > kLongestRow || plan.isGated ? LaneMemory::bytes(experts, 5) : 0;
    laneMemory = pieces.take<char>(grid.blocks.x * (kThreads / kWarp) * perWarp);
  }

  Status choose() {
    Grid grid = tokenGrid();
    grid.sharedBytes = data.partCounts ? experts * static_cast<int64_t>(sizeof(int32_t)) : 0;
    return withLaneRow(experts, [&](auto row) {
      return launch(routeKernel<decltype(row)::value, T, O>, grid, target, plan, data, laneMemory, perWarp);
    });
  }

  Status chooseAtHome() {
    const A *scores = data.wideScores;
    if constexpr (std::is_same_v<O, A>)
      scores = data.scores;
    const TopologyGate<A, O> gate{plan, scores, data.bias, data.experts, wanted, local, keys};
    MOERT_RETURN_IF_ERROR(stayAtHome(target, gate, laneMemory, perWarp));
    return launch(weighKernel<O, A>, gridOf(target, tokens), target, plan, gate.scores, gate.chosen, data.weights);
  }

  Status fillCapacity(int32_t *slots, int32_t *counts) {
    const CapacityRows rows{experts, options.groups, options.capacity, options.expertChunkRows(), slots};
    MOERT_RETURN_IF_ERROR(countItems(target, groupItems, groupRanking(), tileCounts, loads));
    MOERT_RETURN_IF_ERROR(launch(capacityCountsKernel, gridOf(target, options.chunks * experts), target, rows,
                                 options.chunks, loads, counts));
    return rankItems(target, groupItems, groupRanking(), tileCounts, rows);
  }

  Status fillDropless(int32_t *slots, int32_t *counts) {
    MOERT_RETURN_IF_ERROR(sortChoices(target, chunkItems, chunkItems.ranking(target, experts), options.chunkRows,
                                      tileCounts, offsets, slots, counts));
    if (options.chunks == options.groups) {
      loads = counts;
      return {};
    }
    return countItems(target, loadItems, loadItems.ranking(target, experts), tileCounts, loads);
  }

  Status sumAux(View aux) {
    if (tokens == 0 || choices == 0)
      return clearBytes(target.stream.stream, aux.data, aux.bytes(), "cannot clear the loss of 'route'");
    MOERT_RETURN_IF_ERROR(
        sumColumns(target, data.partial, plan.groups, plan.parts, experts, LoadTerms{loads, experts, terms}));
    if (plan.groups > 1) {
      MOERT_RETURN_IF_ERROR(sumColumns(target, terms, 1, plan.groups, experts, StoreColumn{sums}));
      terms = sums;
    }
    return sumTo(target, terms, experts, aux.as<O>(), auxFactor());
  }

  const Target &target;
  const RouteOptions &options;
  int64_t tokens, experts, choices;
  RoutePlan plan;
  RouteData<T, O> data{};
  GroupChoices groupItems{};
  ChunkChoices<ExpertOfChoice> chunkItems{}, loadItems{};

  // arrays in the workspace
  int32_t *tileCounts = nullptr, *loads = nullptr, *offsets = nullptr;
  double *terms = nullptr, *sums = nullptr;
  int32_t *wanted = nullptr, *local = nullptr;
  Ordered<A> *keys = nullptr;
  char *laneMemory = nullptr;
  int64_t perWarp = 0;
};

// --- Choices of the host -----------------------------------------------------

/// Arguments of the host's recording function that follow the choices, in the host's memory.
struct Recording {
  RoutingPage *page;
  int64_t count;

  int32_t *choices() { return reinterpret_cast<int32_t *>(this + 1); }
};

/// A kernel writes the arguments, because work that was enqueued before may still use the memory.
__global__ void noteRecordingKernel(Recording *to, Recording recording) { *to = recording; }

void record(void *data) {
  auto *recording = static_cast<Recording *>(data);
  std::copy_n(recording->choices(), recording->count, recording->page->chosen.data());
}

} // namespace

Status CudaKernels::runRoute(View logits, View selectionBias, View scores, View experts, View slots, View weights,
                             View counts, View aux, const RouteOptions &options, View forced) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (experts.elements() > kMost || logits.dims[1] > kMost)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "'route': more than 2^31 - 1 choices or experts");
  return withFloating(logits.dtype, scores.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    return Router<T, O>(target, options, logits, scores, experts, forced)
        .run(selectionBias, slots, weights, counts, aux);
  });
}

Status CudaKernels::forcedChoices(RoutingPage &page, View experts, View &forced) {
  if (static_cast<int64_t>(page.forced.size()) != experts.elements())
    return invalid("'route': expected ", experts.elements(), " forced experts but got ", page.forced.size());
  // The choices of another step are elsewhere.
  MOERT_RETURN_IF_ERROR(target.stream.checkMayWait());
  int32_t *memory = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.forcedWorkspace.reserve(experts.elements(), memory));
  forced = experts;
  forced.data = memory;
  return copyBytes(target.stream.stream, memory, page.forced.data(), experts.bytes(),
                   "cannot copy the forced experts of 'route'");
}

int64_t recordingBytes(View experts) { return static_cast<int64_t>(sizeof(Recording)) + experts.bytes(); }

Status CudaKernels::recordChoices(View experts, RoutingPage &page) {
  MOERT_RETURN_IF_ERROR(target.stream.checkMayWait());
  page.chosen.resize(static_cast<size_t>(experts.elements()));
  if (page.chosen.empty())
    return {};
  void *memory = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.staging.reserve(recordingBytes(experts), memory));
  auto *recording = static_cast<Recording *>(memory);
  MOERT_RETURN_IF_ERROR(
      launch(noteRecordingKernel, Grid{.threads = dim3(1)}, target, recording, Recording{&page, experts.elements()}));
  MOERT_RETURN_IF_ERROR(copyBytes(target.stream.stream, recording->choices(), experts.data, experts.bytes(),
                                  "cannot copy the choices of 'route'"));
  return check(cudaLaunchHostFunc(target.stream.stream, record, recording), "cannot record the choices of 'route'");
}

} // namespace moert::cuda
