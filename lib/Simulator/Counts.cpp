//===- Counts.cpp - counts of rows of ragged launches ---------------------===//
#include "Counts.h"

#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moert/Window.h"
#include "moert/shadows.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <numeric>

using namespace mlir::moe;

/// Limit of the exchanges that a value goes through. Plans have two or three.
static constexpr unsigned maxDepth = 64;
/// Limit of the elements of a value. Values of plans have sources times experts.
static constexpr int64_t maxElements = int64_t(1) << 28;

/// First rule of a kind; null if the launch has none.
template <typename Rule> static const CountsRule *findRule(const SimLaunch &launch) {
  const auto *rule = llvm::find_if(launch.counts, [](const CountsRule &rule) { return rule.getIf<Rule>(); });
  return rule == launch.counts.end() ? nullptr : rule;
}

static llvm::Error makeUnknownError() {
  return llvm::createStringError(
      "numbers of rows depend on the routing: expected each launch from the routing on to say how it makes their "
      "counts (`counts` of plan.launch)");
}

Counts::Counts(const SimWorld &world, const RoutingTrace *trace, int64_t iteration)
    : world(world), trace(trace), iteration(iteration), even(!trace) {
  for (llvm::StringRef layer : listRoutedLayers(world.programs))
    layers.insert({layer, static_cast<int64_t>(layers.size())});
  for (const SimProgram &program : world.programs) {
    findWriters(program);
    even = even && llvm::none_of(program.launches, findRule<counts::SliceRows>);
  }
}

void Counts::findWriters(const SimProgram &program) {
  std::vector<int32_t> &writer = writers.emplace_back(program.buffers.size(), -1);
  std::vector<int32_t> viewed(program.buffers.size(), -1); ///< view that is written, by base
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

/// Launch that writes the buffer or the base of the view; -1 if that is not known.
int32_t Counts::getWriter(int64_t rank, int32_t buffer) const {
  if (buffer < 0)
    return -1;
  const std::vector<int32_t> &writer = writers[world.programOfRank[rank]];
  int32_t base = world.getProgram(rank).buffers[buffer].base;
  return writer[buffer] >= 0 || base < 0 ? writer[buffer] : writer[base];
}

llvm::Expected<Counts> Counts::create(const SimWorld &world, const RoutingTrace *trace, int64_t iteration) {
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
// Routing
//===----------------------------------------------------------------------===//

/// Number of experts that a routing launch chooses among. 0 if its output is not [chunks, experts].
static int64_t getNumExperts(const SimProgram &program, const SimLaunch &launch) {
  int32_t buffer = launch.outputs[launch.getRouting()->output];
  if (program.buffers[buffer].dtype != "i32" || program.buffers[buffer].shape.size() != 2)
    return 0;
  const auto &shape = program.buffers[buffer].shape;
  return shape[0] > 0 && shape[1] > 0 && shape[1] <= maxElements ? shape[1] : 0;
}

/// Number of choices that each rank makes in a routing launch.
static int64_t getNumChoices(const SimLaunch &launch) {
  counts::Route routed = *launch.getRouting()->getRouted();
  return routed.tokens * routed.topK;
}

static llvm::Error makeTraceError(const SimProgram &program, uint32_t launch, const llvm::Twine &expected) {
  return makeLaunchError(program, launch, "routing trace: expected " + expected);
}

/// Checks that each rank of the program makes as many choices as the launch says.
llvm::Error Counts::checkRouting(const SimProgram &program, uint32_t launch, const std::vector<int32_t> &counts) const {
  int64_t experts = trace->getNumExperts(), choices = getNumChoices(program.launches[launch]);
  for (int64_t rank = program.firstRank; rank < program.firstRank + program.numRanks; ++rank) {
    int64_t sum = 0;
    for (int32_t count : llvm::ArrayRef(counts).slice(getTraceRank(rank) * experts, experts)) {
      if (count < 0)
        return makeTraceError(program, launch,
                              "no negative counts but rank " + llvm::Twine(rank) + " has " + llvm::Twine(count));
      sum += count;
    }
    if (sum != choices)
      return makeTraceError(program, launch,
                            "the counts of rank " + llvm::Twine(rank) + " to add up to " + llvm::Twine(choices) +
                                " but got " + llvm::Twine(sum));
    // RoutingTrace::parse has checked that choices agree with counts.
    Choices ofTokens = getTokenChoices(rank, launch);
    if (!ofTokens.empty() && static_cast<int64_t>(ofTokens.size()) != choices)
      return makeTraceError(program, launch,
                            llvm::Twine(choices) + " choices of rank " + llvm::Twine(rank) + " but got " +
                                llvm::Twine(ofTokens.size()));
  }
  return llvm::Error::success();
}

/// Number of a routing launch's layer in the trace.
int64_t Counts::getLayerNumber(const SimLaunch &launch) const { return layers.lookup(getLayerOfLabel(launch.label)); }

/// Checks the trace. It may be anything if no launch is ragged, because then nothing depends on it.
llvm::Error Counts::checkTrace() const {
  for (const SimProgram &program : world.programs) {
    if (!program.isRagged())
      continue;
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      if (!launch.getRouting())
        continue;
      int64_t experts = getNumExperts(program, launch), layer = getLayerNumber(launch);
      if (trace->getNumRanks() != world.getNumRanks() && trace->getNumRanks() != program.numRanks)
        return makeTraceError(program, index,
                              "counts of " + llvm::Twine(world.getNumRanks()) + " ranks" +
                                  (program.numRanks == world.getNumRanks()
                                       ? llvm::Twine()
                                       : " or of the " + llvm::Twine(program.numRanks) + " of a pipeline stage") +
                                  " but got " + llvm::Twine(trace->getNumRanks()));
      if (trace->getNumExperts() != experts)
        return makeTraceError(program, index,
                              "counts of " + llvm::Twine(experts) + " experts but got " +
                                  llvm::Twine(trace->getNumExperts()));
      const std::vector<int32_t> *counts = trace->getCounts(iteration, layer);
      if (!counts)
        return makeTraceError(program, index,
                              "counts of layer " + llvm::Twine(layer) + " in iteration " + llvm::Twine(iteration) +
                                  " but it has none");
      if (llvm::Error error = checkRouting(program, index, *counts))
        return error;
    }
  }
  return llvm::Error::success();
}

/// Rank of the trace whose routing rank `rank` has. A trace may have the ranks of one pipeline stage.
int64_t Counts::getTraceRank(int64_t rank) const {
  return trace->getNumRanks() == world.getNumRanks() ? rank : rank - world.getProgram(rank).firstRank;
}

/// Choices before a gate that keeps some at home, [experts].
llvm::ArrayRef<int32_t> Counts::getRouted(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  int64_t experts = getNumExperts(program, launch), choices = getNumChoices(launch);
  if (trace) {
    const std::vector<int32_t> &counts = *trace->getCounts(iteration, getLayerNumber(launch));
    return llvm::ArrayRef(counts).slice(getTraceRank(rank) * experts, experts);
  }
  std::vector<int32_t> &counts = evenCounts[{experts, choices}];
  if (counts.empty())
    counts = makeEvenCounts(world.getNumRanks(), experts, choices);
  return llvm::ArrayRef(counts).slice(rank * experts, experts);
}

llvm::ArrayRef<int32_t> Counts::getChosen(int64_t rank, uint32_t index) {
  llvm::ArrayRef<int32_t> routed = getRouted(rank, index);
  const auto *gate = world.getLaunch(rank, index).getRouting()->getIf<counts::RouteNearHome>();
  if (!gate)
    return routed;
  std::vector<int32_t> &counts = gated[{rank, index}];
  if (counts.empty())
    counts = applyGate(*gate, routed, rank);
  return counts;
}

llvm::ArrayRef<RoutingTrace::Choice> Counts::getTokenChoices(int64_t rank, uint32_t index) const {
  const SimLaunch &launch = world.getLaunch(rank, index);
  if (!trace || launch.getRouting()->getIf<counts::RouteNearHome>())
    return {};
  return trace->getChoices(iteration, getLayerNumber(launch), getTraceRank(rank));
}

/// Counts of the chosen experts in `parts` parts of the tokens, [parts, experts].
std::vector<int32_t> Counts::divideChosen(int64_t rank, uint32_t index, int64_t parts) {
  llvm::ArrayRef<int32_t> chosen = getChosen(rank, index);
  TokenChoices choices = {getTokenChoices(rank, index), *world.getLaunch(rank, index).getRouting()->getRouted()};
  if (choices.all.empty())
    return divideChoices(chosen, parts);
  std::vector<int32_t> counts(parts * chosen.size());
  for (int64_t part = 0; part < parts; ++part) {
    int64_t begin = choices.getBegin(part, parts), end = choices.getBegin(part + 1, parts);
    for (RoutingTrace::Choice expert : choices.all.slice(begin, end - begin))
      ++counts[part * chosen.size() + expert];
  }
  return counts;
}

/// Whether a launch with a gate or a choice of shadows leaves even counts of `rank` even.
llvm::Expected<bool> Counts::keepsEven(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  const CountsRule *choice = findRule<counts::ChooseShadows>(launch);
  if (!choice)
    return getChosen(rank, index) == getRouted(rank, index);
  llvm::Expected<const Value *> shadows = follow(rank, launch.outputs[choice->output], 0);
  if (!shadows)
    return addLaunch(shadows.takeError(), program, index);
  return (*shadows)->total == 0;
}

/// Even counts stay even unless, on any rank, a gate moves them or an expert becomes a shadow.
llvm::Error Counts::checkEven() {
  for (const SimProgram &program : world.programs)
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      bool decides = findRule<counts::ChooseShadows>(launch) || findRule<counts::RouteNearHome>(launch);
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
// Counts of one launch
//===----------------------------------------------------------------------===//

namespace {
/// Shape of one member's part of a value, and its place in the member's value and in the result, by dimension.
struct Part {
  std::array<int64_t, 2> shape, from = {0, 0}, to = {0, 0};
};
} // namespace

/// Returns false if the part does not fit into one of the values.
static bool copyPart(const Counts::Value &from, Counts::Value &to, const Part &part) {
  if (part.from[0] + part.shape[0] > from.rows || part.from[1] + part.shape[1] > from.columns ||
      part.to[0] + part.shape[0] > to.rows || part.to[1] + part.shape[1] > to.columns)
    return false;
  for (int64_t row = 0; row < part.shape[0]; ++row)
    std::copy_n(from.data.begin() + (part.from[0] + row) * from.columns + part.from[1], part.shape[1],
                to.data.begin() + (part.to[0] + row) * to.columns + part.to[1]);
  return true;
}

/// Visits the members' inputs of a meeting in which each member has a rule of this kind.
template <typename Rule>
llvm::Error Counts::forEachMember(const Place &at,
                                  llvm::function_ref<llvm::Error(int64_t member, const Value &input)> visit) {
  MeetingId id = world.getMeeting(at.rank, at.launch);
  for (int64_t member = 0; member < world.groups[id.group].size; ++member) {
    int64_t other = world.getRank(id, member);
    std::optional<uint32_t> otherIndex = world.getMeetingLaunch(other, id);
    const CountsRule *otherRule = otherIndex ? findRule<Rule>(world.getLaunch(other, *otherIndex)) : nullptr;
    if (!otherRule)
      return fail(at, "expected counts from rank " + llvm::Twine(other) + " too");
    llvm::Expected<const Value *> input =
        follow(other, world.getLaunch(other, *otherIndex).inputs[otherRule->template getIf<Rule>()->input], at.depth);
    if (!input)
      return input.takeError();
    if (llvm::Error error = visit(member, **input))
      return error;
  }
  return llvm::Error::success();
}

template <typename Rule> llvm::Error Counts::fillExchanged(const counts::Exchange &how, Value &value, const Place &at) {
  const SimGroup &group = world.groups[world.getMeeting(at.rank, at.launch).group];
  return forEachMember<Rule>(at, [&](int64_t member, const Value &input) {
    if (input.tokens > 0) {
      if (member == 0)
        value = Value();
      return appendChoices(input, value, at);
    }
    Part part{{input.rows, input.columns}};
    part.shape[how.splitDim] = part.shape[how.splitDim] * how.copies / group.size;
    part.from[how.splitDim] = group.getMember(at.rank) / how.copies * part.shape[how.splitDim];
    part.to[how.concatDim] = member * part.shape[how.concatDim];
    return copyPart(input, value, part) ? llvm::Error::success()
                                        : fail(at, "expected the members' inputs to have as many counts as the output");
  });
}
llvm::Error Counts::fill(const counts::Exchange &rule, Value &value, const Place &at) {
  return fillExchanged<counts::Exchange>(rule, value, at);
}
/// Members exchange their whole inputs.
llvm::Error Counts::fill(const counts::Gather &rule, Value &value, const Place &at) {
  int64_t members = world.groups[world.getMeeting(at.rank, at.launch).group].size;
  return fillExchanged<counts::Gather>({rule.input, 0, rule.dim, members}, value, at);
}

const SimLaunch &Counts::getLaunch(const Place &at) const { return world.getLaunch(at.rank, at.launch); }

const SimGroup &Counts::getPartGroup(const Place &at) const {
  return world.getProgram(at.rank).groups[getLaunch(at).partGroup];
}

llvm::Error Counts::fail(const Place &at, const llvm::Twine &text) const {
  return makeLaunchError(world.getProgram(at.rank), at.launch, text);
}

llvm::Error Counts::failSizes(const Place &at) const {
  return fail(at, "expected the input to have as many counts as the output");
}

llvm::Expected<const Counts::Value *> Counts::followInput(int64_t input, const Place &at) {
  return follow(at.rank, getLaunch(at).inputs[input], at.depth);
}

/// Cuts rows sorted by expert into equal parts, one for each member, and counts the rows of the own part.
llvm::Error Counts::fill(const counts::SliceRows &rule, Value &value, const Place &at) {
  llvm::Expected<const Value *> from = followInput(rule.input, at);
  if (!from)
    return from.takeError();
  if ((*from)->rows != 1 || value.rows != 1 || (*from)->columns != value.columns || rule.rows > maxElements)
    return failSizes(at);
  int64_t parts = getPartGroup(at).size, part = getPartGroup(at).getMember(at.rank);
  int64_t begin = part * rule.rows / parts, end = (part + 1) * rule.rows / parts, first = 0;
  for (auto [count, to] : llvm::zip_equal((*from)->data, value.data)) {
    int64_t last = first + count;
    to = static_cast<int32_t>(std::max<int64_t>(0, std::min(last, end) - std::max(first, begin)));
    first = last;
  }
  return llvm::Error::success();
}

/// Repeats each of `blocks` parts along `dim` c times: out[.., (b * c + q) * n + i, ..] = in[.., b * n + i, ..].
llvm::Error Counts::fill(const counts::Repeat &rule, Value &value, const Place &at) {
  llvm::Expected<const Value *> from = followInput(rule.input, at);
  if (!from)
    return from.takeError();
  int64_t dim = rule.dim;
  std::array<int64_t, 2> size = {(*from)->rows, (*from)->columns}, outSize = {value.rows, value.columns};
  if (size[dim] % rule.blocks != 0 || outSize[dim] % size[dim] != 0 || size[1 - dim] != outSize[1 - dim])
    return failSizes(at);
  int64_t copies = outSize[dim] / size[dim];
  Part part{size};
  part.shape[dim] /= rule.blocks;
  for (int64_t copy = 0; copy < rule.blocks * copies; ++copy) {
    part.from[dim] = copy / copies * part.shape[dim];
    part.to[dim] = copy * part.shape[dim];
    copyPart(**from, value, part);
  }
  return llvm::Error::success();
}

llvm::Error Counts::fill(const counts::OwnExperts &rule, Value &value, const Place &at) {
  llvm::Expected<const Value *> from = followInput(rule.input, at);
  if (!from)
    return from.takeError();
  int64_t holder = getPartGroup(at).getMember(at.rank) / rule.holders;
  if ((*from)->rows != 1 || value.rows != 1 || (holder + 1) * value.columns > (*from)->columns)
    return failSizes(at);
  std::copy_n((*from)->data.begin() + holder * value.columns, value.columns, value.data.begin());
  return llvm::Error::success();
}

/// Gathered counts in `chunks` chunks, as the rule takes them. None if they do not fit the rule.
static std::optional<moert::SentRows> getSent(const Counts::Value &gathered, const counts::Window &rule,
                                              int64_t chunks) {
  if (gathered.rows % chunks != 0 || gathered.columns % rule.workers != 0 || gathered.rows / chunks % rule.phases != 0)
    return std::nullopt;
  return moert::SentRows{gathered.data.data(), gathered.rows / chunks, gathered.columns, rule.workers, chunks,
                         rule.phases};
}

llvm::Error Counts::fill(const counts::Window &rule, Value &value, const Place &at) {
  llvm::Expected<const Value *> from = followInput(rule.input, at);
  if (!from)
    return from.takeError();
  std::optional<moert::SentRows> sent = getSent(**from, rule, value.rows);
  int64_t member = getPartGroup(at).getMember(at.rank);
  if (!sent || member >= sent->members || value.columns != (*from)->columns)
    return failSizes(at);
  for (int64_t chunk = 0; chunk < value.rows; ++chunk)
    moert::forEachServed(*sent, member, chunk, getLaunch(at).pass, rule.rows,
                         [&](int64_t expert, int64_t, int64_t count) {
                           value.data[chunk * value.columns + expert] = static_cast<int32_t>(count);
                         });
  return llvm::Error::success();
}

/// Takes rows [first, first + rows) of the `all` rows to which the choices belong. Only counts are known, so equal
/// parts get equal shares of each expert that add up to the whole.
static void takePart(Counts::Value &choices, int64_t first, int64_t rows, int64_t all) {
  choices.tokens *= static_cast<double>(rows) / static_cast<double>(all);
  choices.chosen.clear();
  for (int32_t &count : choices.data) {
    int64_t before = count * first / all, behind = count * (first + rows) / all;
    count = static_cast<int32_t>(behind - before);
  }
}

/// Fills the value of a view with rows of its base.
llvm::Error Counts::fillView(Value &value, int64_t rank, int32_t buffer, unsigned depth) {
  const SimProgram &program = world.getProgram(rank);
  int32_t base = program.buffers[buffer].base;
  llvm::Expected<const Value *> from = follow(rank, base, depth);
  if (!from)
    return from.takeError();
  int64_t first = program.getFirstRow(buffer, rank);
  if ((*from)->tokens == 0) {
    auto begin = (*from)->data.begin() + first * (*from)->columns;
    value.data.assign(begin, begin + value.rows * value.columns);
    return llvm::Error::success();
  }
  int64_t rows = value.rows;
  value = **from;
  int32_t writer = getWriter(rank, base);
  if (!value.chosen.empty() && writer >= 0)
    if (const CountsRule *merged = findRule<counts::MergedRows>(program.launches[writer]))
      return takeSent(value, *merged, {rank, static_cast<uint32_t>(writer), depth}, first, rows);
  takePart(value, first, rows, program.buffers[base].shape[0]);
  return llvm::Error::success();
}

/// Adds the sums of the counts.
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

static moert_shadow_costs getShadowCosts(const counts::ChooseShadows &rule) {
  moert_shadow_costs costs{};
  costs.size = sizeof(costs);
  costs.policy = static_cast<uint32_t>(rule.policy);
  costs.workers = rule.workers;
  costs.node_workers = rule.nodeWorkers;
  costs.most = rule.most;
  costs.room = rule.room;
  costs.phases = rule.phases;
  costs.row_compute = rule.rowCompute;
  costs.row_send = rule.rowSend;
  costs.row_local = rule.rowLocal;
  costs.row_node = rule.rowNode;
  costs.expert = rule.expert;
  costs.start = rule.start;
  return costs;
}

llvm::Error Counts::fill(const counts::ChooseShadows &rule, Value &value, const Place &at) {
  llvm::Expected<const Value *> counts = followInput(rule.input, at);
  if (!counts)
    return counts.takeError();
  moert_shadow_costs costs = getShadowCosts(rule);
  if (value.rows != 1 || value.columns != (*counts)->columns ||
      moert_shadows_choose(&costs, (*counts)->data.data(), (*counts)->rows, value.columns, value.data.data()) != 0)
    return fail(at, "expected counts, shadows and parameters that fit each other");
  return llvm::Error::success();
}

static std::string getPlacesError(int64_t places, int64_t shadows) {
  return ("expected at most " + llvm::Twine(places) + " shadows, one for each place, but got " + llvm::Twine(shadows))
      .str();
}

/// The choices that a routing launch wrote to input `choices`, with the shadows that input `shadows` marks.
llvm::Expected<Counts::Division> Counts::getDivision(int64_t choices, int64_t shadows, const Place &at) {
  const SimProgram &program = world.getProgram(at.rank);
  int32_t router = writers[world.programOfRank[at.rank]][getLaunch(at).inputs[choices]];
  if (router < 0 || !program.launches[router].getRouting() || getNumExperts(program, program.launches[router]) == 0)
    return fail(at, "expected the choices of a routing launch");
  llvm::Expected<const Value *> flags = followInput(shadows, at);
  if (!flags)
    return flags.takeError();
  Division division{static_cast<uint32_t>(router), getChosen(at.rank, router), *flags};
  if ((*flags)->data.size() != division.chosen.size())
    return fail(at, "expected shadows of " + llvm::Twine(division.chosen.size()) + " experts");
  return division;
}

llvm::Error Counts::fill(const counts::KeptChoices &rule, Value &value, const Place &at) {
  llvm::Expected<Division> division = getDivision(rule.choices, rule.shadows, at);
  if (!division)
    return division.takeError();
  if (value.columns != static_cast<int64_t>(division->chosen.size()))
    return fail(at, "expected counts of " + llvm::Twine(division->chosen.size()) + " experts");
  // The chunk of a choice does not depend on shadows.
  value.data = divideChosen(at.rank, division->router, value.rows);
  for (auto [index, count] : llvm::enumerate(value.data))
    if (division->shadows->data[index % value.columns] != 0)
      count = 0;
  return llvm::Error::success();
}

llvm::Error Counts::fill(const counts::ShadowChoices &rule, Value &value, const Place &at) {
  llvm::Expected<Division> division = getDivision(rule.choices, rule.shadows, at);
  if (!division)
    return division.takeError();
  if (value.rows != 1)
    return fail(at, "expected one row of counts of shadows");
  if (division->shadows->total > value.columns)
    return fail(at, getPlacesError(value.columns, division->shadows->total));
  size_t place = 0;
  for (auto [isShadow, count] : llvm::zip_equal(division->shadows->data, division->chosen))
    if (isShadow != 0)
      value.data[place++] = count;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Rows that go once
//===----------------------------------------------------------------------===//

/// Choices of a rank's tokens that a pass serves. Each chunk has its own rows of an expert, in the order of tokens and
/// of their choices.
llvm::Expected<Counts::Choices> Counts::getServed(const Place &at, const counts::Window &rule, int64_t chunks,
                                                  const TokenChoices &choices) {
  llvm::Expected<const Value *> gathered = followInput(rule.input, at);
  if (!gathered)
    return gathered.takeError();
  std::optional<moert::SentRows> sent = getSent(**gathered, rule, chunks);
  if (!sent)
    return makeUnknownError();
  std::vector<RoutingTrace::Choice> &kept = served.emplace_back(choices.all.vec());
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    /// first served row, and number of served rows that are left
    std::vector<std::pair<int64_t, int64_t>> rows(sent->experts);
    moert::forEachServed(*sent, getPartGroup(at).getMember(at.rank), chunk, getLaunch(at).pass, rule.rows,
                         [&](int64_t expert, int64_t first, int64_t count) { rows[expert] = {first, count}; });
    int64_t begin = choices.getBegin(chunk, chunks), end = choices.getBegin(chunk + 1, chunks);
    for (RoutingTrace::Choice &choice : llvm::MutableArrayRef(kept).slice(begin, end - begin)) {
      auto &[first, count] = rows[choice];
      if (first-- > 0 || count-- <= 0)
        choice = RoutingTrace::kNoChoice;
    }
  }
  return kept;
}

/// Counts the choices of each expert.
static void countChoices(Counts::Value &value) {
  value.data.assign(value.columns, 0);
  for (RoutingTrace::Choice expert : value.chosen.front())
    if (expert != RoutingTrace::kNoChoice)
      ++value.data[expert];
}

/// Takes the tokens that stand in `buffer` from all tokens of a routing launch. `made` has a row of counts for each
/// chunk.
void Counts::takeTokens(Value &value, const Value &made, int64_t rank, int32_t buffer) const {
  const SimProgram &program = world.getProgram(rank);
  int32_t base = program.buffers[buffer].base;
  if (base < 0)
    return;
  int64_t rows = program.buffers[buffer].shape[0], all = program.buffers[base].shape[0];
  int64_t first = program.getFirstRow(buffer, rank);
  if (!value.chosen.empty()) {
    int64_t topK = static_cast<int64_t>(value.chosen.front().size()) / all;
    value.chosen.front() = value.chosen.front().slice(first * topK, rows * topK);
    value.tokens = static_cast<double>(rows);
    return countChoices(value);
  }
  if (made.rows * rows != all)
    return takePart(value, first, rows, all);
  value.tokens = static_cast<double>(rows);
  value.data.assign(made.data.begin() + first / rows * made.columns,
                    made.data.begin() + (first / rows + 1) * made.columns);
}

/// Choices of tokens for each expert, a row for each source rank.
llvm::Expected<Counts::Value> Counts::getChoices(int64_t choices, int64_t dropped, const Place &at) {
  const SimProgram &program = world.getProgram(at.rank);
  const SimLaunch &launch = getLaunch(at);
  int32_t buffer = launch.inputs[choices], router = getWriter(at.rank, buffer);
  const CountsRule *rule = router < 0 ? nullptr : program.launches[router].getRouting();
  if (!rule) {
    llvm::Expected<const Value *> arrived = follow(at.rank, buffer, at.depth);
    if (!arrived)
      return arrived.takeError();
    return (*arrived)->tokens > 0 ? llvm::Expected<Value>(**arrived) : fail(at, "expected the choices of tokens");
  }
  TokenChoices ofTokens = {getTokenChoices(at.rank, router), *rule->getRouted()};
  Value value;
  value.rows = 1;
  value.tokens = static_cast<double>(ofTokens.routed.tokens);
  // A pass of a layer serves only some of the tokens.
  int32_t divider = dropped < 0 ? -1 : getWriter(at.rank, launch.inputs[dropped]), counted = router;
  const CountsRule *window = divider < 0 ? nullptr : findRule<counts::Window>(program.launches[divider]);
  if (window)
    counted = divider, rule = window;
  llvm::Expected<const Value *> made = follow(at.rank, program.launches[counted].outputs[rule->output], at.depth);
  if (!made)
    return made.takeError();
  if (!ofTokens.all.empty())
    value.chosen = {ofTokens.all};
  if (window && !ofTokens.all.empty() && (*made)->total < static_cast<int64_t>(ofTokens.all.size())) {
    llvm::Expected<Choices> kept = getServed({at.rank, static_cast<uint32_t>(divider), at.depth},
                                             *window->getIf<counts::Window>(), (*made)->rows, ofTokens);
    if (!kept)
      return kept.takeError();
    value.chosen = {*kept};
  }
  value.columns = (*made)->columns;
  value.data.assign((*made)->perExpert.begin(), (*made)->perExpert.end());
  takeTokens(value, **made, at.rank, buffer);
  return value;
}

/// Takes rows [first, first + rows) of the rows that the launch sends. `value` has the choices of all its tokens. Rows
/// are sorted by holder, and then by token.
llvm::Error Counts::takeSent(Value &value, const CountsRule &merges, const Place &at, int64_t first, int64_t rows) {
  const auto &rule = *merges.getIf<counts::MergedRows>();
  llvm::Expected<const Value *> merged = follow(at.rank, getLaunch(at).outputs[merges.output], at.depth);
  if (!merged)
    return merged.takeError();
  const SimGroup &group = getPartGroup(at);
  int64_t own = rule.experts * rule.holders / group.size, perHolder = own / (*merged)->columns, row = 0;
  std::vector<RoutingTrace::Choice> &sent = served.emplace_back();
  for (int64_t holder = 0; holder < (*merged)->columns; ++holder) {
    int64_t from = group.getMember(at.rank) / rule.holders * own + holder * perHolder;
    auto isIts = [&](RoutingTrace::Choice expert) { return expert >= from && expert < from + perHolder; };
    for (Choices source : value.chosen)
      for (; !source.empty(); source = source.drop_front(rule.topK)) {
        Choices token = source.take_front(rule.topK);
        if (llvm::none_of(token, isIts))
          continue;
        if (row >= first && row < first + rows)
          for (RoutingTrace::Choice expert : token)
            sent.push_back(isIts(expert) ? expert : RoutingTrace::kNoChoice);
        ++row;
      }
  }
  value.rows = 1;
  value.tokens = static_cast<double>(rows);
  value.chosen = {sent};
  countChoices(value);
  return llvm::Error::success();
}

/// Adds one row for each token and each holder of an expert that it chose. The holders have `perHolder` experts each,
/// from `first` on.
static void addMergedRows(llvm::ArrayRef<RoutingTrace::Choice> chosen, int64_t topK, int64_t first, int64_t perHolder,
                          llvm::MutableArrayRef<double> rows) {
  std::vector<int64_t> lastToken(rows.size(), -1);
  for (auto [index, expert] : llvm::enumerate(chosen)) {
    int64_t token = static_cast<int64_t>(index) / topK, holder = (expert - first) / perHolder;
    if (expert == RoutingTrace::kNoChoice || expert < first || holder >= static_cast<int64_t>(rows.size()) ||
        lastToken[holder] == token)
      continue;
    lastToken[holder] = token;
    ++rows[holder];
  }
}

/// Adds the expected number of rows of `tokens` tokens from the counts of their choices.
static void addExpectedRows(llvm::ArrayRef<int32_t> counts, double tokens, const TokenDraw &draw, int64_t first,
                            int64_t perHolder, llvm::MutableArrayRef<double> rows) {
  for (auto [holder, its] : llvm::enumerate(rows)) {
    int64_t from = first + static_cast<int64_t>(holder) * perHolder;
    llvm::SmallVector<double> chances;
    for (int32_t count : counts.slice(from, perHolder))
      chances.push_back(count / tokens);
    its += tokens * draw.getChanceOfSome(from, chances);
  }
}

llvm::Error Counts::fill(const counts::MergedRows &rule, Value &value, const Place &at) {
  llvm::Expected<Value> choices = getChoices(rule.choices, rule.dropped, at);
  if (!choices)
    return choices.takeError();
  const SimGroup &group = getPartGroup(at);
  int64_t own = rule.experts * rule.holders / group.size, first = group.getMember(at.rank) / rule.holders * own;
  if (choices->columns != rule.experts || value.rows != 1 || own % value.columns != 0 ||
      rule.experts % rule.groups != 0 || rule.topGroups > rule.groups)
    return fail(at, "expected choices of " + llvm::Twine(rule.experts) + " experts, which holders have equal parts of");
  int64_t perHolder = own / value.columns;
  std::vector<double> rows(value.columns);
  for (int64_t source = 0; source < choices->rows; ++source)
    // If a holder has one expert, each choice of it is a row.
    if (perHolder > 1 && !choices->chosen.empty())
      addMergedRows(choices->chosen[source], rule.topK, first, perHolder, rows);
    else
      addExpectedRows(llvm::ArrayRef(choices->data).slice(source * choices->columns, choices->columns), choices->tokens,
                      counts::getDraw(rule), first, perHolder, rows);
  for (auto [count, expected] : llvm::zip_equal(value.data, rows))
    count = static_cast<int32_t>(std::lround(expected));
  return llvm::Error::success();
}

llvm::Error Counts::fill(const counts::SentChoices &rule, Value &value, const Place &at) {
  return getChoices(rule.choices, rule.dropped, at).moveInto(value);
}

llvm::Error Counts::appendChoices(const Value &from, Value &value, const Place &at) {
  if (value.rows > 0 && (value.columns != from.columns || value.tokens != from.tokens))
    return fail(at, "expected the members to have choices of as many tokens");
  bool isKnown = static_cast<int64_t>(value.chosen.size()) == value.rows && !from.chosen.empty();
  if (isKnown)
    llvm::append_range(value.chosen, from.chosen);
  else
    value.chosen.clear();
  value.columns = from.columns;
  value.tokens = from.tokens;
  value.rows += from.rows;
  value.data.insert(value.data.end(), from.data.begin(), from.data.end());
  return llvm::Error::success();
}

llvm::Error Counts::fill(const counts::ArrivedChoices &, Value &value, const Place &at) {
  value = Value();
  return forEachMember<counts::ArrivedChoices>(
      at, [&](int64_t, const Value &input) { return appendChoices(input, value, at); });
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

llvm::Error Counts::fill(const counts::Route &, Value &value, const Place &at) {
  if (getNumExperts(world.getProgram(at.rank), getLaunch(at)) == 0)
    return makeUnknownError();
  value.data = divideChosen(at.rank, at.launch, value.rows);
  return llvm::Error::success();
}
llvm::Error Counts::fill(const counts::RouteInGroups &rule, Value &value, const Place &at) {
  return fill(counts::Route{rule.tokens, rule.topK}, value, at);
}
llvm::Error Counts::fill(const counts::RouteNearHome &rule, Value &value, const Place &at) {
  return fill(counts::Route{rule.tokens, rule.topK}, value, at);
}

/// Place that keeps a value for all ranks with the same value. Null if ranks have their own.
llvm::Expected<Counts::SharedValue *> Counts::getCommon(const CountsRule &rule, const Place &at) {
  // Gathered counts are the same on all members.
  if (rule.getIf<counts::Gather>()) {
    MeetingId id = world.getMeeting(at.rank, at.launch);
    return &gathered[{id.group, id.instance, id.number}];
  }
  // Ranks with the same counts make the same decision.
  if (const auto *choice = rule.getIf<counts::ChooseShadows>()) {
    llvm::Expected<const Value *> counts = followInput(choice->input, at);
    if (!counts)
      return counts.takeError();
    return &shadows[{*counts, &getLaunch(at)}];
  }
  return nullptr;
}

llvm::Expected<Counts::SharedValue> Counts::makeWritten(const CountsRule &rule, Value &&value, const Place &at) {
  llvm::Expected<SharedValue *> common = getCommon(rule, at);
  if (!common)
    return common.takeError();
  if (*common && **common && (**common)->rows == value.rows && (**common)->columns == value.columns)
    return **common;
  if (llvm::Error error = std::visit([&](const auto &how) { return fill(how, value, at); }, rule.how))
    return error;
  SharedValue sum = sumUp(std::move(value));
  // The maps may have grown meanwhile, but their elements do not move.
  if (*common)
    **common = sum;
  return sum;
}

llvm::Expected<Counts::SharedValue> Counts::make(int64_t rank, int32_t buffer, unsigned depth) {
  const SimBuffer &it = world.getProgram(rank).buffers[buffer];
  int32_t writer = writers[world.programOfRank[rank]][buffer];
  bool isValue = it.dtype == "i32" && it.shape.size() == 2 && it.shape[0] > 0 && it.shape[1] > 0;
  if (depth > maxDepth || !isValue || it.shape[0] > maxElements / it.shape[1])
    return makeUnknownError();
  Value value;
  value.rows = it.shape[0];
  value.columns = it.shape[1];
  if (writer >= 0) {
    const SimLaunch &launch = world.getLaunch(rank, writer);
    const auto *rule =
        llvm::find_if(launch.counts, [&](const CountsRule &rule) { return launch.outputs[rule.output] == buffer; });
    if (rule == launch.counts.end())
      return makeUnknownError();
    value.data.resize(value.rows * value.columns);
    return makeWritten(*rule, std::move(value), {rank, static_cast<uint32_t>(writer), depth});
  }
  if (it.firstRow < 0)
    return makeUnknownError();
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
  // A ragged all_to_all has room for the rows of its block side. Launches that use the received rows check theirs.
  if (launch.cost.collective == Collective::AllToAll || (*value)->total <= launch.cost.raggedRows)
    return value;
  if (launch.cost.collective == Collective::Broadcast || launch.cost.collective == Collective::Reduce)
    return makeLaunchError(program, index, getPlacesError(launch.cost.raggedRows, (*value)->total));
  return makeLaunchError(program, index,
                         llvm::Twine((*value)->total) + " rows arrive at rank " + llvm::Twine(rank) +
                             ", which has room for " + llvm::Twine(launch.cost.raggedRows) +
                             "; compile with a larger --max-load, or with --max-load=none for the worst case");
}

llvm::Expected<int64_t> Counts::getFurtherPasses(int64_t rank, uint32_t index) {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &launch = program.launches[index];
  int32_t writer = launch.inputs.empty() ? -1 : writers[world.programOfRank[rank]][launch.inputs.front()];
  const CountsRule *rule = writer < 0 ? nullptr : findRule<counts::Window>(program.launches[writer]);
  if (!rule)
    return addLaunch(makeUnknownError(), program, index);
  const auto &how = *rule->getIf<counts::Window>();
  llvm::Expected<const Value *> gathered = followInput(how.input, {rank, static_cast<uint32_t>(writer), 0});
  if (!gathered)
    return addLaunch(gathered.takeError(), program, index);
  llvm::ArrayRef<int64_t> shape = program.buffers[program.launches[writer].outputs[rule->output]].shape;
  std::optional<moert::SentRows> sent = getSent(**gathered, how, shape.empty() ? 1 : std::max<int64_t>(1, shape[0]));
  if (!sent)
    return addLaunch(makeUnknownError(), program, index);
  return moert::countPasses(*sent, how.rows) - 1;
}

/// On the way back, the counts have only the peers of the phase.
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
  // Rows to experts go to all holders of the expert. On the way back a member sends the rows that it has.
  if (cost.phases == 1 || cost.peerDim != 1)
    return counts.total * (cost.peerDim == 1 ? cost.copies : 1);
  const SimGroup &group = world.groups[world.getMeeting(rank, index).group];
  int64_t sum = 0, from = group.getMember(rank);
  for (int64_t to = 0; to < group.size; ++to)
    sum += getRowsFor(counts, cost, group.size, from, to);
  return sum;
}
