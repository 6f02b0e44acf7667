//===- ReadLayer.cpp - the MoE layer of a model ---------------------------===//

#include "Family.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// Reads a list with the same number for each block.
static bool readUniform(JsonReader &reader, StringRef key, int64_t max, int64_t &value) {
  const llvm::json::Value *found = reader.find(key);
  if (!found || !found->getAsArray() || found->getAsArray()->empty())
    return false;
  std::vector<int64_t> values = reader.getIntegers(key, 1, max);
  value = values.front();
  if (!llvm::all_equal(values))
    reader.fail(key, "the same number for all blocks");
  return true;
}

void mlir::moe::readSize(JsonReader &reader, StringRef key, int64_t max, int64_t &value) {
  if (!key.empty() && !readUniform(reader, key, max, value))
    value = reader.getInteger(key, 1, max, value > 0 ? std::optional(value) : std::nullopt);
}

void mlir::moe::readFlag(JsonReader &reader, StringRef key, bool &value) {
  if (!key.empty())
    value = reader.getBool(key, value);
}

void mlir::moe::readNumber(JsonReader &reader, StringRef key, const NumberRange &range, double &value) {
  if (key.empty())
    return;
  if (reader.unsetsDefault(key))
    reader.fail(key, "a number");
  value = reader.getNumber(key, range, value);
}

void mlir::moe::checkFixedKeys(JsonReader &reader, const FixedKeys &keys) {
  for (StringRef key : keys.mustBeFalse)
    if (reader.getBool(key, false))
      reader.fail(key, "false");
  for (StringRef key : keys.mustBeOne)
    reader.getInteger(key, 1, 1, 1);
  for (auto [key, value] : keys.mustBe)
    reader.getChoice(key, {value}, 0);
  reader.accept(keys.ignored);
  for (auto [key, json] : keys.ignoredAs)
    reader.acceptIf(key,
                    [&](const llvm::json::Value &value) { return value == llvm::cantFail(llvm::json::parse(json)); });
}

static void readSizes(JsonReader &reader, const LayerKeys &keys, LayerSpec &layer) {
  if (keys.expansion > 0)
    layer.expertHidden = keys.expansion * layer.hidden;
  readSize(reader, keys.expertHidden, kMaxSize, layer.expertHidden);
  if (keys.experts.empty())
    return;
  readSize(reader, keys.experts, kMaxExperts, layer.experts);
  readSize(reader, keys.topK, layer.experts, layer.topK);
  if (layer.topK > kMaxTopK)
    reader.fail(keys.topK, "at most " + Twine(kMaxTopK) + ", MoePlan's limit,");
}

static void readActivation(JsonReader &reader, const LayerKeys &keys, LayerSpec &layer) {
  if (keys.activation.empty() || !reader.find(keys.activation))
    return;
  auto names = llvm::map_to_vector(keys.activations, [](const ActivationName &known) { return known.first; });
  layer.activation = keys.activations[reader.getChoice(keys.activation, names)].second;
}

/// Reads shared experts, which together are one expert of a multiple of the inner size.
static void readShared(JsonReader &reader, const LayerKeys &keys, LayerSpec &layer) {
  readSize(reader, keys.sharedHidden, kMaxSize, layer.sharedHidden);
  if (!keys.sharedCount.empty()) {
    int64_t most = kMaxSize / layer.expertHidden;
    layer.sharedHidden = reader.getInteger(keys.sharedCount, 0, most, 0) * layer.expertHidden;
  }
}

static void readGroups(JsonReader &reader, const GroupKeys &keys, const LayerKeys &layerKeys, LayerSpec &layer) {
  bool isGrouped = keys.onlyKey.empty() || reader.getChoice(keys.onlyKey, {keys.otherValue, keys.onlyValue}, 0) == 1;
  if (!isGrouped) {
    reader.accept({keys.groups, keys.topGroups});
    layer.expertGroups = layer.topGroups = 1;
    return;
  }
  if (keys.fitsFewExperts && !reader.find(keys.groups) && layer.experts < layer.expertGroups * keys.minSize)
    layer.expertGroups = layer.topGroups = 1;
  readSize(reader, keys.groups, layer.experts, layer.expertGroups);
  readSize(reader, keys.topGroups, layer.expertGroups, layer.topGroups);
  if (layer.experts % layer.expertGroups != 0)
    return reader.fail(keys.groups, "a divisor of '" + layerKeys.experts + "', " + Twine(layer.experts) + ",");
  int64_t size = layer.experts / layer.expertGroups;
  if (layer.expertGroups > 1 && size < keys.minSize)
    return reader.fail(keys.groups,
                       "groups of at least " + Twine(keys.minSize) + " of " + Twine(layer.experts) + " experts");
  if (layer.topGroups * size < layer.topK)
    return reader.fail(keys.topGroups, "groups of " + Twine(size) + " experts that hold '" + layerKeys.topK + "', " +
                                           Twine(layer.topK) + ", together");
  layer.groupScore = layer.expertGroups > 1 ? keys.score : GroupScore::max;
}

LayerSpec mlir::moe::readLayer(JsonReader &model, const Family &family) {
  const LayerKeys &keys = family.layerKeys;
  LayerSpec layer = family.layer;
  readSize(model, keys.hidden, kMaxSize, layer.hidden);
  JsonReader reader = keys.object.empty() ? model : model.getObject(keys.object);
  readSizes(reader, keys, layer);
  readActivation(reader, keys, layer);
  readShared(reader, keys, layer);
  checkFixedKeys(reader, keys.fixed);
  if (keys.experts.empty())
    return layer;
  if (keys.groups)
    readGroups(reader, *keys.groups, keys, layer);
  readFlag(reader, keys.renormalize, layer.renormalize);
  readNumber(reader, keys.scale, kPositive, layer.routingScale);
  readFlag(reader, keys.gateBias, layer.gateBias);
  if (!keys.capacityFactor.empty() && reader.find(keys.capacityFactor))
    layer.capacityFactor = reader.getNumber(keys.capacityFactor, kPositive);
  if (keys.readMore)
    keys.readMore(reader, layer);
  return layer;
}
