//===- Inputs.cpp - the global values a program starts from ---------------===//

#include "run/Inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

namespace moert::run {
namespace {

uint64_t hashName(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

/// Number close to a normal distribution of deviation 1: the sum of four uniform values. It needs no libm, so it is the
/// same everywhere.
double nearNormal(uint64_t key, uint64_t index) {
  uint64_t a = hashOf(key + 2 * index), b = hashOf(key + 2 * index + 1);
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

/// Whether label `i` is masked (-1). One in eight is, but never the first, so that there is one to learn from.
bool isMasked(const Value &value, uint64_t key, int64_t i) {
  return value.name == "labels" && i > 0 && hashOf(~key + static_cast<uint64_t>(i)) % 8 == 0;
}

/// Number of steps before one that is verified. In the first step the corrections of Adam's moments, among others, are
/// special.
int32_t drawnStep(uint64_t key) { return static_cast<int32_t>(1 + hashOf(key) % 1000); }

/// Fills in ids that are equally likely, or the number of a step.
Status fillIntegers(const Value &value, uint64_t key, Tensor &tensor) {
  if (value.below == 0 && value.role != "step")
    return invalid(
        "argument '" + value.name +
        "' is i32 and the plan gives no bound for its values, so that they cannot be random: expected them in "
        "the file of --load");
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  auto *values = tensor.as<int32_t>();
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    if (isMasked(value, key, i))
      values[i] = -1;
    else
      values[i] =
          value.below == 0
              ? drawnStep(key)
              : static_cast<int32_t>(hashOf(key + static_cast<uint64_t>(i)) % static_cast<uint64_t>(value.below));
  return {};
}

/// Calls `body` with ranges of elements, on all processors if there are many elements. A layer may have 10^9 of them,
/// each of which takes 15 ns.
template <class Body> void forRanges(int64_t elements, Body body) {
  constexpr int64_t kLeast = int64_t(1) << 20; // starting a thread takes less than a hundredth of these
  const int64_t count = std::clamp<int64_t>(elements / kLeast, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < count; ++i)
    threads.emplace_back([=] { body(elements * i / count, elements * (i + 1) / count); });
  body(0, elements / count);
}

/// Sets all elements to one number, such as the first state of an optimizer.
Status fillEverywhere(const Value &value, double number, Tensor &tensor) {
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  forRanges(value.elements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      setElement(tensor.as<char>(), value.dtype, i, number);
  });
  return {};
}

Status copyValue(const Tensor &from, const Value &value, Tensor &tensor) {
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    setElement(tensor.as<char>(), value.dtype, i, elementAt(from.as<char>(), from.dtype, i));
  return {};
}

} // namespace

Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor) {
  uint64_t key = hashOf(hashOf(seed) ^ hashName(value.name));
  if (value.dtype == MOERT_I32)
    return fillIntegers(value, key, tensor);
  if (value.role == "state" || value.role == "rate")
    return fillEverywhere(value, value.role == "rate" ? 1e-3 : 0, tensor);
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  const double factor = deviation(value);
  forRanges(value.elements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      setElement(tensor.as<char>(), value.dtype, i, factor * nearNormal(key, static_cast<uint64_t>(i)));
  });
  return {};
}

namespace {

/// Whether an optimizer keeps the value from step to step.
bool isState(const Value &value) { return value.role == "state" || value.role == "step"; }

/// Arguments as they are searched in files: the f32 copy of a parameter is in a checkpoint if the parameter is.
std::vector<Value> soughtOf(const std::vector<Value> &arguments) {
  std::vector<Value> sought = arguments;
  for (Value &value : sought)
    if (const Value *parameter = masterOf(value, arguments))
      value.source = parameter->source;
  return sought;
}

std::string listOf(const std::vector<const Value *> &values, size_t shown) {
  std::string text;
  for (size_t i = 0; i < std::min(shown, values.size()); ++i) {
    text += (i ? ", '" : "'") + values[i]->name + "'";
    if (values[i]->source)
      text += " (tensor '" + piecesOf(*values[i])[0].tensor + "')";
  }
  return values.size() > shown ? text + ", .." : text;
}

/// Checks that the files have all or none of the values that `isOne` takes.
template <class IsOne>
Status checkComplete(const std::vector<Value> &sought, Loads &loads, const InputOptions &options, const char *what,
                     const char *instead, std::ostream &log, IsOne isOne) {
  std::vector<const Value *> missing;
  size_t all = 0;
  bool isGiven = false;
  for (const Value &value : sought) {
    if (!isOne(value))
      continue;
    ++all;
    if (!loads.has(value))
      missing.push_back(&value);
    else
      // The f32 copy that comes with a parameter does not show that states were saved.
      isGiven |= !(isState(value) && value.source) && value.role != "step";
  }
  if (missing.empty() || !isGiven)
    return {};
  std::string count = std::to_string(missing.size()) + " of the plan's " + std::to_string(all) + " " + what;
  if (options.allowMissing) {
    log << "moe-run: " << loads.paths() << " lacks " << count << ", which begin " << instead << ": "
        << listOf(missing, missing.size()) << "\n";
    return {};
  }
  return invalid("expected " + loads.paths() + " to have all of the plan's " + std::to_string(all) + " " + what +
                 ", of which it has some, but it lacks " + std::to_string(missing.size()) + ": " + listOf(missing, 5) +
                 "; with --allow-missing they begin " + instead);
}

/// Makes a value that the files do not have.
Status fillOther(const Value &value, const Value *parameter, const InputOptions &options, Tensors &inputs) {
  Tensor &tensor = inputs[value.name];
  if (value.role == "step" && !options.drawsStep)
    return fillEverywhere(value, 0, tensor);
  if (parameter && inputs.count(parameter->name))
    return copyValue(inputs[parameter->name], value, tensor);
  return options.isNew && value.fill ? fillEverywhere(value, *value.fill, tensor)
                                     : fillRandom(value, options.seed, tensor);
}

} // namespace

Status makeInputs(const std::vector<Value> &arguments, Loads &loads, const InputOptions &options, std::ostream &log,
                  Tensors &inputs) {
  std::vector<Value> sought = soughtOf(arguments);
  auto isParameter = [](const Value &value) { return value.role == "parameter"; };
  MOERT_RETURN_IF_ERROR(checkComplete(sought, loads, options, "parameters", "as without --load", log, isParameter));
  MOERT_RETURN_IF_ERROR(
      checkComplete(sought, loads, options, "states of the optimizer", "as in a first step", log, isState));
  std::string random;
  for (const Value &value : sought) {
    bool found = false;
    MOERT_RETURN_IF_ERROR(loads.read(value, inputs[value.name], found));
    std::string where = found && !options.allowNan ? firstNotFinite(inputs[value.name]) : "";
    if (!where.empty())
      return invalid("'" + value.name + "' of " + loads.paths() + " holds " + where +
                     "; with --allow-nan such values are taken");
    if (found)
      continue;
    MOERT_RETURN_IF_ERROR(fillOther(value, masterOf(value, arguments), options, inputs));
    // Reports random values only. The first states of an optimizer are not random.
    bool isLater = std::ranges::count(options.givenLater, value.name) > 0;
    if (!isState(value) && value.role != "rate" && !isLater)
      random += (random.empty() ? "'" : ", '") + value.name + "'";
  }
  if (!loads.empty() && !random.empty())
    log << "moe-run: random values (seed " << options.seed << ") for what " << loads.paths()
        << " does not have: " << random << "\n";
  loads.reportUnused(log);
  return {};
}

Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs) {
  Loads loads;
  MOERT_RETURN_IF_ERROR(loads.open(load.empty() ? std::vector<std::string>{} : std::vector{load}, arguments));
  return makeInputs(arguments, loads, {seed}, log, inputs);
}

static Status drawElements(uint64_t key, Tensor &tensor) {
  if (!isFloating(tensor.dtype))
    return {};
  Tensor drawn;
  MOERT_RETURN_IF_ERROR(Tensor::allocate("a value", kFieldType, tensor.shape, drawn));
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    drawn.as<Field>()[i] = Field::of(hashOf(key + static_cast<uint64_t>(i)));
  tensor = std::move(drawn);
  return {};
}

Status fillIds(const Value &value, uint64_t seed, Tensor &tensor) {
  if (Status status = fillRandom(value, seed, tensor); !status.ok() || value.name != "labels")
    return status;
  const uint64_t key = ~hashOf(hashOf(seed) ^ hashName(value.name));
  for (int64_t i = 1, e = value.elements(); i < e; ++i)
    if (hashOf(key + static_cast<uint64_t>(i)) % 2)
      tensor.as<int32_t>()[i] = -1;
  return {};
}

void repeatFirst(const Value &value, Tensor &tensor) {
  // A token is one id, or one row of other values.
  const int64_t tokens = value.below > 0 || value.shape.empty() ? value.elements() : value.shape[0];
  const int64_t period = value.sequence > 0 ? value.sequence : tokens, repeated = period - (period + 7) / 8;
  const size_t row = static_cast<size_t>(value.elements() / tokens) * dtypeSize(tensor.dtype);
  for (int64_t token = 0; token < tokens; ++token)
    if (token % period < repeated)
      std::memmove(tensor.as<char>() + static_cast<size_t>(token) * row, tensor.as<char>(), row);
}

Status widenInputs(moert_wide wide, const std::vector<Value> &arguments, uint64_t seed, Tensors &inputs) {
  for (const Value &value : arguments) {
    Tensor &tensor = inputs.at(value.name);
    const Value *parameter = masterOf(value, arguments);
    Status status;
    if (wide == MOERT_WIDE_F64)
      status = widen(tensor);
    else if (wide == MOERT_WIDE_FIELD && value.below > 0)
      status = fillIds(value, seed, tensor);
    else if (wide == MOERT_WIDE_FIELD)
      status = drawElements(hashOf(hashOf(seed) ^ hashName((parameter ? *parameter : value).name)), tensor);
    if (!status.ok())
      return status;
  }
  return {};
}

} // namespace moert::run
