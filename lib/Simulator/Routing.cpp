//===- Routing.cpp - choices of experts by rank ---------------------------===//
#include "moe/Simulator/Routing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Support/InputFile.h"
#include "moert/routing_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

/// Error in a line, or an empty string.
static std::string getLineError(const moert::RoutingLine &line) {
  size_t experts = line.counts.front().size();
  for (auto [rank, row] : llvm::enumerate(line.counts))
    if (row.size() != experts)
      return ("'counts[" + Twine(rank) + "]': expected " + Twine(experts) + " counts, as for rank 0, but got " +
              Twine(row.size()))
          .str();
  if (!line.choices.empty() && line.choices.size() != line.counts.size())
    return ("'choices': expected lists of " + Twine(line.counts.size()) + " ranks, as 'counts' has, but got " +
            Twine(line.choices.size()))
        .str();
  for (auto [rank, row] : llvm::enumerate(line.choices)) {
    auto fail = [rank = rank](const Twine &text) { return ("'choices[" + Twine(rank) + "]': " + text).str(); };
    if (row.size() != line.choices.front().size())
      return fail("expected " + Twine(line.choices.front().size()) + " choices, as of rank 0, but got " +
                  Twine(row.size()));
    std::vector<int32_t> counts(experts);
    for (int32_t expert : row) {
      if (expert >= static_cast<int32_t>(experts) || expert >= RoutingTrace::kNoChoice)
        return fail("expected experts up to " + Twine(std::min<size_t>(experts, RoutingTrace::kNoChoice) - 1) +
                    " but got " + Twine(expert));
      ++counts[expert];
    }
    if (counts != line.counts[rank])
      return fail("expected as many choices of each expert as 'counts[" + Twine(rank) + "]' has");
  }
  return "";
}

template <typename Number> static std::vector<Number> joinRows(const std::vector<std::vector<int32_t>> &rows) {
  std::vector<Number> all;
  for (const std::vector<int32_t> &row : rows)
    llvm::append_range(all, row);
  return all;
}

Expected<RoutingTrace> RoutingTrace::parse(StringRef text, StringRef fileName) {
  RoutingTrace trace;
  moert::RoutingReader reader(text);
  auto fail = [&](const Twine &message) {
    return llvm::createStringError(fileName + ":" + Twine(reader.number()) + ": error: " + message);
  };
  for (moert::RoutingLine line; reader.next(line);) {
    if (std::string error = getLineError(line); !error.empty())
      return fail(error);
    int64_t ranks = line.counts.size(), experts = line.counts.front().size();
    if (trace.ranks && (ranks != trace.ranks || experts != trace.experts))
      return fail("'counts': expected " + Twine(trace.ranks) + " ranks and " + Twine(trace.experts) +
                  " experts, as before, but got " + Twine(ranks) + " and " + Twine(experts));
    if (trace.getCounts(line.iteration, line.layer))
      return fail("iteration " + Twine(line.iteration) + ", layer " + Twine(line.layer) + ": expected only once");
    trace.setCounts(line.iteration, line.layer, ranks, experts, joinRows<int32_t>(line.counts));
    if (!line.choices.empty())
      trace.setChoices(line.iteration, line.layer, joinRows<Choice>(line.choices));
  }
  return reader.error().empty() ? Expected<RoutingTrace>(std::move(trace)) : fail(reader.error());
}

Expected<RoutingTrace> RoutingTrace::load(StringRef path) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readInputFile(path);
  if (!buffer)
    return buffer.takeError();
  return parse((*buffer)->getBuffer(), path);
}

void RoutingTrace::write(llvm::raw_ostream &os) const {
  for (const auto &[key, values] : counts) {
    moert::RoutingLine line;
    std::tie(line.iteration, line.layer) = key;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      llvm::ArrayRef<int32_t> row = llvm::ArrayRef(values).slice(rank * experts, experts);
      line.counts.emplace_back(row.begin(), row.end());
      if (llvm::ArrayRef<Choice> chosen = getChoices(line.iteration, line.layer, rank); !chosen.empty())
        line.choices.emplace_back(chosen.begin(), chosen.end());
    }
    os << moert::routingText(line);
  }
}

std::vector<int64_t> RoutingTrace::getIterations() const {
  std::vector<int64_t> iterations;
  for (const auto &entry : counts)
    if (iterations.empty() || iterations.back() != entry.first.first)
      iterations.push_back(entry.first.first);
  return iterations;
}

int64_t RoutingTrace::getNumLayers() const {
  int64_t layers = 0;
  for (const auto &entry : counts)
    layers = std::max(layers, entry.first.second + 1);
  return layers;
}

const std::vector<int32_t> *RoutingTrace::getCounts(int64_t iteration, int64_t layer) const {
  auto it = counts.find({iteration, layer});
  return it == counts.end() ? nullptr : &it->second;
}

void RoutingTrace::setCounts(int64_t iteration, int64_t layer, int64_t newRanks, int64_t newExperts,
                             std::vector<int32_t> values) {
  assert((ranks == 0 || (ranks == newRanks && experts == newExperts)) && "one shape for all");
  assert(static_cast<int64_t>(values.size()) == newRanks * newExperts && "a count for each rank and expert");
  ranks = newRanks;
  experts = newExperts;
  counts[{iteration, layer}] = std::move(values);
}

llvm::ArrayRef<RoutingTrace::Choice> RoutingTrace::getChoices(int64_t iteration, int64_t layer, int64_t rank) const {
  auto it = choices.find({iteration, layer});
  if (it == choices.end())
    return {};
  size_t perRank = it->second.size() / ranks;
  return llvm::ArrayRef(it->second).slice(rank * perRank, perRank);
}

void RoutingTrace::setChoices(int64_t iteration, int64_t layer, std::vector<Choice> values) {
  assert(getCounts(iteration, layer) && "counts first");
  assert(values.size() % ranks == 0 && "as many of each rank");
  choices[{iteration, layer}] = std::move(values);
}

std::vector<int32_t> mlir::moe::makeEvenCounts(int64_t ranks, int64_t experts, int64_t assignments) {
  std::vector<int32_t> counts(ranks * experts, assignments / experts);
  int64_t remainder = assignments % experts;
  // The remainders of all ranks, in order, go round the experts.
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t i = 0; i < remainder; ++i)
      ++counts[rank * experts + (rank * remainder + i) % experts];
  return counts;
}

//===----------------------------------------------------------------------===//
// Synthetic routing
//===----------------------------------------------------------------------===//

namespace {

/// Draws the same numbers with every standard library. std::mt19937_64 does, the distributions of <random> do not.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// In [0, 1).
  double getUniform() { return static_cast<double>(engine() >> 11) * 0x1p-53; }
  /// Uses Marsaglia's polar method.
  double getNormal();
  /// Number of successes in `trials` trials.
  int64_t getBinomial(int64_t trials, double probability);

private:
  std::mt19937_64 engine;
};

/// Log probabilities of the experts of one layer in each iteration.
class Popularity {
public:
  Popularity(uint64_t seed, int64_t experts, int64_t iteration, const RoutingPreset &preset, double skew);
  void advance();
  /// Probabilities of the experts, at most `most` each.
  std::vector<double> getProbabilities(double most) const;

private:
  // These constants give the statistics in docs/Routing.md, which compares them with measurements.
  static constexpr double startFraction = 0.1;     // share of the spread at iteration 0
  static constexpr double rampIterations = 3;      // time constant of the rise from there
  static constexpr double earlyFraction = 0.78;    // share of the final spread after the rise
  static constexpr double growthIterations = 3000; // half-time of the rest
  static constexpr double fastIterations = 4;
  // The slow part changes more and more slowly. Its time constant is slowIterations + iteration^2 / slowdown.
  static constexpr double slowIterations = 400, slowdown = 20;

  double getSpread() const;

  Random random;
  int64_t iteration;
  RoutingPreset preset;
  double skew;
  std::vector<double> slow, fast; ///< with unit variance
};

} // namespace

double Random::getNormal() {
  for (;;) {
    double x = 2 * getUniform() - 1, y = 2 * getUniform() - 1, square = x * x + y * y;
    if (square > 0 && square < 1)
      return x * std::sqrt(-2 * std::log(square) / square);
  }
}

int64_t Random::getBinomial(int64_t trials, double probability) {
  if (probability > 0.5)
    return trials - getBinomial(trials, 1 - probability);
  if (trials == 0 || probability <= 0)
    return 0;
  double mean = trials * probability, variance = mean * (1 - probability);
  // A normal distribution is good enough from here on, and takes the same time for any number of trials.
  constexpr double largeVariance = 25;
  if (variance > largeVariance)
    return std::clamp<int64_t>(std::llround(mean + std::sqrt(variance) * getNormal()), 0, trials);
  // Inversion method: subtracts the probabilities of 0, 1, .. successes in turn.
  double left = getUniform(), odds = probability / (1 - probability);
  double ofThis = std::exp(trials * std::log1p(-probability));
  int64_t successes = 0;
  for (; left > ofThis && successes < trials; ++successes) {
    left -= ofThis;
    ofThis *= odds * static_cast<double>(trials - successes) / static_cast<double>(successes + 1);
  }
  return successes;
}

double RoutingPreset::getSkew(int64_t experts, int64_t topK) const {
  // A group chooses an expert with probability k / E. The skew is the deviation of a binomial distribution over its
  // mean.
  return skew ? *skew : std::sqrt((static_cast<double>(experts) / static_cast<double>(topK) - 1) / groups);
}

Popularity::Popularity(uint64_t seed, int64_t experts, int64_t iteration, const RoutingPreset &preset, double skew)
    : random(seed), iteration(iteration), preset(preset), skew(skew), slow(experts), fast(experts) {
  for (int64_t expert = 0; expert < experts; ++expert) {
    slow[expert] = random.getNormal();
    fast[expert] = random.getNormal();
  }
}

void Popularity::advance() {
  auto step = [&](std::vector<double> &values, double iterations) {
    double kept = std::exp(-1 / iterations), renewed = std::sqrt(1 - kept * kept);
    for (double &value : values)
      value = kept * value + renewed * random.getNormal();
  };
  double time = iteration;
  step(slow, slowIterations + time * time / slowdown);
  step(fast, fastIterations);
  ++iteration;
}

double Popularity::getSpread() const {
  if (!preset.grows)
    return skew;
  double time = iteration;
  double ramp = 1 - (1 - startFraction) * std::exp(-time / rampIterations);
  double growth = earlyFraction + (1 - earlyFraction) * time / (time + growthIterations);
  return skew * ramp * growth;
}

std::vector<double> Popularity::getProbabilities(double most) const {
  double spread = getSpread(), fastFraction = preset.fastFraction;
  double slowFraction = std::sqrt(1 - fastFraction * fastFraction);
  std::vector<double> result;
  for (auto [slowPart, fastPart] : llvm::zip_equal(slow, fast))
    result.push_back(std::exp(spread * (slowFraction * slowPart + fastFraction * fastPart)));
  // The excess over `most` goes to the other experts in proportion. The next round handles those that get above `most`
  // by this.
  double capped = 0;
  std::vector<bool> isCapped(result.size());
  for (bool changed = true; changed;) {
    changed = false;
    double sum = 0;
    for (auto [expert, value] : llvm::enumerate(result))
      sum += isCapped[expert] ? 0 : value;
    double scale = sum > 0 ? (1 - capped) / sum : 0;
    for (auto [expert, value] : llvm::enumerate(result)) {
      if (isCapped[expert])
        continue;
      value *= scale;
      if (value > most) {
        value = most;
        isCapped[expert] = changed = true;
      }
    }
    capped = most * static_cast<double>(llvm::count(isCapped, true));
  }
  return result;
}

/// Lets each of `tokens` tokens choose `topK` different experts by `probabilities`. So no expert gets more than
/// `tokens`.
static void drawCounts(Random &random, llvm::ArrayRef<double> probabilities, int64_t tokens, int64_t topK,
                       llvm::MutableArrayRef<int32_t> counts) {
  int64_t left = tokens * topK;
  double leftProbability = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (auto [expert, probability] : llvm::enumerate(probabilities)) {
    double share = leftProbability > 0 ? std::clamp(probability / leftProbability, 0.0, 1.0) : 1;
    int64_t after = probabilities.size() - expert - 1;
    int64_t least = std::max<int64_t>(left - after * tokens, 0), most = std::min(left, tokens);
    counts[expert] = std::clamp(random.getBinomial(left, share), least, most);
    left -= counts[expert];
    leftProbability -= probability;
  }
}

RoutingTrace SyntheticRouting::generate(int64_t ranks, int64_t layers, int64_t experts, int64_t tokens,
                                        int64_t topK) const {
  assert(topK <= experts && "different experts");
  double skew = preset.getSkew(experts, topK);
  RoutingTrace trace;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(layer)};
    std::array<uint32_t, 4> seeds;
    mixed.generate(seeds.begin(), seeds.end());
    auto join = [&](unsigned index) { return static_cast<uint64_t>(seeds[index]) << 32 | seeds[index + 1]; };
    Popularity popularity(join(0), experts, first, preset, skew);
    Random draws(join(2));
    for (int64_t iteration = first; iteration < first + iterations; ++iteration, popularity.advance()) {
      std::vector<int32_t> counts = makeEvenCounts(ranks, experts, tokens * topK);
      if (skew > 0) {
        std::vector<double> probabilities = popularity.getProbabilities(1.0 / static_cast<double>(topK));
        for (int64_t rank = 0; rank < ranks; ++rank)
          drawCounts(draws, probabilities, tokens, topK, llvm::MutableArrayRef(counts).slice(rank * experts, experts));
      }
      trace.setCounts(iteration, layer, ranks, experts, std::move(counts));
    }
  }
  return trace;
}

static const RoutingPreset *findPreset(StringRef name) {
  for (const RoutingPreset *preset : {&kUnbalancedRouting, &kAuxLossRouting, &kGlobalLossRouting, &kAuxFreeRouting})
    if (preset->name == name)
      return preset;
  return nullptr;
}

Expected<SyntheticRouting> SyntheticRouting::parse(StringRef text) {
  SyntheticRouting result;
  const RoutingPreset *preset = nullptr;
  std::optional<double> skew;
  std::optional<int64_t> first;
  llvm::SmallVector<StringRef> entries;
  text.split(entries, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef entry : entries) {
    auto [key, value] = entry.split('=');
    constexpr int64_t limit = 1 << 30;
    auto readInteger = [&, value = value](int64_t &number, int64_t min) {
      return llvm::to_integer(value, number, 10) && number >= min && number <= limit;
    };
    StringRef expected;
    if (key == "preset")
      expected = (preset = findPreset(value)) ? "" : "'unbalanced', 'aux-loss', 'global-loss' or 'aux-free'";
    else if (key == "seed")
      expected = llvm::to_integer(value, result.seed, 10) ? "" : "a whole number of at least 0";
    else if (key == "iterations")
      expected = readInteger(result.iterations, 1) ? "" : "a whole number of at least 1";
    else if (key == "first")
      expected = readInteger(first.emplace(), 0) ? "" : "a whole number of at least 0";
    else if (key == "skew")
      expected = llvm::to_float(value, skew.emplace()) && *skew >= 0 && *skew <= 100 ? "" : "a number from 0 to 100";
    else
      return llvm::createStringError(
          "synthetic routing: expected 'preset', 'seed', 'iterations', 'first' or 'skew' but got '" + key + "'");
    if (!expected.empty())
      return llvm::createStringError("synthetic routing: '" + key + "': expected " + expected + " but got '" + value +
                                     "'");
  }
  // Papers, and tests of routing that nothing balances, give explicit skews.
  result.preset = preset ? *preset : skew ? kUnbalancedRouting : kAuxLossRouting;
  if (skew)
    result.preset.skew = skew;
  result.first = first.value_or(result.preset.first);
  return result;
}

//===----------------------------------------------------------------------===//
// Loads of ranks
//===----------------------------------------------------------------------===//

/// Number of layers, enough for differences below one percent.
static constexpr int64_t kLayers = 1000;
/// Number of tokens. With so many, drawing them adds almost nothing to the spread of the experts.
static constexpr int64_t kTokens = int64_t(1) << 16;

RankLoads::RankLoads(const RoutingPreset &preset, int64_t experts, int64_t topK) {
  SyntheticRouting routing;
  routing.preset = preset;
  trace = routing.generate(/*ranks=*/1, kLayers, experts, kTokens, topK);
}

std::vector<double> RankLoads::getLoads(int64_t ranks) const {
  // Layers may have different numbers of experts. These ranks cannot hold equal parts of these experts.
  if (trace.getNumExperts() % ranks != 0)
    return {};
  int64_t own = trace.getNumExperts() / ranks;
  std::vector<double> loads;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<int32_t> &counts = *trace.getCounts(/*iteration=*/0, layer);
    int64_t most = 0;
    for (auto rank = counts.begin(); rank != counts.end(); rank += own)
      most = std::max(most, std::accumulate(rank, rank + own, int64_t(0)));
    auto mean =
        static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t(0))) / static_cast<double>(ranks);
    loads.push_back(static_cast<double>(most) / mean);
  }
  return loads;
}

double RankLoads::getShareAbove(double load, int64_t ranks) const {
  std::vector<double> loads = getLoads(ranks);
  return static_cast<double>(llvm::count_if(loads, [&](double one) { return one > load; })) / kLayers;
}

double RankLoads::getMeanLoad(int64_t ranks) const {
  std::vector<double> loads = getLoads(ranks);
  return std::accumulate(loads.begin(), loads.end(), 0.0) / kLayers;
}
