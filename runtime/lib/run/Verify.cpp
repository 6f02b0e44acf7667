//===- Verify.cpp - comparing a plan's results with its reference's -------===//

#include "run/Verify.h"
#include "run/Inputs.h"
#include "run/Jumps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <map>

namespace moert::run {

/// Difference that passes as rounding without measurement, in units of roundoff of the whole result.
constexpr double kLeastUnits = 4;
/// Ratio of the allowed difference to the measured rounding, because a plan rounds in other places.
constexpr double kNoiseFactor = 4;
/// Largest number of runs to measure rounding: of the reference, and of the plan. Runs end once rounding explains all
/// differences.
constexpr uint64_t kMostSamples = 8;
/// Number of these runs of each before jumps of derivatives are tried, which only few differences come from.
constexpr uint64_t kSamplesBeforeJumps = 2;
/// Definition of near ties: the choice changes in one of kMostTieSamples runs with values moved by kTieUlps units in
/// the last place.
constexpr int64_t kTieUlps = 8;
constexpr uint64_t kMostTieSamples = 12;
/// Largest number of arguments near jumps among which those are searched that the plan has on the other side.
constexpr size_t kMostNearJumps = 1 << 14;

static std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double Verification::maxError() const {
  double largest = 0;
  for (const Comparison &value : values)
    if (!(value.ok() && value.isRounding()) && !(value.relativeError <= largest))
      largest = std::isnan(largest) ? largest : value.relativeError;
  return largest;
}

/// Norm of `b`, or of `a` if that of `b` is 0.
static double normOf(const Tensor &b, const Tensor &a) {
  const double norm = std::sqrt(squaredNorm(b));
  return norm == 0 ? std::sqrt(squaredNorm(a)) : norm;
}

/// Divisor of relative errors; 1 if the norm is 0.
static double scaleOf(double norm) { return norm == 0 ? 1 : norm; }

static double distance(const Tensor &a, const Tensor &b) {
  return std::sqrt(squaredDistance(a.as<char>(), b.as<char>(), a.dtype, a.elements()));
}

Distances distancesOf(const RunResult &a, const RunResult &b) {
  Distances distances;
  for (const auto &[name, tensor] : a.results)
    distances[name] = distance(tensor, b.results.at(name));
  return distances;
}

/// Returns the first difference between the descriptions of a value in the plan and in its reference; empty if they
/// agree.
static std::string differenceOf(const Value &plan, const Value &reference) {
  auto typeOf = [](const Value &value) { return shapeText(value.shape) + " " + dtypeName(value.dtype); };
  if (typeOf(plan) != typeOf(reference))
    return "is " + typeOf(plan) + " in the plan, but " + typeOf(reference) + " in the reference";
  if (plan.updated != reference.updated)
    return std::string("is updated by a step of ") +
           (plan.updated ? "the plan, but not of the reference" : "the reference, but not of the plan");
  const std::pair<const char *, bool> others[] = {{"role", plan.role == reference.role},
                                                  {"first value", plan.fill == reference.fill},
                                                  {"bound of ids", plan.below == reference.below},
                                                  {"length of a sequence", plan.sequence == reference.sequence},
                                                  {"source in a checkpoint", plan.source == reference.source}};
  for (const auto &[what, isSame] : others)
    if (!isSame)
      return std::string("has another ") + what + " in the plan than in the reference";
  return "";
}

static Status checkSame(const std::vector<Value> &plan, const std::vector<Value> &reference, const char *what,
                        bool both) {
  auto find = [](const std::vector<Value> &values, const std::string &name) {
    return std::find_if(values.begin(), values.end(), [&](const Value &value) { return value.name == name; });
  };
  for (const Value &value : reference) {
    auto other = find(plan, value.name);
    if (other == plan.end())
      return invalid(std::string("the reference has a ") + what + " '" + value.name + "' that the plan does not have");
    if (std::string text = differenceOf(*other, value); !text.empty())
      return invalid(std::string("the ") + what + " '" + value.name + "' " + text);
  }
  for (const Value &value : plan)
    if (both && find(reference, value.name) == reference.end())
      return invalid(std::string("the plan has a ") + what + " '" + value.name + "' that the reference does not have");
  return {};
}

Status checkComparable(const Metadata &metadata) {
  if (!metadata.reference)
    return invalid("the plan has no reference program");
  const std::vector<Value> arguments = argumentsOf(metadata.programs), results = resultsOf(metadata.programs);
  MOERT_RETURN_IF_ERROR(checkSame(arguments, metadata.reference->arguments, "argument", false));
  return checkSame(results, metadata.reference->results, "result", true);
}

void checkInputs(const Tensors &inputs, Verification &verification) {
  for (const auto &[name, tensor] : inputs)
    if (std::string where = firstNotFinite(tensor); !where.empty())
      verification.failures.push_back("argument '" + name + "' holds " + where);
}

/// Unit of roundoff of values of type `own` in a plan that computes in `dtype`; integers are exact.
static double roundoffOf(int32_t own, int32_t dtype, bool tf32) {
  // tf32 and f16 have 10 bits of mantissa.
  auto unit = [&](int32_t type) { return unitRoundoff(tf32 && type == MOERT_F32 ? MOERT_F16 : type); };
  return isFloating(own) && own != kFieldType ? std::max(unit(own), unit(dtype)) : 0;
}

static int32_t dtypeOf(const Metadata &metadata) {
  int32_t dtype = dtypeFromName(metadata.dtype);
  return dtype < 0 ? MOERT_F32 : dtype;
}

double Comparisons::Item::bound() const { return rounding + kNoiseFactor * noise; }

Comparisons::Comparisons(const RunResult &plan, const RunResult &reference, int32_t dtype, bool tf32)
    : plan(plan), reference(reference) {
  for (const auto &[name, tensor] : plan.results) {
    const Tensor &expected = reference.results.at(name);
    finite = finite && firstNotFinite(tensor).empty() && firstNotFinite(expected).empty();
    const double norm = normOf(expected, tensor), unit = roundoffOf(tensor.dtype, dtype, tf32);
    items[name] = {distance(tensor, expected), plan.replicaGap.at(name), scaleOf(norm), kLeastUnits * unit * norm};
  }
}

void Comparisons::addNoise(const Distances &distances) {
  for (const auto &[name, noise] : distances)
    if (auto it = items.find(name); it != items.end() && std::isfinite(noise))
      it->second.noise = std::max(it->second.noise, noise);
}

bool Comparisons::isExplained() const {
  return std::all_of(items.begin(), items.end(), [](const auto &entry) {
    const Item &item = entry.second;
    return item.error <= item.bound() && item.replicas <= item.bound();
  });
}

Distances Comparisons::unexplained() const {
  Distances bounds;
  for (const auto &[name, item] : items)
    if (!(item.error <= item.bound()))
      bounds[name] = item.bound();
  return bounds;
}

void Comparisons::report(Verification &verification) const {
  auto fail = [&](const std::string &name, const std::string &what) {
    verification.failures.push_back("result '" + name + "'" + what);
  };
  for (const auto &[name, item] : items) {
    // A NaN in one value must not be hidden by the other.
    const double most = std::isnan(item.replicas) ? item.replicas : std::max(item.error, item.replicas);
    const double error = std::isnan(item.error) ? item.error : most;
    const Comparison &value =
        verification.values.emplace_back(Comparison{name, error / item.scale, item.bound() / item.scale});
    std::string mine = firstNotFinite(plan.results.at(name)), theirs = firstNotFinite(reference.results.at(name));
    if (!mine.empty())
      fail(name, " of the plan holds " + mine);
    if (!theirs.empty())
      fail(name, " of the reference holds " + theirs);
    if (!mine.empty() || !theirs.empty() || value.ok())
      continue;
    const bool differs = !(item.error <= item.bound());
    if (plan.results.at(name).dtype == kFieldType)
      continue;
    fail(name, (differs ? " differs from the reference by " : ": ranks that should hold equal parts differ by ") +
                   scientific(value.relativeError) + " (rounding explains " + scientific(value.bound) + ")");
  }
}

namespace {

/// Compares a plan's results with its reference's, and runs both again to measure rounding.
struct Verifier {
  const Plan &plan;
  const Options &options;
  const Tensors &inputs;
  Routing &routing;
  const RunResult &result;
  Verification &verification;
  RunResult reference = {};
  Routing referenceChoices = {};
  std::map<NearJump, bool> nearJumps = {}; ///< the reference's, and whether each argument is above its jump
  std::set<NearJump> crossed = {};         ///< those that the reference has on the other side, as the plan
  Distances noise = {};                    ///< measured rounding
  std::optional<RunResult> onHost = {};    ///< the plan's result there, if the first one comes from a device

  Status run();
  Status runReference();
  Status runAgain(bool isReference, const RunExtras &extras, Routing &chosen, RunResult &again) const;
  Comparisons compare() const;
  Status addSamples(uint64_t seed, Comparisons &comparisons);
  std::function<bool(const moert_near &)> sidesOf(std::set<NearJump> others) const;
  Status followJumps(const Distances &bounds);
  void addSample(bool isReference, uint64_t seed, const RunResult &base, Comparisons &comparisons);
  void compareChoices();
  void reportChoices(const std::set<RoutedToken> &tokens);
  /// Units in the last place by which values are moved: twice the error of rounding to nearest, of tf32 where it is
  /// used.
  int64_t ulps() const { return options.tf32 && dtypeOf(plan.metadata) == MOERT_F32 ? 1 << 13 : 1; }
};

/// Runs all ranks in this process, without emulated links.
Status Verifier::runAgain(bool isReference, const RunExtras &extras, Routing &chosen, RunResult &again) const {
  Options here = options;
  here.backend = "host";
  here.emulateLinks.clear();
  RunExtras own = extras;
  if (isReference && !own.decide && !crossed.empty())
    own.decide = sidesOf(crossed);
  return runPrograms(plan, isReference, here, inputs, &chosen, nullptr, again, own);
}

Comparisons Verifier::compare() const {
  Comparisons comparisons(result, reference, dtypeOf(plan.metadata), options.tf32);
  comparisons.addNoise(noise);
  return comparisons;
}

Status Verifier::run() {
  verification.dtype = plan.metadata.dtype;
  ++verification.draws;
  if (Status status = runReference(); !status.ok())
    return Status::error(status.code, "reference: " + status.message);
  std::optional<Comparisons> comparisons(compare());
  const bool isFinite = comparisons->isFinite();
  for (uint64_t seed = 1; isFinite && !comparisons->isExplained() && seed <= kMostSamples; ++seed) {
    MOERT_RETURN_IF_ERROR(addSamples(seed, *comparisons));
    if (seed != kSamplesBeforeJumps || comparisons->isExplained())
      continue;
    MOERT_RETURN_IF_ERROR(followJumps(comparisons->unexplained()));
    comparisons.emplace(compare());
  }
  comparisons->report(verification);
  if (isFinite && referenceChoices.hasKept())
    compareChoices();
  return {};
}

/// Runs the reference with its own choices. If the plan chose otherwise, runs it again with the plan's choices.
Status Verifier::runReference() {
  const RunExtras noteJumps{.decide = [&](const moert_near &near) {
    return nearJumps[{near.op, near.earlier, near.element}] = near.is_above != 0;
  }};
  referenceChoices = routing.repeated();
  MOERT_RETURN_IF_ERROR(runAgain(true, noteJumps, referenceChoices, reference));
  if (routing.isTold() || !referenceChoices.hasKept())
    return {};
  routing.orderLike(referenceChoices);
  if (referenceChoices.differences(routing).empty())
    return {};
  reference = {};
  nearJumps.clear();
  referenceChoices = routing.followed();
  return runAgain(true, noteJumps, referenceChoices, reference);
}

/// Takes the reference's sides of jumps, and for `others` the other ones.
std::function<bool(const moert_near &)> Verifier::sidesOf(std::set<NearJump> others) const {
  return [this, others = std::move(others)](const moert_near &near) {
    const NearJump at = {near.op, near.earlier, near.element};
    return others.contains(at) ? !nearJumps.at(at) : near.is_above != 0;
  };
}

/// Runs the reference with the arguments near a jump on the sides that explain the plan's results.
Status Verifier::followJumps(const Distances &bounds) {
  verification.nearJumps = static_cast<int64_t>(nearJumps.size());
  verification.searchesJumps = nearJumps.size() <= kMostNearJumps;
  if (!verification.searchesJumps)
    return {};
  auto runAcross = [&](std::span<const NearJump> moved, RunResult &again) {
    Routing chosen = routing.followed();
    return runAgain(true, {.decide = sidesOf({moved.begin(), moved.end()})}, chosen, again);
  };
  std::vector<NearJump> near, found;
  for (const auto &[jump, isAbove] : nearJumps)
    near.push_back(jump);
  MOERT_RETURN_IF_ERROR(findCrossed(result, reference, near, bounds, runAcross, found, verification.searchesJumps));
  crossed.insert(found.begin(), found.end());
  verification.crossed = std::ssize(found);
  if (crossed.empty())
    return {};
  reference = {};
  Routing chosen = routing.followed();
  return runAgain(true, {}, chosen, reference);
}

/// Adds a run of the reference and, if that does not suffice, one of the plan.
Status Verifier::addSamples(uint64_t seed, Comparisons &comparisons) {
  addSample(true, seed, reference, comparisons);
  if (comparisons.isExplained())
    return {};
  // Further runs are on the host. Results of a device do not fit them.
  if (options.backend != "host" && !onHost) {
    Routing chosen = routing.followed();
    if (Status status = runAgain(false, {}, chosen, onHost.emplace()); !status.ok())
      return Status::error(status.code, "the plan on the host: " + status.message);
  }
  addSample(false, seed, onHost ? *onHost : result, comparisons);
  return {};
}

/// Adds one run with moved values. Ignores a run that fails, for example for lack of memory.
void Verifier::addSample(bool isReference, uint64_t seed, const RunResult &base, Comparisons &comparisons) {
  RunResult moved;
  Routing chosen = routing.followed();
  if (!runAgain(isReference, {.perturbation = {ulps(), seed}}, chosen, moved).ok())
    return;
  ++verification.roundedRuns;
  for (const auto &[name, distance] : distancesOf(moved, base))
    if (std::isfinite(distance))
      noise[name] = std::max(noise[name], distance);
  comparisons.addNoise(noise);
}

/// Compares the choices of the plan with those that the reference makes itself.
void Verifier::compareChoices() {
  verification.tokens = referenceChoices.keptTokens();
  std::set<RoutedToken> others = referenceChoices.differences(routing);
  verification.nearTies = static_cast<int64_t>(others.size());
  for (uint64_t seed = 1; seed <= kMostTieSamples && !others.empty(); ++seed) {
    RunResult moved;
    Routing chosen = routing.followed();
    if (!runAgain(true, {.perturbation = {kTieUlps * ulps(), seed}}, chosen, moved).ok())
      continue;
    for (const RoutedToken &token : referenceChoices.differences(chosen))
      others.erase(token);
  }
  if (!others.empty())
    reportChoices(others);
}

void Verifier::reportChoices(const std::set<RoutedToken> &tokens) {
  const RoutedToken &first = *tokens.begin();
  verification.nearTies -= static_cast<int64_t>(tokens.size());
  verification.failures.push_back(
      "routing: " + std::to_string(tokens.size()) +
      " tokens go to other experts than in the reference, and not by rounding; the first is token " +
      std::to_string(first[3]) + " of shard " + std::to_string(first[2]) + " in layer " + std::to_string(first[1]) +
      ": experts " + routing.keptExperts(first) + ", but in the reference " + referenceChoices.keptExperts(first));
}

} // namespace

/// Draws other elements in place of `inputs`, so that equal ones stay equal, and other ids and labels. In the skewed
/// draw most tokens are the same, so that they choose the same experts.
static Status drawAgain(const Plan &plan, const Options &options, uint64_t seed, bool isSkewed, const Tensors &inputs,
                        Tensors &others) {
  for (const auto &[name, tensor] : inputs) {
    Tensor &other = others[name];
    MOERT_RETURN_IF_ERROR(copyTensor(name, tensor, other));
    for (int64_t i = 0, e = other.dtype == kFieldType ? other.elements() : 0; i < e; ++i)
      other.as<Field>()[i] = Field::of(hashOf(other.as<Field>()[i].index() + seed));
  }
  for (const Value &value : argumentsOf(plan.programs(false))) {
    Tensor &other = others.at(value.name);
    if (value.below > 0 || (value.role == "step" && options.loads.empty()))
      MOERT_RETURN_IF_ERROR(fillIds(value, seed, other));
    const bool isToken = value.below > 0 || isFloating(other.dtype);
    if (isSkewed && isToken && value.role == "input" && value.name != "labels")
      repeatFirst(value, other);
  }
  return {};
}

/// Reports differing results in exact arithmetic, those with a known cause first.
static void reportDifferences(const Plan &plan, const RunResult &result, const RunResult &reference,
                              Verification &verification) {
  std::vector<std::string> others;
  for (const auto &[name, own] : result.results) {
    if (own.dtype != kFieldType)
      continue;
    const Tensor &expected = reference.results.at(name);
    const double count = squaredDistance(own.as<char>(), expected.as<char>(), own.dtype, own.elements());
    const double gap = result.replicaGap.at(name);
    if (count == 0 && gap == 0)
      continue;
    std::string text = "result '" + name + "' differs " +
                       (count > 0 ? "from the reference" : "between ranks that should hold equal parts") + " in " +
                       std::to_string(std::llround(count > 0 ? count : gap * gap)) + " of " +
                       std::to_string(own.elements()) + " elements";
    const std::string why = diagnose(plan, result, reference, name);
    (why.empty() ? others : verification.failures).push_back(text + (why.empty() ? "" : ": " + why));
  }
  verification.failures.insert(verification.failures.end(), others.begin(), others.end());
}

/// Options of draw `i`. Without --iters only the first one has several steps.
static Options optionsOf(size_t i, Options options) {
  if (i > 0 && !options.givesIters)
    options.iters = 1;
  return options;
}

static Status runReferences(const Plan &plan, const Options &options, std::span<const Tensors *const> inputs,
                            std::span<const Routing *const> routings, std::span<RunResult> references) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Routing chosen = routings[i]->repeated();
    if (Status status = runPrograms(plan, true, optionsOf(i, options), *inputs[i], &chosen, nullptr, references[i]);
        !status.ok())
      return Status::error(status.code, "reference: " + status.message);
  }
  return {};
}

/// Verifies several draws, because one may miss a difference, and each takes other paths through the plan.
static Status verifyExactly(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                            const RunResult &result, Verification &verification) {
  // Further passes take long. A draw in which they run comes in place of another one, and a second one only if all of
  // its tokens are of one layer.
  const Routing onFirst = routing.isTold() ? Routing() : Routing::concentrated(plan, /*onLast=*/false);
  const Routing onLast = onFirst.countLayers() == 1 ? Routing::concentrated(plan, /*onLast=*/true) : Routing();
  std::vector<const Routing *> routings = {&routing};
  for (const Routing *forced : {&onFirst, &onLast})
    if (forced->isTold())
      routings.push_back(forced);
  if (!onFirst.isTold())
    routings.insert(routings.end(), {&routing, &routing});
  const size_t count = routings.size();
  std::vector<Tensors> others(count - 1);
  std::vector<RunResult> again(count - 1), references(count);
  std::vector<const Tensors *> drawn = {&inputs};
  std::vector<const RunResult *> results = {&result};
  for (size_t i = 0; i + 1 < count; ++i) {
    // Equal tokens choose the same experts, if nothing else makes them differ.
    const bool isSkewed = i > 0 && !onFirst.isTold();
    MOERT_RETURN_IF_ERROR(drawAgain(plan, options, options.seed + i + 1, isSkewed, inputs, others[i]));
    drawn.push_back(&others[i]);
    results.push_back(&again[i]);
  }
  // The references run at the same time, because one rank runs one call at a time and leaves processors free.
  std::future<Status> reference =
      std::async(std::launch::async, [&] { return runReferences(plan, options, drawn, routings, references); });
  Status status;
  for (size_t i = 0; i + 1 < count && status.ok(); ++i) {
    Routing chosen = routings[i + 1]->repeated();
    status = runPrograms(plan, false, optionsOf(i + 1, options), others[i], &chosen, nullptr, again[i]);
  }
  Status its = reference.get();
  // A refused argument is the plan's error, as in the first draw.
  if (its.ok() && status.code == MOERT_ERROR_INVALID_ARGUMENT) {
    verification.failures.push_back(status.message);
    return {};
  }
  if (status.ok())
    status = its;
  for (size_t i = 0; i < count && status.ok() && verification.ok(); ++i) {
    verification.dtype = plan.metadata.dtype;
    verification.values.clear();
    verification.draws = static_cast<int64_t>(i) + 1;
    Comparisons(*results[i], references[i], kFieldType, /*tf32=*/false).report(verification);
    reportDifferences(plan, *results[i], references[i], verification);
    if (verification.ok())
      continue;
    std::optional<Departure> &departure = verification.departure;
    status = findDeparture(plan, optionsOf(1, options), *drawn[i], *routings[i], departure);
    if (departure)
      verification.failures.insert(verification.failures.begin(), departure->text());
  }
  return status;
}

Status verifyAgainstReference(const Plan &plan, const Options &options, const Tensors &inputs, Routing &routing,
                              std::ostream *log, const RunResult &result, Verification &verification) {
  if (log)
    *log << "running the reference\n";
  if (plan.wide != MOERT_WIDE_FIELD)
    return Verifier{plan, options, inputs, routing, result, verification}.run();
  return verifyExactly(plan, options, inputs, routing, result, verification);
}

void checkReplicas(const Metadata &metadata, bool tf32, const RunResult &plan, Verification &verification) {
  for (const auto &[name, gap] : plan.replicaGap) {
    const Tensor &result = plan.results.at(name);
    const double error = gap / scaleOf(normOf(result, result));
    const int32_t dtype = result.dtype, whole = tf32 ? int32_t(MOERT_F16) : dtypeOf(metadata);
    const double tolerance = isFloating(dtype) ? std::max(roundingTolerance(dtype), roundingTolerance(whole)) : 0;
    if (!(error <= tolerance))
      verification.failures.push_back("result '" + name + "': ranks that should hold equal parts differ by " +
                                      scientific(error) + " (tolerance " + scientific(tolerance) + ")");
  }
}

} // namespace moert::run
