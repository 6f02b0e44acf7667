//===- Routing.cpp - forcing and recording what a plan's programs route -----===//

#include "run/Routing.h"

#include <algorithm>
#include <fstream>
#include <numeric>

namespace moert::run {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

Status listRoutings(const Plan &plan, int32_t program, std::vector<moert_routing> &routings) {
  int64_t count = 0;
  do {
    routings.resize(static_cast<size_t>(count));
    MOERT_RETURN_IF_ERROR(
        checked(moert_plan_routings(plan.handle.get(), plan.variant, program, routings.data(), count, &count)));
  } while (count != static_cast<int64_t>(routings.size()));
  return {};
}

/// Computes the number of the layer's shards.
Status matchPrograms(RoutedLayer &layer, size_t index) {
  const moert_routing &rank = layer.rank, &all = layer.reference;
  std::string where = "layer " + std::to_string(index) + ": ";
  if (rank.experts != all.experts || rank.choices != all.choices)
    return invalid(where + "the plan's tokens choose " + text(rank.choices) + " of " + text(rank.experts) +
                   " experts, but the reference's " + text(all.choices) + " of " + text(all.experts));
  if (all.tokens == 0 && rank.tokens == 0) {
    layer.shards = rank.ranks;
    return {};
  }
  layer.shards = rank.tokens > 0 && all.tokens % rank.tokens == 0 ? all.tokens / rank.tokens : 0;
  if (layer.shards > 0 && rank.ranks % layer.shards == 0)
    return {};
  return invalid(where + "routing cannot be divided between the ranks: expected the reference's " + text(all.tokens) +
                 " tokens to be those of one rank times a divisor of the " + text(rank.ranks) +
                 " ranks, but each rank routes " + text(rank.tokens) + " tokens");
}

std::vector<int32_t> countChoices(const std::vector<int32_t> &choices, int64_t experts) {
  std::vector<int32_t> counts(static_cast<size_t>(experts));
  for (int32_t expert : choices)
    ++counts[static_cast<size_t>(expert)];
  return counts;
}

/// Checks one line.
struct LineChecker {
  const RoutingLine &line;
  const moert_routing &layer;
  const std::string &path;

  Status fail(const std::string &key, const std::string &message) const {
    return invalid(path + ":" + text(line.number) + ": '" + key + "': " + message);
  }
  Status checkRanks(const std::vector<std::vector<int32_t>> &rows, const std::string &key) const {
    if (static_cast<int64_t>(rows.size()) == layer.ranks)
      return {};
    return fail(key, "expected " + text(layer.ranks) + " ranks, as the plan has with this layer, but got " +
                         text(static_cast<int64_t>(rows.size())));
  }
  Status checkCounts(size_t rank) const;
  Status checkChoices(size_t rank) const;
};

Status LineChecker::checkCounts(size_t rank) const {
  const std::vector<int32_t> &counts = line.counts[rank];
  std::string key = "counts[" + std::to_string(rank) + "]";
  if (static_cast<int64_t>(counts.size()) != layer.experts)
    return fail(key, "expected " + text(layer.experts) + " counts, one for each expert, but got " +
                         text(static_cast<int64_t>(counts.size())));
  for (size_t expert = 0; expert < counts.size(); ++expert)
    if (counts[expert] > layer.tokens)
      return fail(key + "[" + std::to_string(expert) + "]",
                  "expected at most " + text(layer.tokens) + ", the tokens of a rank, but got " + text(counts[expert]));
  int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  if (sum == layer.tokens * layer.choices)
    return {};
  return fail(key, "expected " + text(layer.tokens * layer.choices) + " choices, " + text(layer.choices) +
                       " of each of " + text(layer.tokens) + " tokens, but the counts add up to " + text(sum));
}

Status LineChecker::checkChoices(size_t rank) const {
  const std::vector<int32_t> &choices = line.choices[rank];
  std::string key = "choices[" + std::to_string(rank) + "]";
  if (auto count = static_cast<int64_t>(choices.size()); count != layer.tokens * layer.choices)
    return fail(key, "expected " + text(layer.tokens * layer.choices) + " experts, " + text(layer.choices) +
                         " for each of " + text(layer.tokens) + " tokens, but got " + text(count));
  for (size_t i = 0; i < choices.size(); ++i) {
    std::string entry = key + "[" + std::to_string(i) + "]";
    if (choices[i] >= layer.experts)
      return fail(entry, "expected an expert from 0 to " + text(layer.experts - 1) + " but got " + text(choices[i]));
    auto k = static_cast<size_t>(layer.choices);
    auto token = choices.begin() + static_cast<std::ptrdiff_t>(i / k * k),
         here = choices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(token, here, choices[i]) != here)
      return fail(entry, "expected different experts of token " + std::to_string(i / k) + " but got " +
                             text(choices[i]) + " twice");
  }
  if (countChoices(choices, layer.experts) != line.counts[rank])
    return fail(key, "expected as many choices of each expert as 'counts[" + std::to_string(rank) + "]' has");
  return {};
}

/// Label of a layer, and the number of times its program routed for it before: with micro-batches several ops have one
/// label.
using LayerKey = std::pair<std::string, int64_t>;

const std::string &labelOf(std::span<const Program> programs, const moert_routing &routing) {
  const Program &program = programs[programIndex(programs, routing.first_rank)];
  return program.ops[static_cast<size_t>(routing.op) % program.ops.size()].label;
}

std::vector<LayerKey> layerKeys(std::span<const Program> programs, const std::vector<moert_routing> &routings) {
  std::map<std::string, int64_t> seen;
  std::vector<LayerKey> keys;
  for (const moert_routing &routing : routings) {
    const std::string &label = labelOf(programs, routing);
    keys.emplace_back(label, seen[label]++);
  }
  return keys;
}

/// Takes the ops that do not choose out of `routings`, and returns them by the key of the op whose choices they take.
/// These are ops that only count, and recomputed ones, which have labels of backwards. The k-th of a layer is of the
/// k-th micro-batch: all orders of pipelines begin the backwards of a layer in the order of its forwards.
std::map<LayerKey, std::vector<moert_routing>> takeFollowers(std::span<const Program> programs,
                                                             std::vector<moert_routing> &routings) {
  std::map<std::pair<std::string, int64_t>, int64_t> seen;
  std::map<LayerKey, std::vector<moert_routing>> followers;
  std::erase_if(routings, [&](const moert_routing &routing) {
    std::string label = labelOf(programs, routing);
    const int64_t before = seen[{label, routing.only_counts}]++;
    const bool isBackward = label.ends_with(kBackwardSuffix);
    if (isBackward)
      label.resize(label.size() - kBackwardSuffix.size());
    const bool follows = isBackward || routing.only_counts;
    if (follows)
      followers[{label, before}].push_back(routing);
    return follows;
  });
  return followers;
}

/// Puts `ranks` into the reference's order, if the labels identify it. The reference routes a micro-batch in all
/// layers, then the next one. The stages of a pipeline are listed one after another, each with all of its
/// micro-batches, and a program may begin the next micro-batch before it has finished one.
void orderAsReference(const Plan &plan, const std::vector<moert_routing> &references,
                      std::vector<moert_routing> &ranks) {
  std::vector<LayerKey> keys = layerKeys(plan.programs(false), ranks),
                        wanted = layerKeys(plan.programs(true), references);
  std::vector<moert_routing> ordered;
  for (const LayerKey &key : wanted)
    if (auto it = std::find(keys.begin(), keys.end(), key); it != keys.end())
      ordered.push_back(ranks[static_cast<size_t>(it - keys.begin())]);
  if (ordered.size() == ranks.size())
    ranks = std::move(ordered);
}

} // namespace

std::vector<moert_routing> RoutedLayer::opsOn(int64_t r, bool isReference) const {
  std::vector<moert_routing> ops = isReference ? referenceFollowers : followers;
  ops.push_back(isReference ? reference : rank);
  // A stage of a pipeline may begin behind the router, and another one has an op that only counts.
  if (!isReference)
    std::erase_if(ops, [&](const moert_routing &op) { return r < op.first_rank || r >= op.first_rank + op.ranks; });
  return ops;
}

Status findLayers(const Plan &plan, std::vector<RoutedLayer> &layers) {
  std::vector<moert_routing> ranks, references;
  MOERT_RETURN_IF_ERROR(listRoutings(plan, MOERT_PROGRAM_RANK, ranks));
  if (plan.metadata.reference)
    MOERT_RETURN_IF_ERROR(listRoutings(plan, MOERT_PROGRAM_REFERENCE, references));
  auto followers = takeFollowers(plan.programs(false), ranks);
  std::map<LayerKey, std::vector<moert_routing>> referenceFollowers;
  if (plan.metadata.reference)
    referenceFollowers = takeFollowers(plan.programs(true), references);
  if (plan.metadata.reference && ranks.size() != references.size())
    return invalid("the plan routes " + std::to_string(ranks.size()) + " times, but its reference " +
                   std::to_string(references.size()) + " times");
  if (plan.metadata.reference)
    orderAsReference(plan, references, ranks);
  layers.resize(ranks.size());
  const std::vector<LayerKey> keys = layerKeys(plan.programs(false), ranks);
  for (size_t i = 0; i < ranks.size(); ++i) {
    layers[i].rank = ranks[i];
    layers[i].label = keys[i].first;
    layers[i].followers = std::move(followers[keys[i]]);
    if (!plan.metadata.reference)
      continue;
    layers[i].reference = references[i];
    layers[i].referenceFollowers = std::move(referenceFollowers[keys[i]]);
    MOERT_RETURN_IF_ERROR(matchPrograms(layers[i], i));
  }
  return {};
}

Status readRoutingFile(const std::string &path, std::vector<RoutingLine> &lines) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return invalid("'" + path + "': cannot be opened");
  const std::string content(std::istreambuf_iterator<char>(file), {});
  RoutingReader reader(content);
  for (RoutingLine line; reader.next(line);)
    lines.push_back(std::move(line));
  return reader.error().empty() ? Status{} : invalid(path + ":" + text(reader.number()) + ": " + reader.error());
}

Status checkLine(const RoutingLine &line, const RoutedLayer &layer, const std::string &path) {
  const LineChecker checker{line, layer.rank, path};
  MOERT_RETURN_IF_ERROR(checker.checkRanks(line.counts, "counts"));
  for (size_t rank = 0; rank < line.counts.size(); ++rank)
    MOERT_RETURN_IF_ERROR(checker.checkCounts(rank));
  if (line.choices.empty())
    return {};
  MOERT_RETURN_IF_ERROR(checker.checkRanks(line.choices, "choices"));
  for (size_t rank = 0; rank < line.choices.size(); ++rank)
    MOERT_RETURN_IF_ERROR(checker.checkChoices(rank));
  return {};
}

std::vector<int32_t> choicesFromCounts(const std::vector<int32_t> &counts, int64_t tokens, int64_t choices) {
  std::vector<int32_t> experts(static_cast<size_t>(tokens * choices));
  int64_t i = 0;
  for (size_t expert = 0; expert < counts.size(); ++expert)
    for (int32_t n = 0; n < counts[expert]; ++n, ++i)
      experts[static_cast<size_t>(i % tokens * choices + i / tokens)] = static_cast<int32_t>(expert);
  return experts;
}

bool changesArguments(std::span<const Program> programs) {
  return std::ranges::any_of(argumentsOf(programs), &Value::updated);
}

Status Routing::open(const Options &options, const Plan &plan, Routing &routing) {
  // A GPU that launches steps as graphs cannot be observed. In exact arithmetic, other choices show as other results.
  const bool isExact = options.wide == MOERT_WIDE_FIELD;
  if (options.verifies() && !isExact && options.routing.empty() && (options.backend != "cuda" || options.noGraph)) {
    routing.keeps = plan.metadata.reference && findLayers(plan, routing.layers).ok() && !routing.layers.empty();
    routing.keepsAll = changesArguments(plan.programs(false));
  }
  if (options.routing.empty() && options.recordRouting.empty())
    return {};
  routing.recordsReference = options.reference;
  MOERT_RETURN_IF_ERROR(findLayers(plan, routing.layers));
  if (routing.layers.empty())
    return invalid("the plan has no MoE layer, so that there is no routing to force or to record");
  if (!plan.metadata.reference && !options.routing.empty())
    return invalid("--routing needs a plan with a reference program, which tells which ranks route the same tokens");
  if (!options.routing.empty())
    MOERT_RETURN_IF_ERROR(routing.read(options.routing));
  if (options.recordRouting.empty())
    return {};
  routing.recordFile = std::make_unique<OutputFile>();
  return routing.recordFile->open(options.recordRouting);
}

/// Experts of a shard's tokens: the first or the last ones, but their neighbours for some tokens.
static std::vector<int32_t> concentratedChoices(const moert_routing &op, int64_t others, bool onLast) {
  const int64_t shift = std::min(op.choices, op.experts - op.choices);
  std::vector<int32_t> experts;
  for (int64_t token = 0; token < op.tokens; ++token)
    for (int64_t choice = 0; choice < op.choices; ++choice) {
      const int64_t expert = choice + (token < others ? shift : 0);
      experts.push_back(static_cast<int32_t>(onLast ? op.experts - 1 - expert : expert));
    }
  return experts;
}

/// Whether further passes serve the rows of a layer that do not fit. Each pass has a window of the rows.
static bool hasPasses(const Plan &plan) {
  auto isWindow = [](const Op &op) { return op.name == "window"; };
  return std::ranges::any_of(plan.programs(false),
                             [&](const Program &program) { return std::ranges::any_of(program.ops, isWindow); });
}

Routing Routing::concentrated(const Plan &plan, bool onLast) {
  Routing routing;
  if (!hasPasses(plan) || !plan.metadata.reference || !findLayers(plan, routing.layers).ok() || routing.layers.empty())
    return {};
  std::vector<RoutingLine> &lines = routing.iterations.emplace_back(routing.layers.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const RoutedLayer &layer = routing.layers[i];
    for (int64_t r = layer.rank.first_rank; layer.isOn(r); ++r) {
      const int64_t others = std::min(layer.shardOf(layer.rank, r), layer.rank.tokens / 4);
      lines[i].choices.push_back(concentratedChoices(layer.rank, others, onLast != (i % 2 == 1)));
    }
  }
  routing.isConcentrated = true;
  return routing;
}

/// Reads a file. Each iteration must have each layer once.
Status Routing::read(const std::string &path) {
  std::vector<RoutingLine> lines;
  MOERT_RETURN_IF_ERROR(readRoutingFile(path, lines));
  std::map<int64_t, std::map<int64_t, RoutingLine>> sorted;
  for (RoutingLine &line : lines) {
    std::string where = path + ":" + text(line.number) + ": ", layer = text(line.layer);
    if (line.layer >= static_cast<int64_t>(layers.size()))
      return invalid(where + "'layer': expected one from 0 to " + std::to_string(layers.size() - 1) +
                     ", the plan's MoE layers, but got " + layer);
    MOERT_RETURN_IF_ERROR(checkLine(line, layers[static_cast<size_t>(line.layer)], path));
    int64_t iteration = line.iteration, number = line.layer;
    if (!sorted[iteration].try_emplace(number, std::move(line)).second)
      return invalid(where + "iteration " + text(iteration) + ", layer " + layer + ": expected only once");
  }
  for (auto &[iteration, byLayer] : sorted) {
    if (byLayer.size() != layers.size())
      return invalid(path + ":" + text(byLayer.begin()->second.number) + ": expected lines of iteration " +
                     text(iteration) + " for all of the plan's " + std::to_string(layers.size()) +
                     " MoE layers but got " + std::to_string(byLayer.size()));
    iterations.emplace_back();
    for (auto &[layer, line] : byLayer)
      iterations.back().push_back(std::move(line));
  }
  return {};
}

Status Routing::beginStep(moert_world_t on, std::span<const int64_t> ranks, bool reference, int64_t step) const {
  if (keeps || (recordFile && reference == recordsReference))
    MOERT_RETURN_IF_ERROR(checked(moert_world_record_routing(on, keepsOwn ? 2 : 1)));
  if (iterations.empty())
    return {};
  const std::vector<RoutingLine> &lines = iterations[static_cast<size_t>(step) % iterations.size()];
  for (size_t layer = 0; layer < layers.size(); ++layer)
    for (int64_t rank : ranks)
      for (const moert_routing &op : layers[layer].opsOn(rank, reference))
        MOERT_RETURN_IF_ERROR(force(on, rank, op, layers[layer], lines[layer]));
  return {};
}

/// Forces the choices of an op's shards: in the reference all, in a rank at least its own.
Status Routing::force(moert_world_t on, int64_t rank, const moert_routing &op, const RoutedLayer &layer,
                      const RoutingLine &line) const {
  const int64_t count = layer.rank.tokens > 0 ? op.tokens / layer.rank.tokens : 1;
  const int64_t first = count == layer.shards ? 0 : layer.shardOf(op, rank) / count * count;
  std::vector<int32_t> experts;
  for (int64_t shard = first; shard < first + count; ++shard) {
    const size_t from = layer.firstOf(shard);
    const std::vector<int32_t> part = line.choices.empty()
                                          ? choicesFromCounts(line.counts[from], layer.rank.tokens, layer.rank.choices)
                                          : line.choices[from];
    experts.insert(experts.end(), part.begin(), part.end());
  }
  return checked(moert_world_force_routing(on, rank, op.op, experts.data(), static_cast<int64_t>(experts.size())));
}

Status Routing::endStep(moert_world_t on, bool reference, int64_t step) {
  const bool writes = recordFile && reference == recordsReference;
  if (!keeps && !writes)
    return {};
  std::vector<RoutingLine> lines;
  MOERT_RETURN_IF_ERROR(readStep(on, reference, step, lines));
  for (const RoutingLine &line : lines)
    if (writes)
      *recordFile << routingText(line);
  if (!keepsAll)
    kept.clear();
  if (keeps)
    kept.push_back(std::move(lines));
  return {};
}

/// Reads the choices of all ranks that have each layer. Those of the reference are divided into the parts of these
/// ranks.
Status Routing::readStep(moert_world_t on, bool reference, int64_t step, std::vector<RoutingLine> &lines) const {
  for (const RoutedLayer &layer : layers) {
    RoutingLine line{.iteration = step, .layer = static_cast<int64_t>(lines.size()), .counts = {}, .choices = {}};
    const moert_routing &routing = reference ? layer.reference : layer.rank;
    std::vector<int32_t> experts(static_cast<size_t>(routing.tokens * routing.choices));
    auto part = static_cast<std::ptrdiff_t>(layer.rank.tokens * layer.rank.choices);
    for (int64_t rank = layer.rank.first_rank; layer.isOn(rank); ++rank) {
      int64_t count = 0, shard = reference ? layer.shardOf(layer.rank, rank) : 0;
      MOERT_RETURN_IF_ERROR(checked(moert_world_routing(on, reference ? 0 : rank, routing.op, experts.data(),
                                                        static_cast<int64_t>(experts.size()), &count)));
      auto first = experts.begin() + shard * part;
      const std::vector<int32_t> &choices = line.choices.emplace_back(first, first + part);
      line.counts.push_back(countChoices(choices, layer.rank.experts));
    }
    lines.push_back(std::move(line));
  }
  return {};
}

Routing Routing::followed() const {
  Routing other;
  other.layers = layers;
  other.isConcentrated = isConcentrated;
  other.iterations = iterations.empty() ? kept : iterations;
  other.keeps = other.keepsOwn = keeps;
  other.keepsAll = keepsAll;
  return other;
}

Routing Routing::repeated() const {
  Routing other = followed();
  other.iterations = iterations;
  return other;
}

/// Number of tokens that go to other experts in a kept layer than in a kept layer of `other`.
int64_t Routing::countDifferences(size_t layer, const Routing &other, size_t otherLayer) const {
  int64_t count = 0;
  for (size_t step = 0; step < std::min(kept.size(), other.kept.size()); ++step)
    for (size_t rank = 0; rank < kept[step][layer].choices.size(); ++rank) {
      const std::vector<int32_t> &mine = kept[step][layer].choices[rank];
      const std::vector<int32_t> &theirs = other.kept[step][otherLayer].choices[rank];
      const auto k = static_cast<std::ptrdiff_t>(layers[layer].rank.choices);
      for (auto a = mine.begin(), b = theirs.begin(); a != mine.end(); a += k, b += k)
        count += !std::is_permutation(a, a + k, b);
    }
  return count;
}

void Routing::orderLike(const Routing &reference) {
  for (size_t to = 0; to < layers.size(); ++to) {
    size_t best = to;
    int64_t least = countDifferences(to, reference, to);
    for (size_t from = to + 1; from < layers.size() && least > 0; ++from) {
      if (layers[from].label != layers[to].label)
        continue;
      if (int64_t count = countDifferences(from, reference, to); count < least) {
        best = from;
        least = count;
      }
    }
    std::swap(layers[to].rank, layers[best].rank);
    std::swap(layers[to].followers, layers[best].followers);
    for (std::vector<RoutingLine> &step : kept)
      std::swap(step[to].choices, step[best].choices), std::swap(step[to].counts, step[best].counts);
  }
}

template <class Visit> void Routing::forEachKept(Visit visit) const {
  for (size_t step = 0; step < kept.size(); ++step)
    for (size_t layer = 0; layer < kept[step].size(); ++layer)
      for (int64_t shard = 0; shard < layers[layer].shards; ++shard)
        for (int64_t token = 0; token < layers[layer].rank.tokens; ++token)
          visit(RoutedToken{static_cast<int64_t>(step), static_cast<int64_t>(layer), shard, token});
}

int64_t Routing::keptTokens() const {
  int64_t count = 0;
  forEachKept([&](const RoutedToken &) { ++count; });
  return count;
}

std::span<const int32_t> Routing::expertsOf(const RoutedToken &token) const {
  const auto [step, layer, shard, index] = token;
  const RoutedLayer &it = layers[static_cast<size_t>(layer)];
  const RoutingLine &line = kept[static_cast<size_t>(step)][static_cast<size_t>(layer)];
  const std::vector<int32_t> &choices = line.choices[it.firstOf(shard)];
  const auto k = static_cast<size_t>(it.rank.choices);
  return std::span(choices).subspan(static_cast<size_t>(index) * k, k);
}

std::set<RoutedToken> Routing::differences(const Routing &other) const {
  std::set<RoutedToken> found;
  if (kept.size() == other.kept.size())
    forEachKept([&](const RoutedToken &token) {
      std::span<const int32_t> mine = expertsOf(token), theirs = other.expertsOf(token);
      if (!std::is_permutation(mine.begin(), mine.end(), theirs.begin()))
        found.insert(token);
    });
  return found;
}

std::string Routing::keptExperts(const RoutedToken &token) const {
  std::string all;
  for (int32_t expert : expertsOf(token))
    all += (all.empty() ? "" : ", ") + text(expert);
  return all;
}

Status Routing::close() { return recordFile ? recordFile->close() : Status{}; }

} // namespace moert::run
