//===- Counts.cpp - how many rows each ragged launch uses -----------------===//
#include "Counts.h"

#include "moert/shadows.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir::moe;

/// Exchanges on the way of one value; plans have two or three.
static constexpr unsigned maxDepth = 64;
/// Elements of a value; those of plans are sources times experts.
static constexpr int64_t maxElements = int64_t(1) << 28;

static bool isSlice(const SimLaunch &launch) { return launch.kernel == "slice_counts"; }
static bool keepsOwn(const SimLaunch &launch) { return launch.kernel == "local_slots"; }
static bool choosesShadows(const SimLaunch &launch) { return launch.kernel == "choose_shadows"; }
static bool dividesChoices(const SimLaunch &launch) { return launch.kernel == "divide_choices"; }

Counts::Counts(const World &world, const RoutingTrace *trace, int64_t iteration)
    : world(world), trace(trace), iteration(iteration), even(!trace) {
  for (const SimProgram &program : world.programs) {
    for (llvm::StringRef layer : program.routedLayers)
      layers.insert({layer, static_cast<int64_t>(layers.size())});
    findWriters(program);
    even = even && llvm::none_of(program.launches, isSlice);
  }
}

void Counts::findWriters(const SimProgram &program) {
  std::vector<int32_t> &writer = writers.emplace_back(program.buffers.size(), -1);
  std::vector<int32_t> viewed(program.buffers.size(), -1); ///< by base: the one of its names that is written
  std::vector<bool> several(program.buffers.size());
  for (auto [index, launch] : llvm::enumerate(program.launches))
    for (int32_t output : launch.outputs) {
      if (output < 0)
        continue;
      int32_t base = program.buffers[output].base < 0 ? output : program.buffers[output].base;
      several[base] = several[base] || writer[output] >= 0 || (viewed[base] >= 0 && viewed[base] != output);
      viewed[base] = output;
      writer[output] = static_cast<int32_t>(index);
    }
  for (auto [index, buffer] : llvm::enumerate(program.buffers))
    if (several[buffer.base < 0 ? static_cast<int32_t>(index) : buffer.base])
      writer[index] = -1;
}

llvm::Expected<Counts> Counts::create(const World &world, const RoutingTrace *trace, int64_t iteration) {
  Counts counts(world, trace, iteration);
  if (trace)
    if (llvm::Error error = counts.checkTrace())
      return error;
  if (counts.even)
    if (llvm::Error error = counts.checkEven())
      return error;
  return counts;
}

//===----------------------------------------------------------------------===//
// What is routed
//===----------------------------------------------------------------------===//

static bool isRagged(const SimLaunch &launch) { return launch.cost.raggedRows > 0; }

/// Experts that a routing launch chooses among: its output is [chunks, experts]. 0 where it is not.
static int64_t getNumExperts(const SimProgram &program, const SimLaunch &launch) {
  int32_t buffer = launch.outputs[launch.cost.routedOutput];
  if (buffer < 0 || program.buffers[buffer].dtype != "i32" || program.buffers[buffer].shape.size() != 2)
    return 0;
  const auto &shape = program.buffers[buffer].shape;
  return shape[0] > 0 && shape[1] > 0 && shape[1] <= maxElements ? shape[1] : 0;
}

/// Each rank of the program makes as many choices as the launch says.
llvm::Error Counts::checkRouting(const SimProgram &program, uint32_t launch, const std::vector<int32_t> &counts,
                                 int64_t firstRank, int64_t numRanks) const {
  int64_t experts = trace->getNumExperts(), choices = program.launches[launch].cost.routedRows;
  for (int64_t rank = firstRank; rank < firstRank + numRanks; ++rank) {
    int64_t sum = 0;
    for (int32_t count : llvm::ArrayRef(counts).slice(rank * experts, experts)) {
      if (count < 0)
        return makeLaunchError(program, launch,
                               "routing trace: expected no negative counts but rank " + llvm::Twine(rank) + " has " +
                                   llvm::Twine(count));
      sum += count;
    }
    if (sum != choices)
      return makeLaunchError(program, launch,
                             "routing trace: expected the counts of rank " + llvm::Twine(rank) + " to add up to " +
                                 llvm::Twine(choices) + " but got " + llvm::Twine(sum));
  }
  return llvm::Error::success();
}

/// In the capacity form nothing depends on the routing, and the trace may be anything.
llvm::Error Counts::checkTrace() const {
  for (const SimProgram &program : world.programs) {
    if (!llvm::any_of(program.launches, isRagged))
      continue;
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      if (launch.cost.routedOutput < 0)
        continue;
      auto fail = [&, index = index](const llvm::Twine &expected, int64_t got) {
        return makeLaunchError(program, index, "routing trace: expected " + expected + " but got " + llvm::Twine(got));
      };
      int64_t experts = getNumExperts(program, launch), layer = layers.lookup(launch.label);
      if (trace->getNumRanks() != world.getNumRanks())
        return fail("counts of " + llvm::Twine(world.getNumRanks()) + " ranks", trace->getNumRanks());
      if (trace->getNumExperts() != experts)
        return fail("counts of " + llvm::Twine(experts) + " experts", trace->getNumExperts());
      const std::vector<int32_t> *counts = trace->getCounts(iteration, layer);
      if (!counts)
        return makeLaunchError(program, index,
                               "routing trace: expected counts of layer " + llvm::Twine(layer) + " in iteration " +
                                   llvm::Twine(iteration) + " but it has none");
      if (llvm::Error error = checkRouting(program, index, *counts, program.firstRank, program.numRanks))
        return error;
    }
  }
  return llvm::Error::success();
}

/// [ranks, experts]
const std::vector<int32_t> &Counts::getRouted(const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  if (trace)
    return *trace->getCounts(iteration, layers.lookup(launch.label));
  int64_t experts = getNumExperts(program, launch);
  std::vector<int32_t> &counts = evenCounts[{experts, launch.cost.routedRows}];
  if (counts.empty())
    counts = makeEvenCounts(world.getNumRanks(), experts, launch.cost.routedRows);
  return counts;
}

/// What a rank's tokens choose, [experts].
llvm::ArrayRef<int32_t> Counts::getChosen(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  int64_t experts = getNumExperts(program, program.launches[index]);
  auto routed = llvm::ArrayRef(getRouted(program, index)).slice(rank * experts, experts);
  std::optional<Gate> gate = Gate::get(program, program.launches[index]);
  if (!gate)
    return routed;
  std::vector<int32_t> &counts = gated[{rank, index}];
  if (counts.empty())
    counts = gate->apply(routed, rank);
  return counts;
}

/// Whether a launch may make even counts uneven, on rank `rank`: by its gate, or by choosing shadows.
llvm::Expected<bool> Counts::keepsEven(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  if (!choosesShadows(launch)) {
    llvm::ArrayRef<int32_t> chosen = getChosen(rank, index);
    return chosen == llvm::ArrayRef(getRouted(program, index)).slice(rank * chosen.size(), chosen.size());
  }
  llvm::Expected<const Value *> shadows = follow(rank, launch.outputs[0], 0);
  if (!shadows)
    return addLaunch(shadows.takeError(), program, index);
  return (*shadows)->total == 0;
}

/// Even counts stay even unless a gate moves them or some expert becomes a shadow, on any rank.
llvm::Error Counts::checkEven() {
  for (const SimProgram &program : world.programs)
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      bool decides = (choosesShadows(launch) && !launch.outputs.empty() && launch.outputs[0] >= 0) ||
                     (launch.cost.routedOutput >= 0 && Gate::get(program, launch));
      for (int64_t rank = program.firstRank; decides && even && rank < program.firstRank + program.numRanks; ++rank) {
        llvm::Expected<bool> keeps = keepsEven(rank, index);
        if (!keeps)
          return keeps.takeError();
        even = *keeps;
      }
    }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// What arrives
//===----------------------------------------------------------------------===//

namespace {
/// Where one member's part of a value stands in the member's own and in the result, each by dimension.
struct Part {
  std::array<int64_t, 2> shape, from = {0, 0}, to = {0, 0};
};
} // namespace

static bool isDim(llvm::ArrayRef<int64_t> params, size_t index) {
  return index < params.size() && (params[index] == 0 || params[index] == 1);
}

/// An exchange that moves values and does not compute with them.
static bool moves(const SimLaunch &launch) {
  if (isRagged(launch) || launch.inputs.empty() || launch.inputs[0] < 0)
    return false;
  switch (launch.cost.collective) {
  case Collective::AllGather:
    return isDim(launch.params, 0);
  case Collective::AllToAll:
    // A phase fills a part of its output only; counts are exchanged at once.
    return isDim(launch.params, 0) && isDim(launch.params, 1) && launch.cost.phases == 1;
  default:
    return false;
  }
}

/// Neighbouring members that get the same part of an all_to_all; the call's third parameter, where it has one.
static int64_t getNumCopies(const SimLaunch &launch) {
  return launch.params.size() > 2 ? std::max<int64_t>(1, launch.params[2]) : 1;
}

/// The part of member `from` that member `to` gets, of a value of that shape; moert.h has the words.
static Part getPart(const SimLaunch &launch, int64_t members, int64_t from, int64_t to, std::array<int64_t, 2> shape) {
  Part part{shape};
  if (launch.cost.collective == Collective::AllGather) {
    int64_t dim = launch.params[0];
    part.to[dim] = from * shape[dim];
    return part;
  }
  int64_t split = launch.params[0], concat = launch.params[1], copies = getNumCopies(launch);
  part.shape[split] = part.shape[split] * copies / members;
  part.from[split] = to / copies * part.shape[split];
  part.to[concat] = from * part.shape[concat];
  return part;
}

/// False where a side has no room for the part.
static bool copyPart(const Counts::Value &from, Counts::Value &to, const Part &part) {
  if (part.from[0] + part.shape[0] > from.rows || part.from[1] + part.shape[1] > from.columns ||
      part.to[0] + part.shape[0] > to.rows || part.to[1] + part.shape[1] > to.columns)
    return false;
  for (int64_t row = 0; row < part.shape[0]; ++row)
    std::copy_n(from.data.begin() + (part.from[0] + row) * from.columns + part.from[1], part.shape[1],
                to.data.begin() + (part.to[0] + row) * to.columns + part.to[1]);
  return true;
}

llvm::Error Counts::fillExchanged(Value &value, int64_t rank, uint32_t index, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  MeetingId id = world.getMeeting(rank, index);
  const SimGroup &group = world.groups[id.group];
  for (int64_t member = 0; member < group.size; ++member) {
    int64_t other = world.getRank(id, member);
    std::optional<uint32_t> otherIndex = world.getMeetingLaunch(other, id);
    if (!otherIndex || !moves(world.getLaunch(other, *otherIndex)))
      return makeLaunchError(program, index, "expected counts from rank " + llvm::Twine(other) + " too");
    llvm::Expected<const Value *> input = follow(other, world.getLaunch(other, *otherIndex).inputs[0], depth);
    if (!input)
      return input.takeError();
    Part part = getPart(launch, group.size, member, group.getMember(rank), {(*input)->rows, (*input)->columns});
    if (!copyPart(**input, value, part))
      return makeLaunchError(program, index, "expected an output of counts that the members' inputs fill");
  }
  return llvm::Error::success();
}

/// Rows sorted by expert are cut into `parts` equal parts: of each expert's, those that lie in part `part`.
static bool slice(const Counts::Value &from, Counts::Value &to, int64_t rows, int64_t parts, int64_t part) {
  if (from.rows != 1 || to.rows != 1 || from.columns != to.columns || rows < 0 || rows > maxElements)
    return false;
  int64_t begin = part * rows / parts, end = (part + 1) * rows / parts, first = 0;
  for (int64_t expert = 0; expert < from.columns; ++expert) {
    int64_t last = first + from.data[expert];
    to.data[expert] = static_cast<int32_t>(std::max<int64_t>(0, std::min(last, end) - std::max(first, begin)));
    first = last;
  }
  return true;
}

/// out[.., (b * c + q) * n + i, ..] = in[.., b * n + i, ..]: each of `blocks` parts along `dim` c times.
static bool dump(const Counts::Value &from, Counts::Value &to, int64_t dim, int64_t blocks) {
  std::array<int64_t, 2> size = {from.rows, from.columns}, outSize = {to.rows, to.columns};
  if (blocks < 1 || size[dim] % blocks != 0 || outSize[dim] % size[dim] != 0 || size[1 - dim] != outSize[1 - dim])
    return false;
  int64_t copies = outSize[dim] / size[dim];
  Part part{size};
  part.shape[dim] /= blocks;
  for (int64_t copy = 0; copy < blocks * copies; ++copy) {
    part.from[dim] = copy / copies * part.shape[dim];
    part.to[dim] = copy * part.shape[dim];
    copyPart(from, to, part);
  }
  return true;
}

/// The counts of the experts of place `place` among those that hold them, to.columns each.
static bool keepOwn(const Counts::Value &from, Counts::Value &to, int64_t place) {
  if (from.rows != 1 || to.rows != 1 || (place + 1) * to.columns > from.columns)
    return false;
  std::copy_n(from.data.begin() + place * to.columns, to.columns, to.data.begin());
  return true;
}

static bool isDump(const SimLaunch &launch) { return launch.kernel == "dump" && isDim(launch.params, 0); }

/// What a launch that meets nobody makes of its counts.
llvm::Error Counts::fillLocal(Value &value, int64_t rank, uint32_t index, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  size_t number = keepsOwn(launch) ? 1 : 0, numParams = keepsOwn(launch) ? 3 : isSlice(launch) ? 1 : 2;
  if (launch.inputs.size() <= number || launch.inputs[number] < 0 || launch.params.size() < numParams ||
      (!isDump(launch) && launch.partGroup < 0))
    return makeLaunchError(program, index, "expected an input of counts and the parameters of the call");
  llvm::Expected<const Value *> input = follow(rank, launch.inputs[number], depth);
  if (!input)
    return input.takeError();
  const SimGroup *group = launch.partGroup < 0 ? nullptr : &program.groups[launch.partGroup];
  bool fits;
  if (isSlice(launch))
    fits = slice(**input, value, launch.params[0], group->size, group->getMember(rank));
  else if (keepsOwn(launch))
    fits = keepOwn(**input, value, group->getMember(rank) / std::max<int64_t>(1, launch.params[2]));
  else
    fits = dump(**input, value, launch.params[0], launch.params[1]);
  if (!fits)
    return makeLaunchError(program, index, "expected an output of counts that the input fills");
  return llvm::Error::success();
}

/// The rows of a view.
llvm::Error Counts::fillView(Value &value, int64_t rank, int32_t buffer, unsigned depth) {
  const SimBuffer &view = world.getProgram(rank).buffers[buffer];
  llvm::Expected<const Value *> base = follow(rank, view.base, depth);
  if (!base)
    return base.takeError();
  auto begin = (*base)->data.begin() + world.getProgram(rank).getFirstRow(buffer, rank) * (*base)->columns;
  value.data.assign(begin, begin + value.rows * value.columns);
  return llvm::Error::success();
}

/// With the sums of its counts.
static std::shared_ptr<const Counts::Value> sumUp(Counts::Value &&value) {
  value.perExpert.assign(value.columns, 0);
  for (int64_t row = 0; row < value.rows; ++row)
    for (int64_t column = 0; column < value.columns; ++column)
      value.perExpert[column] += value.data[row * value.columns + column];
  value.total = std::accumulate(value.perExpert.begin(), value.perExpert.end(), int64_t(0));
  return std::make_shared<const Counts::Value>(std::move(value));
}

//===----------------------------------------------------------------------===//
// Shadows
//===----------------------------------------------------------------------===//

/// As moert_choose_shadows gets them; none where the launch has other parameters.
static std::optional<moert_shadow_costs> getShadowCosts(const SimLaunch &launch) {
  llvm::ArrayRef<int64_t> sizes = launch.params;
  llvm::ArrayRef<double> times = launch.reals;
  if (sizes.size() != 6 || times.size() != 6)
    return std::nullopt;
  return moert_shadow_costs{sizeof(moert_shadow_costs),
                            static_cast<uint32_t>(sizes[0]),
                            sizes[1],
                            sizes[2],
                            sizes[3],
                            sizes[4],
                            sizes[5],
                            times[0],
                            times[1],
                            times[2],
                            times[3],
                            times[4],
                            times[5]};
}

/// One decision for all ranks that have the same counts.
llvm::Expected<Counts::SharedValue> Counts::makeShadows(int64_t rank, uint32_t index, Value &&value, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  std::optional<moert_shadow_costs> costs = getShadowCosts(launch);
  if (!costs || launch.inputs.size() != 1 || launch.inputs[0] < 0)
    return makeLaunchError(program, index, "expected an input of counts and the parameters of the call");
  llvm::Expected<const Value *> counts = follow(rank, launch.inputs[0], depth);
  if (!counts)
    return counts.takeError();
  SharedValue &known = shadows[{*counts, &launch}];
  if (known)
    return known;
  if (value.rows != 1 || value.columns != (*counts)->columns ||
      moert_shadows_choose(&*costs, (*counts)->data.data(), (*counts)->rows, value.columns, value.data.data()) != 0)
    return makeLaunchError(program, index, "expected counts, shadows and parameters that fit each other");
  return known = sumUp(std::move(value));
}

static std::string getPlacesError(int64_t places, int64_t shadows) {
  return ("expected at most " + llvm::Twine(places) + " shadows, one for each place, but got " + llvm::Twine(shadows))
      .str();
}

/// The counts of what is no shadow, or of what is one.
llvm::Error Counts::fillDivided(Value &value, int64_t rank, uint32_t index, int32_t buffer, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  auto fail = [&](const llvm::Twine &what) { return makeLaunchError(program, index, what); };
  if (launch.inputs.size() != 2 || launch.inputs[0] < 0 || launch.inputs[1] < 0 || launch.outputs.size() != 4)
    return fail("expected choices and shadows, and slots and counts of both");
  int32_t router = writers[world.programOfRank[rank]][launch.inputs[0]];
  if (router < 0 || program.launches[router].cost.routedOutput < 0 ||
      getNumExperts(program, program.launches[router]) == 0)
    return fail("expected the choices of a routing launch");
  llvm::Expected<const Value *> flags = follow(rank, launch.inputs[1], depth);
  if (!flags)
    return flags.takeError();
  llvm::ArrayRef<int32_t> chosen = getChosen(rank, router), areShadows = (*flags)->data;
  bool isOfShadows = launch.outputs[3] == buffer;
  auto experts = static_cast<int64_t>(chosen.size());
  if (static_cast<int64_t>(areShadows.size()) != experts || (isOfShadows ? value.rows != 1 : value.columns != experts))
    return fail("expected shadows and counts of " + llvm::Twine(experts) + " experts");
  if (isOfShadows && (*flags)->total > value.columns)
    return fail(getPlacesError(value.columns, (*flags)->total));
  // Which chunk a choice is of does not depend on what is a shadow.
  if (!isOfShadows)
    value.data = divideChoices(chosen, value.rows);
  for (int64_t expert = 0, place = 0; expert < experts; ++expert) {
    if (areShadows[expert] == 0)
      continue;
    if (isOfShadows)
      value.data[place++] = chosen[expert];
    for (int64_t row = 0; !isOfShadows && row < value.rows; ++row)
      value.data[row * experts + expert] = 0;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static llvm::Error makeUnknownError() {
  return makeError("counts of rows that only the data say: expected them from a routing launch, through all_gather, "
                   "all_to_all, slice_counts, local_slots, dump, choose_shadows and divide_choices");
}

/// Gathered counts are the same on all members whose buffers are.
llvm::Expected<Counts::SharedValue> Counts::makeGathered(int64_t rank, uint32_t index, Value &&value, unsigned depth) {
  MeetingId id = world.getMeeting(rank, index);
  SharedValue &known = gathered[{id.group, id.instance, id.number}];
  if (known && known->rows == value.rows && known->columns == value.columns)
    return known;
  if (llvm::Error error = fillExchanged(value, rank, index, depth))
    return error;
  return known = sumUp(std::move(value));
}

/// What launch `index` writes to `buffer`; the value has its shape, and zeros.
llvm::Error Counts::fillWritten(Value &value, int64_t rank, int32_t buffer, uint32_t index, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  if (launch.cost.routedOutput >= 0 && launch.outputs[launch.cost.routedOutput] == buffer) {
    if (getNumExperts(program, launch) == 0)
      return makeUnknownError();
    value.data = divideChoices(getChosen(rank, index), value.rows);
    return llvm::Error::success();
  }
  if (dividesChoices(launch))
    return fillDivided(value, rank, index, buffer, depth);
  if (keepsOwn(launch) && launch.outputs.size() == 2 && launch.outputs[1] == buffer)
    return fillLocal(value, rank, index, depth);
  if (launch.outputs.size() != 1)
    return makeUnknownError();
  if (launch.group < 0 && (isSlice(launch) || isDump(launch)))
    return fillLocal(value, rank, index, depth);
  if (launch.group >= 0 && moves(launch))
    return fillExchanged(value, rank, index, depth);
  return makeUnknownError();
}

llvm::Expected<Counts::SharedValue> Counts::makeWritten(int64_t rank, int32_t buffer, uint32_t index, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  Value value;
  value.rows = program.buffers[buffer].shape[0];
  value.columns = program.buffers[buffer].shape[1];
  value.data.resize(value.rows * value.columns);
  bool writesThisOnly = launch.outputs.size() == 1;
  if (writesThisOnly && choosesShadows(launch))
    return makeShadows(rank, index, std::move(value), depth);
  if (writesThisOnly && launch.group >= 0 && launch.cost.collective == Collective::AllGather && moves(launch))
    return makeGathered(rank, index, std::move(value), depth);
  if (llvm::Error error = fillWritten(value, rank, buffer, index, depth))
    return error;
  return sumUp(std::move(value));
}

llvm::Expected<Counts::SharedValue> Counts::make(int64_t rank, int32_t buffer, unsigned depth) {
  const SimBuffer &it = world.getProgram(rank).buffers[buffer];
  int32_t writer = writers[world.programOfRank[rank]][buffer];
  bool isValue = it.dtype == "i32" && it.shape.size() == 2 && it.shape[0] > 0 && it.shape[1] > 0;
  if (depth > maxDepth || !isValue || it.shape[0] > maxElements / it.shape[1])
    return makeUnknownError();
  if (writer >= 0)
    return makeWritten(rank, buffer, writer, depth);
  if (it.firstRow < 0)
    return makeUnknownError();
  Value value;
  value.rows = it.shape[0];
  value.columns = it.shape[1];
  if (llvm::Error error = fillView(value, rank, buffer, depth))
    return error;
  return sumUp(std::move(value));
}

llvm::Expected<const Counts::Value *> Counts::follow(int64_t rank, int32_t buffer, unsigned depth) {
  auto known = values.find({rank, buffer});
  if (known != values.end())
    return known->second.get();
  llvm::Expected<SharedValue> value = make(rank, buffer, depth + 1);
  if (!value)
    return value.takeError();
  return (values[{rank, buffer}] = std::move(*value)).get();
}

llvm::Expected<const Counts::Value *> Counts::get(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  llvm::Expected<const Value *> value = follow(rank, launch.inputs[launch.cost.countsInput], 0);
  if (!value)
    return addLaunch(value.takeError(), program, index);
  // A ragged all_to_all has room for what its block side sends; what arrives is for the launches that use it to say.
  if (launch.cost.collective == Collective::AllToAll || (*value)->total <= launch.cost.raggedRows)
    return value;
  if (launch.cost.collective == Collective::Broadcast || launch.cost.collective == Collective::Reduce)
    return makeLaunchError(program, index, getPlacesError(launch.cost.raggedRows, (*value)->total));
  return makeLaunchError(program, index,
                         llvm::Twine((*value)->total) + " rows arrive at rank " + llvm::Twine(rank) +
                             ", which has room for " + llvm::Twine(launch.cost.raggedRows) +
                             "; compile with a larger --max-load");
}

/// To the experts, each row goes to all that hold its expert. On the way back a member sends the rows that it has.
static int64_t getCopiesSent(const OpCost &cost) { return cost.peerDim == 1 ? cost.copies : 1; }

/// On the way back the counts are those of the phase's peers alone.
int64_t Counts::getNumParts(const OpCost &cost, int64_t members) {
  return cost.peerDim == 1 ? members / cost.copies : members / cost.phases;
}

int64_t Counts::getRowsFor(const Value &counts, const OpCost &cost, int64_t members, int64_t from, int64_t to) {
  if (!cost.isPeer(members, from, to))
    return 0;
  int64_t parts = getNumParts(cost, members), part = cost.peerDim == 1 ? to / cost.copies : to % parts;
  int64_t rows = cost.peerDim == 0 ? counts.rows / parts : counts.rows;
  int64_t columns = cost.peerDim == 1 ? counts.columns / parts : counts.columns;
  int64_t firstRow = cost.peerDim == 0 ? part * rows : 0, firstColumn = cost.peerDim == 1 ? part * columns : 0;
  int64_t sum = 0;
  for (int64_t row = firstRow; row < firstRow + rows; ++row)
    for (int64_t column = firstColumn; column < firstColumn + columns; ++column)
      sum += counts.data[row * counts.columns + column];
  return sum;
}

int64_t Counts::getRows(const Value &counts, int64_t rank, uint32_t index) const {
  const OpCost &cost = world.getLaunch(rank, index).cost;
  if (cost.phases == 1 || cost.peerDim != 1)
    return counts.total * getCopiesSent(cost);
  const SimGroup &group = world.groups[world.getMeeting(rank, index).group];
  int64_t sum = 0, from = group.getMember(rank);
  for (int64_t to = 0; to < group.size; ++to)
    sum += getRowsFor(counts, cost, group.size, from, to);
  return sum;
}
