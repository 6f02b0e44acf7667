//===- Inputs.cpp - the global values a program starts from ---------------===//

#include "run/Inputs.h"
#include "run/Safetensors.h"

#include <cmath>

namespace moert::run {
namespace {

/// splitmix64: a good hash of a counter.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

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

Status checkNames(const SafetensorsFile &file, const std::vector<Value> &arguments, const std::string &path) {
  std::string known;
  for (const Value &value : arguments)
    known += (known.empty() ? "'" : ", '") + value.name + "'";
  for (const auto &[name, entry] : file.entries()) {
    bool found = false;
    for (const Value &value : arguments)
      found |= value.name == name;
    if (!found)
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                           "'" + path + "': the plan has no argument '" + name + "'; its arguments are " + known);
  }
  return {};
}

} // namespace

Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor) {
  if (value.dtype == MOERT_I32)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "argument '" + value.name +
                             "' is i32, for which there are no random values: expected it in "
                             "the file of --load");
  if (Status status = Tensor::allocate(value, tensor); !status.ok())
    return status;
  double factor = deviation(value);
  uint64_t key = mix(mix(seed) ^ hashName(value.name));
  for (int64_t i = 0, e = value.elements(); i < e; ++i)
    setElement(tensor.as<char>(), value.dtype, i, factor * nearNormal(key, static_cast<uint64_t>(i)));
  return {};
}

Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs) {
  SafetensorsFile file;
  if (!load.empty()) {
    if (Status status = file.open(load); !status.ok())
      return status;
    if (Status status = checkNames(file, arguments, load); !status.ok())
      return status;
  }
  std::string random;
  for (const Value &value : arguments) {
    bool loaded = file.entries().count(value.name) > 0;
    Tensor &tensor = inputs[value.name];
    if (Status status = loaded ? file.read(value, tensor) : fillRandom(value, seed, tensor); !status.ok())
      return status;
    if (!loaded)
      random += (random.empty() ? "'" : ", '") + value.name + "'";
  }
  if (!load.empty() && !random.empty())
    log << "moe-run: random values (seed " << seed << ") for what '" << load << "' does not have: " << random << "\n";
  return {};
}

} // namespace moert::run
