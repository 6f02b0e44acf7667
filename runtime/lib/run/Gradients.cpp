//===- Gradients.cpp - gradients against difference quotients --------------===//

#include "run/Verify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace moert::run {
namespace {

constexpr double kTolerance = 1e-6;
/// Share of the tolerance below which no further step size is tried.
constexpr double kClear = 0.01;
/// Relative change of a loss by rounding.
constexpr double kRounding = 0x1p-48;
/// Step sizes relative to the arguments. If one is too large, or crosses a kink, another one may fit.
constexpr double kSteps[] = {1e-5, 1e-6, 1e-4};

std::span<const double> numbersOf(const Tensor &tensor) {
  return {tensor.as<double>(), static_cast<size_t>(tensor.elements())};
}

/// A gradient and its argument.
struct Pair {
  std::string gradient, argument;
  std::vector<double> direction;
};

struct Differences {
  const Plan &plan;
  const Options &options;
  const Tensors &inputs;
  const Routing &routing;
  const RunResult &result;

  std::vector<Pair> findPairs() const;
  /// Distance of the gradients of `some` from the difference quotient along their directions, relative to the quotient
  /// along a random direction.
  Status compare(std::span<const Pair> some, Comparison &comparison, std::string &what) const;
  double lossOf(const RunResult &run) const;
  Status lossAt(std::span<const Pair> moved, double step, double &loss) const;
};

std::vector<Pair> Differences::findPairs() const {
  std::vector<Pair> pairs;
  constexpr std::string_view kPrefix = "grad.";
  std::mt19937_64 random(options.seed);
  std::normal_distribution<double> normal;
  for (const Value &value : resultsOf(plan.metadata.programs)) {
    if (value.role != "gradient" || !value.name.starts_with(kPrefix))
      continue;
    Pair pair{value.name, value.name.substr(kPrefix.size()), {}};
    auto argument = inputs.find(pair.argument);
    if (argument == inputs.end())
      continue;
    // Each element moves by about the same share of its argument's size.
    const std::span<const double> numbers = numbersOf(argument->second);
    const double squares = std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
    const double size = std::sqrt(squares / static_cast<double>(std::max<size_t>(numbers.size(), 1)));
    for (size_t i = 0; i < numbers.size(); ++i)
      pair.direction.push_back(normal(random) * (size > 0 ? size : 1));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

double Differences::lossOf(const RunResult &run) const {
  double loss = 0;
  for (const Value &value : resultsOf(plan.metadata.programs)) {
    const std::span<const double> numbers = numbersOf(run.results.at(value.name));
    if (value.role == "loss")
      loss = std::accumulate(numbers.begin(), numbers.end(), loss);
    if (auto cotangent = inputs.find("cotangent." + value.name); cotangent != inputs.end())
      loss = std::inner_product(numbers.begin(), numbers.end(), numbersOf(cotangent->second).begin(), loss);
  }
  return loss;
}

Status Differences::lossAt(std::span<const Pair> moved, double step, double &loss) const {
  Tensors others;
  for (const auto &[name, tensor] : inputs)
    MOERT_RETURN_IF_ERROR(copyTensor(name, tensor, others[name]));
  for (const Pair &pair : moved)
    for (size_t i = 0; i < pair.direction.size(); ++i)
      others.at(pair.argument).as<double>()[i] += step * pair.direction[i];
  RunResult run;
  Routing chosen = routing.followed();
  MOERT_RETURN_IF_ERROR(runPrograms(plan, false, options, others, &chosen, nullptr, run));
  loss = lossOf(run);
  return {};
}

Status Differences::compare(std::span<const Pair> some, Comparison &comparison, std::string &what) const {
  double derived = 0, squares = 0;
  for (const Pair &pair : some) {
    const std::span<const double> gradient = numbersOf(result.results.at(pair.gradient));
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double change = gradient[i] * pair.direction[i];
      derived += change;
      squares += change * change;
    }
  }
  comparison = {comparison.name, std::numeric_limits<double>::infinity(), kTolerance};
  for (double step : kSteps) {
    double plus = 0, minus = 0;
    MOERT_RETURN_IF_ERROR(lossAt(some, step, plus));
    MOERT_RETURN_IF_ERROR(lossAt(some, -step, minus));
    const double measured = (plus - minus) / (2 * step), rounding = kRounding * std::abs(plus) / step;
    const double scale = squares > 0 ? std::sqrt(squares) : 1;
    const Comparison here{comparison.name, std::abs(measured - derived) / scale,
                          std::max(kTolerance, rounding / scale)};
    // The negation also reports a loss that is NaN.
    if (!(here.relativeError / here.bound >= comparison.relativeError / comparison.bound)) {
      comparison = here;
      char text[160];
      std::snprintf(text, sizeof text, "%.9g along a random direction, along which the loss changes by %.9g", derived,
                    measured);
      what = text;
    }
    if (comparison.relativeError < kClear * comparison.bound)
      break;
  }
  return {};
}

} // namespace

Status checkGradients(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                      const RunResult &result, Verification &verification) {
  const Differences differences{plan, options, inputs, routing, result};
  const std::vector<Pair> pairs = differences.findPairs();
  if (pairs.empty())
    return invalid("--verify=gradients: the plan has no gradients among its "
                   "results; compile it without --optimizer, to train");
  verification.dtype = plan.metadata.dtype;
  std::string what;
  Comparison all{"all gradients"};
  MOERT_RETURN_IF_ERROR(differences.compare(pairs, all, what));
  verification.values.push_back(all);
  if (all.ok())
    return {};
  verification.failures.push_back("the gradients are " + what);
  for (const Pair &pair : pairs) {
    Comparison one{pair.gradient};
    MOERT_RETURN_IF_ERROR(differences.compare({&pair, 1}, one, what));
    verification.values.push_back(one);
    if (!one.ok())
      verification.failures.push_back("'" + pair.gradient + "' is " + what);
  }
  return {};
}

} // namespace moert::run
