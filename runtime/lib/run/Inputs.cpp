//===- Inputs.cpp - the global values a program starts from ---------------===//

#include "run/Inputs.h"
#include "run/Random.h"

#include <cmath>

namespace moert::run {
namespace {

uint64_t hashName(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

/// Standard deviation 1, close to normal: the sum of four uniform values. Needs no libm, so it is the same everywhere.
double nearNormal(uint64_t key, uint64_t index) {
  uint64_t a = mix(key + 2 * index), b = mix(key + 2 * index + 1);
  uint64_t sum = (a >> 32) + (a & 0xffffffff) + (b >> 32) + (b & 0xffffffff);
  constexpr double kScale = 1.7320508075688772 / 4294967296.0;
  return (static_cast<double>(sum) - 2 * 4294967295.0) * kScale;
}

double deviation(const Value &value) {
  if (value.role != "parameter")
    return 1;
  size_t dims = value.shape.size();
  return dims < 2 ? 0.1 : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, value.shape[dims - 2])));
}

/// Ids that are equally likely; the number of the first step.
Status fillIntegers(const Value &value, uint64_t key, Tensor &tensor) {
  if (value.below == 0 && value.role != "step")
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "argument '" + value.name +
                             "' is i32 and the plan does not say what its values are below: expected it in the file of "
                             "--load");
  if (Status status = Tensor::allocate(value, tensor); !status.ok())
    return status;
  auto *values = tensor.as<int32_t>();
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    values[i] = value.below == 0
                    ? 0
                    : static_cast<int32_t>(mix(key + static_cast<uint64_t>(i)) % static_cast<uint64_t>(value.below));
  return {};
}

/// What an optimizer begins with, and how fast it learns where nobody says.
Status fillEverywhere(const Value &value, double number, Tensor &tensor) {
  if (Status status = Tensor::allocate(value, tensor); !status.ok())
    return status;
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    setElement(tensor.as<char>(), value.dtype, i, number);
  return {};
}

Status copyValue(const Tensor &from, const Value &value, Tensor &tensor) {
  if (Status status = Tensor::allocate(value, tensor); !status.ok())
    return status;
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    setElement(tensor.as<char>(), value.dtype, i, elementAt(from.as<char>(), from.dtype, i));
  return {};
}

} // namespace

Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor) {
  uint64_t key = mix(mix(seed) ^ hashName(value.name));
  if (value.dtype == MOERT_I32)
    return fillIntegers(value, key, tensor);
  if (value.role == "state" || value.role == "rate")
    return fillEverywhere(value, value.role == "rate" ? 1e-3 : 0, tensor);
  if (Status status = Tensor::allocate(value, tensor); !status.ok())
    return status;
  double factor = deviation(value);
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    setElement(tensor.as<char>(), value.dtype, i, factor * nearNormal(key, static_cast<uint64_t>(i)));
  return {};
}

Status fillNew(const Value &value, uint64_t seed, Tensor &tensor) {
  return value.fill ? fillEverywhere(value, *value.fill, tensor) : fillRandom(value, seed, tensor);
}

Status makeInputs(const std::vector<Value> &arguments, Loads &loads, uint64_t seed, std::ostream &log, Tensors &inputs,
                  Fill fill) {
  std::string random;
  for (const Value &argument : arguments) {
    Value value = argument;
    const Value *parameter = masterOf(value, arguments);
    if (parameter)
      value.source = parameter->source;
    Tensor &tensor = inputs[value.name];
    bool found = false;
    if (Status status = loads.read(value, tensor, found); !status.ok())
      return status;
    if (found)
      continue;
    bool hasParameter = parameter && inputs.count(parameter->name);
    if (Status status = hasParameter ? copyValue(inputs[parameter->name], value, tensor) : fill(value, seed, tensor);
        !status.ok())
      return status;
    // What an optimizer begins with is not random.
    if (value.role != "state" && value.role != "rate" && value.role != "step")
      random += (random.empty() ? "'" : ", '") + value.name + "'";
  }
  if (!loads.empty() && !random.empty())
    log << "moe-run: random values (seed " << seed << ") for what " << loads.paths() << " does not have: " << random
        << "\n";
  loads.reportUnused(log);
  return {};
}

Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs, Fill fill) {
  Loads loads;
  if (Status status = loads.open(load.empty() ? std::vector<std::string>{} : std::vector{load}, arguments);
      !status.ok())
    return status;
  return makeInputs(arguments, loads, seed, log, inputs, fill);
}

} // namespace moert::run
