//===- Rotary.cpp - rotary positions of a configuration -------------------===//

#include "Family.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr double pi = 3.14159265358979323846;

/// Pair of `dim` columns whose angle makes `rotations` turns over `positions` tokens.
static double findPair(double rotations, double dim, double base, double positions) {
  return dim * std::log(positions / (rotations * 2 * pi)) / (2 * std::log(base));
}

/// YaRN's mscale: the factor of values whose positions are stretched by `factor`.
static double getYarnScale(double factor, double multiple) {
  return factor <= 1 ? 1.0 : 0.1 * multiple * std::log(factor) + 1;
}

/// Number of positions before they were stretched. As in transformers the outer key precedes the inner one.
static double getOriginalPositions(JsonReader &reader, JsonReader &scaling) {
  StringRef key = "original_max_position_embeddings";
  int64_t longest = reader.getInteger("max_position_embeddings", 1, kMaxVocabulary, 4096);
  double inner = scaling.getNumber(key, kPositive, longest);
  return reader.getNumber(key, kPositive, inner);
}

/// YaRN (Peng et al., 2023) as in the models' code.
static void readYarn(JsonReader &reader, JsonReader &scaling, int64_t dim, RotarySpec &rotary) {
  rotary.factor = scaling.getNumber("factor", kPositive);
  double positions = getOriginalPositions(reader, scaling);
  double fast = scaling.getNumber("beta_fast", kPositive, 32), slow = scaling.getNumber("beta_slow", kPositive, 1);
  auto columns = static_cast<double>(dim);
  rotary.low = findPair(fast, columns, rotary.base, positions);
  rotary.high = findPair(slow, columns, rotary.base, positions);
  if (!scaling.isNull("truncate") && scaling.getBool("truncate", true)) {
    rotary.low = std::floor(rotary.low);
    rotary.high = std::ceil(rotary.high);
  }
  rotary.low = std::max(rotary.low, 0.0);
  rotary.high = std::min(rotary.high, columns - 1);
  if (rotary.low == rotary.high)
    rotary.high += 0.001;
  auto getScale = [&](double multiple) { return getYarnScale(rotary.factor, multiple); };
  double mscale = scaling.getNumber("mscale", kNotNegative, 0),
         all = scaling.getNumber("mscale_all_dim", kNotNegative, 0);
  double scale = mscale > 0 && all > 0 ? getScale(mscale) / getScale(all) : getScale(1);
  rotary.scale = scaling.getNumber("attention_factor", kPositive, scale);
}

/// Reads the number of a head's columns that have positions, if the object has it.
static void readShare(JsonReader &reader, const RotaryKeys &keys, int64_t dim, RotarySpec &rotary) {
  StringRef key = "partial_rotary_factor";
  if (reader.unsetsDefault(key))
    reader.fail(key, "a number");
  if (!keys.columns.empty() && reader.find(keys.columns)) {
    rotary.dim = reader.getInteger(keys.columns, 1, dim);
  } else if (keys.isPartial && reader.find(key)) {
    rotary.dim = static_cast<int64_t>(static_cast<double>(dim) * reader.getNumber(key, kFraction));
  } else if (!keys.isPartial && reader.getNumber(key, kPositive, 1) != 1) {
    reader.fail(key, "1");
  }
  if (rotary.dim % 2 != 0 || (keys.isPartial && reader.find(key) && rotary.dim == 0))
    reader.fail(key, "a part of a head of " + Twine(dim) + " columns that is an even number of columns");
}

/// Llama 3.1's scaling divides the frequencies of long waves by the factor, and those of medium waves by a part of it.
static void readLlama3(JsonReader &reader, JsonReader &scaling, RotarySpec &rotary) {
  rotary.factor = scaling.getNumber("factor", kPositive);
  rotary.low = scaling.getNumber("high_freq_factor", kPositive);
  rotary.high = scaling.getNumber("low_freq_factor", kPositive);
  rotary.reach = getOriginalPositions(reader, scaling);
  if (rotary.low < rotary.high)
    scaling.fail("high_freq_factor", "a number of at least 'low_freq_factor'");
  // If both are one, as in Llama 4, no waves lie between the two kinds.
  rotary.low = std::max(rotary.low, rotary.high * (1 + 1e-12));
}

/// Hunyuan's "dynamic" scaling enlarges the base by its alpha, for any length.
static void readAlpha(JsonReader &scaling, int64_t dim, RotarySpec &rotary) {
  auto columns = static_cast<double>(dim);
  double alpha = scaling.getNumber("alpha", kPositive);
  rotary.base *= std::pow(alpha, columns / (columns - 2));
  scaling.accept({"beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim"}); // unread by "dynamic"
}

/// Key of the scaling of positions. As in transformers, `rope_scaling` replaces `rope_parameters` unless it is empty.
static StringRef getScalingKey(const JsonReader &reader) {
  const llvm::json::Value *older = reader.find("rope_scaling");
  bool isEmpty = !older || (older->getAsObject() && older->getAsObject()->empty());
  return isEmpty ? "rope_parameters" : "rope_scaling";
}

/// Names of the objects inside the object at `key`: types of blocks, in newer configurations.
static llvm::SmallVector<StringRef> getBlockTypes(const JsonReader &reader, StringRef key) {
  llvm::SmallVector<StringRef> types;
  if (const llvm::json::Object *object = reader.find(key)->getAsObject())
    for (const auto &[name, value] : *object)
      if (value.getAsObject())
        types.push_back(name);
  return types;
}

/// Reads the scaling: 'default', 'yarn', also called 'deepseek_yarn', 'linear', which divides all frequencies by the
/// factor, or 'llama3'.
static void readScaling(JsonReader &reader, JsonReader &scaling, const RotaryKeys &keys, int64_t dim,
                        RotarySpec &rotary) {
  constexpr size_t plain = 0, linear = 2, llama3 = 3, deepseek = 4;
  llvm::SmallVector<StringRef> types = {"default", "yarn", "linear", "llama3", "deepseek_yarn"};
  if (keys.hasAlpha)
    types.push_back("dynamic");
  // The older key "type" means nothing beside rope_type; "mrope" concerns positions of other input than text.
  scaling.accept({"type", "mrope_interleaved", "mrope_section"});
  size_t type = scaling.getChoice(scaling.find("rope_type") ? "rope_type" : "type", types, plain);
  if (type == plain)
    return;
  if (type == llama3) {
    readLlama3(reader, scaling, rotary);
  } else if (type > deepseek) {
    readAlpha(scaling, dim, rotary);
  } else if (type == linear) {
    rotary.factor = scaling.getNumber("factor", kPositive);
    rotary.low = -2;
    rotary.high = -1;
  } else if (rotary.base == 1) {
    scaling.fail("rope_theta", "a base other than 1 with YaRN");
  } else {
    readYarn(reader, scaling, dim, rotary);
  }
}

void mlir::moe::readRotary(JsonReader &reader, const RotaryKeys &keys, StringRef dimKey, int64_t dim,
                           RotarySpec &rotary) {
  if (dim % 2 != 0)
    reader.fail(dimKey, "an even size of heads, as rotary positions need it, " + Twine(dim) + " being odd,");
  if (keys.part != 1)
    rotary.dim = static_cast<int64_t>(static_cast<double>(dim) * keys.part);
  readNumber(reader, keys.base, kRotaryBase, rotary.base);
  readShare(reader, keys, dim, rotary);
  StringRef key = getScalingKey(reader);
  if (!reader.find(key))
    return;
  JsonReader scaling = reader.getObject(key);
  auto read = [&](JsonReader &own) {
    readNumber(own, "rope_theta", kRotaryBase, rotary.base);
    readShare(own, keys, dim, rotary);
    readScaling(reader, own, keys, rotary.dim > 0 ? rotary.dim : dim, rotary);
  };
  llvm::SmallVector<StringRef> types = getBlockTypes(reader, key);
  if (types.empty() || reader.hasFailed())
    return read(scaling);
  if (keys.type.empty())
    return scaling.fail(types.front(), "a number or a string, since all blocks have the same rotary positions here,");
  scaling.accept({"full_attention", "sliding_attention"});
  if (!scaling.find(keys.type))
    return;
  JsonReader own = scaling.getObject(keys.type);
  read(own);
}

/// With YaRN, DeepSeek also multiplies the products of queries and keys by the square of mscale_all_dim's factor.
double mlir::moe::readLatentScale(JsonReader &reader, const AttentionSpec &attention) {
  double plain = 1 / std::sqrt(static_cast<double>(attention.headDim));
  StringRef key = getScalingKey(reader);
  if (!reader.find(key))
    return plain;
  double all = reader.getObject(key).getNumber("mscale_all_dim", kNotNegative, 0);
  double scale = all > 0 ? getYarnScale(attention.rotary->factor, all) : 1;
  return scale * scale * plain;
}
