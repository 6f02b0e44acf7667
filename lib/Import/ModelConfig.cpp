//===- ModelConfig.cpp - what a Hugging Face config says of its model -----===//

#include "moe/Import/ModelConfig.h"

#include "Family.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

llvm::ArrayRef<Family> mlir::moe::getFamilies() {
  static const llvm::SmallVector<Family, 0> families = [] {
    llvm::SmallVector<Family, 0> all;
    for (auto part : {getOtherFamilies(), getLlamaFamilies(), getDeepseekFamilies(), getRecentFamilies(),
                      getMixedFamilies(), getDenseFamilies()})
      all.append(part.begin(), part.end());
    return all;
  }();
  return families;
}

/// Finds the architecture that `name` is without a head, or with another one, like MixtralModel; empty: none.
static StringRef findOtherHead(StringRef name) {
  auto getStem = [](StringRef architecture) {
    StringRef stem = architecture.take_front(architecture.find("For"));
    stem.consume_back("Model");
    return stem;
  };
  for (StringRef known : getKnownArchitectures())
    if (getStem(known) == getStem(name))
      return known;
  return "";
}

/// Finds the known name that is most similar to `name`. Differences before "For.." count most.
static StringRef findNearest(StringRef name, llvm::ArrayRef<StringRef> known) {
  auto getDistance = [&](StringRef candidate) {
    StringRef stem = name.take_front(name.find("For")), other = candidate.take_front(candidate.find("For"));
    return 10 * stem.edit_distance_insensitive(other) + name.edit_distance(candidate);
  };
  return *std::ranges::min_element(known, {}, getDistance);
}

/// The first of the file's architectures; empty without one.
static StringRef getFirstName(const JsonReader &reader) {
  const llvm::json::Value *value = reader.find("architectures");
  const llvm::json::Array *names = value ? value->getAsArray() : nullptr;
  return names && !names->empty() ? names->front().getAsString().value_or("") : "";
}

/// Describes the names that are expected instead of `name`, which no family has.
static std::string describeKnown(StringRef name, llvm::ArrayRef<StringRef> known) {
  std::string text = "a name that docs/Models.md lists";
  return name.empty() ? text : text + ", of which \"" + findNearest(name, known).str() + "\" is the most similar,";
}

static bool hasName(llvm::ArrayRef<StringRef> names, const llvm::json::Value *name) {
  return name && name->getAsString() && llvm::is_contained(names, *name->getAsString());
}

/// Finds the family of an architecture. In transformers one class may be the model of several types, whose checkpoints
/// have other names (Sarvam). Null if there is none.
static const Family *findByArchitecture(const llvm::json::Value &name, const llvm::json::Value *type) {
  const Family *found = nullptr;
  for (const Family &family : getFamilies())
    if (hasName(family.architectures, &name) && (!found || hasName(family.modelTypes, type)))
      found = &family;
  return found;
}

/// Finds the family of the first known name under `architectures`, or of `model_type`.
static const Family *findFamily(JsonReader &reader) {
  const llvm::json::Value *type = reader.find("model_type");
  if (const llvm::json::Value *value = reader.find("architectures")) {
    const llvm::json::Array *names = value->getAsArray();
    if (!names) {
      reader.fail("architectures", "a list of strings");
      return nullptr;
    }
    for (const llvm::json::Value &name : *names)
      if (const Family *family = findByArchitecture(name, type))
        return family;
    for (const llvm::json::Value &name : *names)
      if (StringRef known = findOtherHead(name.getAsString().value_or("")); !known.empty()) {
        reader.fail("architectures", "\"" + known + "\", the same model with the head that computes logits,");
        return nullptr;
      }
  } else if (type) {
    for (const Family &family : getFamilies())
      if (hasName(family.modelTypes, type))
        return &family;
    reader.fail("model_type", describeKnown(type->getAsString().value_or(""), getKnownModelTypes()));
    return nullptr;
  }
  reader.fail("architectures", describeKnown(getFirstName(reader), getKnownArchitectures()));
  return nullptr;
}

static llvm::SmallVector<StringRef> collect(llvm::SmallVector<StringRef, 2> Family::*names) {
  llvm::SmallVector<StringRef> known;
  for (const Family &family : getFamilies())
    llvm::append_range(known, family.*names);
  return known;
}

llvm::SmallVector<StringRef> mlir::moe::getKnownArchitectures() { return collect(&Family::architectures); }
llvm::SmallVector<StringRef> mlir::moe::getKnownModelTypes() { return collect(&Family::modelTypes); }

/// Accepts checkpoints with weights in fewer bits. Loading converts them to numbers, and the graph stays the same.
static void readQuantization(JsonReader &reader) {
  if (!reader.find("quantization_config"))
    return;
  JsonReader quantization = reader.getObject("quantization_config");
  quantization.getChoice("quant_method", {"fp8", "mxfp4"});
  quantization.accept({"activation_scheme", "dequantize", "fmt", "ignored_layers", "modules_to_not_convert",
                       "scale_fmt", "weight_block_size"});
}

/// Describes the keys that are still unread after the whole model.
static std::optional<ConfigRemark> describeOtherKeys(llvm::ArrayRef<JsonReader::Key> keys, StringRef architecture) {
  if (keys.empty())
    return std::nullopt;
  std::string names;
  for (const JsonReader::Key &key : keys)
    names += names.empty() ? "'" + key.path + "'"
                           : llvm::formatv(", '{0}' ({1}:{2})", key.path, key.place.line, key.place.column).str();
  const char *noun = keys.size() == 1 ? "a key" : "keys";
  return ConfigRemark{llvm::formatv("{0}: expected {1} that MoePlan knows of {2}; the graph does not depend on {3}",
                                    names, noun, architecture, keys.size() == 1 ? "it" : "them"),
                      keys.front().place};
}

/// Reads the places of the sizes of a whole model's parts.
static void readPlaces(const JsonReader &reader, const Family &family, ModelConfig &config) {
  const ModelKeys &keys = family.modelKeys;
  config.attentionPlace = reader.getPlace(keys.heads);
  config.vocabularyPlace = reader.getPlace(keys.vocabulary);
  config.densePlace = reader.getPlace(keys.denseHidden.empty() ? family.layerKeys.expertHidden : keys.denseHidden);
}

/// Refuses a model if MoePlan lacks one of the parts that are asked for.
static bool checkParts(JsonReader &reader, const Family &family, bool whole) {
  StringRef key = reader.find("architectures") ? "architectures" : "model_type";
  if (!family.missingInLayers.empty())
    reader.fail(key, "another model, since MoePlan does not have " + family.missingInLayers + ",");
  else if (!family.missing.empty() && whole)
    reader.fail(key, "to be used for MoE layers only, without --whole-model, since MoePlan does not have " +
                         family.missing + ",");
  else if (family.layerKeys.experts.empty() && !whole)
    reader.fail(key, "a model with experts, or --whole-model for one without,");
  return !reader.hasFailed();
}

static StringRef getTextKey(const Family &family) {
  return family.nested.empty() ? StringRef("text_config") : family.nested;
}

/// Whether another object describes the text model. Models of all families may have one in a multimodal configuration.
static bool hasNestedText(const JsonReader &reader, const Family &family) { return reader.find(getTextKey(family)); }

/// Finds the object that describes the text model.
static JsonReader findText(JsonReader &reader, const Family &family) {
  if (!hasNestedText(reader, family))
    return reader;
  // Parts that are not text, and their tokens.
  reader.accept({"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id",
                 "image_token_index", "boi_token_index", "eoi_token_index", "media_placeholder_token_id",
                 "video_placeholder", "use_unified_vision_chunk", "ignore_index"});
  return reader.getObject(getTextKey(family));
}

/// Refuses an object with the sizes of a model that nothing has read.
static void checkNested(JsonReader &reader, llvm::ArrayRef<JsonReader::Key> otherKeys) {
  for (const JsonReader::Key &key : otherKeys) {
    const llvm::json::Value *value = reader.find(key.path);
    const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
    if (object && (object->get("hidden_size") || object->get("num_hidden_layers")))
      return reader.fail(key.path,
                         "no configuration of a model inside another, except for text_config and vision_config,");
  }
}

/// Place of the number of experts in the file, or of the hidden size.
static ConfigPlace findSizes(JsonReader &text, const Family &family) {
  const LayerKeys &keys = family.layerKeys;
  if (!keys.object.empty())
    return text.getObject(keys.object).getPlace(keys.experts);
  return text.getPlace(keys.experts.empty() ? keys.hidden : keys.experts);
}

llvm::Expected<ModelConfig> mlir::moe::parseModelConfig(StringRef file, StringRef fileName, bool whole) {
  llvm::Expected<JsonReader> reader = JsonReader::parse(file, fileName);
  if (!reader)
    return reader.takeError();
  const Family *family = findFamily(*reader);
  if (!family)
    return reader->takeError();

  ModelConfig config;
  config.architecture = family->architectures.front().str();
  config.family = family;
  config.fileName = fileName.str();
  if (!checkParts(*reader, *family, whole))
    return reader->takeError();
  JsonReader text = findText(*reader, *family);
  addClassDefaults(text, family->modelTypes.front());
  config.layer = readLayer(text, *family);
  if (reader->hasFailed())
    return reader->takeError();
  config.layerPlace = findSizes(text, *family);

  // The whole model is read even for its layers alone, since known keys are those that it reads.
  if (!family->missing.empty())
    return config;
  ModelSpec model = readModel(text, *family, config.layer);
  // The object around the text has this key in multimodal models.
  if (hasNestedText(*reader, *family))
    model.tiedHead = reader->getBool("tie_word_embeddings", false);
  readQuantization(*reader);
  // Keys of transformers' base class that mean nothing if they are off.
  for (StringRef key : {"add_cross_attention", "is_decoder", "tie_encoder_decoder", "tf_legacy_loss"})
    text.acceptIf(key, [](const llvm::json::Value &value) { return value.getAsBoolean() == false; });
  const std::vector<JsonReader::Key> otherKeys = reader->getOtherKeys(isHarmlessKey);
  checkNested(*reader, otherKeys);
  if (reader->hasFailed() && whole)
    return reader->takeError();
  if (reader->hasFailed())
    config.otherKeys = {(reader->getErrorText() + ", for a whole model; so other keys were not checked").str(),
                        reader->getErrorPlace()};
  else
    config.otherKeys = describeOtherKeys(otherKeys, config.architecture);
  if (whole) {
    config.model = std::move(model);
    readPlaces(text, *family, config);
  }
  return config;
}
