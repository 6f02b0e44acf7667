//===- Verify.cpp - comparing a plan's results with its reference's -------===//

#include "run/Verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace moert::run {

static std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double Verification::maxError() const {
  double largest = 0;
  for (const Comparison &value : values)
    if (!(value.relativeError <= largest))
      largest = std::isnan(largest) ? largest : value.relativeError;
  return largest;
}

double relativeError(const Tensor &a, const Tensor &b, double scale) {
  double difference = squaredDistance(a.as<char>(), b.as<char>(), a.dtype, a.elements());
  if (difference == 0)
    return 0;
  double norm = squaredNorm(b), least = scale * scale * static_cast<double>(b.elements());
  // A norm that is not a number stays one.
  if (norm < least)
    norm = least;
  return std::sqrt(difference / (norm == 0 ? squaredNorm(a) : norm));
}

/// By result, the scale of its errors: a thousandth of the root mean square of the result of its role where that is
/// largest. Some gradients are zero but for rounding, e.g. that of a bias on the keys of an attention, which softmax
/// does not see; then only the others say how much rounding is.
static std::map<std::string, double> findScales(const Program &program, const RunResult &result) {
  constexpr double share = 1e-3;
  std::map<std::string, double> largest, scales;
  auto forEach = [&](auto &&visit) {
    for (int64_t index = 0; index < program.valueCount(); ++index)
      if (auto it = result.results.find(program.value(index).name); it != result.results.end())
        visit(program.value(index), it->second);
  };
  forEach([&](const Value &value, const Tensor &tensor) {
    double square = squaredNorm(tensor) / static_cast<double>(std::max<int64_t>(1, tensor.elements()));
    if (std::isfinite(square))
      largest[value.role] = std::max(largest[value.role], share * std::sqrt(square));
  });
  forEach([&](const Value &value, const Tensor &) { scales[value.name] = largest[value.role]; });
  return scales;
}

static Status checkSame(const std::vector<Value> &plan, const std::vector<Value> &reference, const char *what,
                        bool both) {
  auto find = [](const std::vector<Value> &values, const std::string &name) {
    return std::find_if(values.begin(), values.end(), [&](const Value &value) { return value.name == name; });
  };
  for (const Value &value : reference) {
    auto other = find(plan, value.name);
    if (other == plan.end())
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                           std::string("the reference has a ") + what + " '" + value.name + "' that the plan has not");
    if (other->shape != value.shape || other->dtype != value.dtype)
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT, std::string("the ") + what + " '" + value.name + "' is " +
                                                             shapeText(other->shape) + " " + dtypeName(other->dtype) +
                                                             " in the plan, but " + shapeText(value.shape) + " " +
                                                             dtypeName(value.dtype) + " in the reference");
  }
  for (const Value &value : plan)
    if (both && find(reference, value.name) == reference.end())
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                           std::string("the plan has a ") + what + " '" + value.name + "' that the reference has not");
  return {};
}

Status checkComparable(const Metadata &metadata) {
  if (!metadata.reference)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "the plan has no reference program");
  const std::vector<Value> arguments = argumentsOf(metadata.programs), results = resultsOf(metadata.programs);
  if (Status status = checkSame(arguments, metadata.reference->arguments, "argument", false); !status.ok())
    return status;
  return checkSame(results, metadata.reference->results, "result", true);
}

void checkInputs(const Tensors &inputs, Verification &verification) {
  for (const auto &[name, tensor] : inputs)
    if (std::string where = firstNotFinite(tensor); !where.empty())
      verification.failures.push_back("argument '" + name + "' holds " + where);
}

double planTolerance(const Metadata &metadata, bool tf32) {
  int32_t dtype = dtypeFromName(metadata.dtype);
  if (dtype < 0)
    dtype = MOERT_F32;
  // Both have 10 bits of mantissa.
  return roundingTolerance(tf32 && dtype == MOERT_F32 ? MOERT_F16 : dtype);
}

/// Of a value of a plan whose tolerance is `whole`; integers are exact.
static double toleranceOf(const Tensor &tensor, double whole) {
  double own = roundingTolerance(tensor.dtype);
  return own > 0 ? std::max(own, whole) : 0;
}

void compareResults(const Program &program, const RunResult &plan, const RunResult &reference,
                    Verification &verification) {
  std::map<std::string, double> scales = findScales(program, reference);
  for (const auto &[name, tensor] : plan.results) {
    const Tensor &expected = reference.results.at(name);
    double error = relativeError(tensor, expected, scales[name]), replicas = plan.replicaErrors.at(name);
    Comparison value{name, std::isnan(replicas) ? replicas : std::max(error, replicas),
                     toleranceOf(tensor, verification.tolerance)};
    if (std::isnan(error))
      value.relativeError = error;
    verification.values.push_back(value);
    std::string mine = firstNotFinite(tensor), theirs = firstNotFinite(expected);
    if (!mine.empty())
      verification.failures.push_back("result '" + name + "' of the plan holds " + mine);
    if (!theirs.empty())
      verification.failures.push_back("result '" + name + "' of the reference holds " + theirs);
    if (mine.empty() && theirs.empty() && !value.ok() && error <= value.tolerance)
      verification.failures.push_back("result '" + name + "': ranks that should hold equal parts differ by " +
                                      scientific(replicas) + " (tolerance " + scientific(value.tolerance) + ")");
    else if (mine.empty() && theirs.empty() && !value.ok())
      verification.failures.push_back("result '" + name + "' differs from the reference by " +
                                      scientific(value.relativeError) + " (tolerance " + scientific(value.tolerance) +
                                      ")");
  }
}

Status verifyAgainstReference(const Plan &plan, const Options &options, const Tensors &inputs, Routing *routing,
                              std::ostream *log, const RunResult &result, Verification &verification) {
  if (log)
    *log << "running the reference\n";
  RunResult reference;
  if (Status status = runPrograms(plan, true, options, inputs, routing, nullptr, reference); !status.ok())
    return Status::error(status.code, "reference: " + status.message);
  verification.tolerance = planTolerance(plan.metadata, options.tf32);
  compareResults(*plan.metadata.reference, result, reference, verification);
  return {};
}

void checkReplicas(const RunResult &plan, Verification &verification) {
  for (const auto &[name, error] : plan.replicaErrors)
    if (double tolerance = toleranceOf(plan.results.at(name), verification.tolerance); !(error <= tolerance))
      verification.failures.push_back("result '" + name + "': ranks that should hold equal parts differ by " +
                                      scientific(error) + " (tolerance " + scientific(tolerance) + ")");
}

} // namespace moert::run
