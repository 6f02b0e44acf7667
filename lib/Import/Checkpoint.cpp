//===- Checkpoint.cpp - parameters and published checkpoints --------------===//

#include "Family.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;

static const Rule *find(ArrayRef<Rule> rules, StringRef parameter) {
  const Rule *rule = llvm::find_if(rules, [&](const Rule &candidate) { return candidate.parameter == parameter; });
  return rule == rules.end() ? nullptr : rule;
}

/// Finds the rule for `parameter` and the prefix of its tensors' names. Takes the block from the parameter's name.
static std::pair<const Rule *, std::string> findRule(const CheckpointNames &names, int64_t encoderBlocks,
                                                     StringRef parameter) {
  int64_t block;
  StringRef name = parameter;
  if (!name.consume_front("layer") || name.consumeInteger(10, block) || !name.consume_front("."))
    return {find(names.ofModel, parameter), ""};
  bool isDecoder = !names.decoderBlock.empty() && block >= encoderBlocks;
  auto [before, after] = (isDecoder ? names.decoderBlock : names.block).split("{i}");
  std::string prefix = (before + llvm::Twine(isDecoder ? block - encoderBlocks : block) + after).str();
  for (ArrayRef<Rule> rules : isDecoder ? names.ofDecoderBlock : names.ofBlock)
    if (const Rule *rule = find(rules, name))
      return {rule, prefix};
  return {nullptr, ""};
}

/// Finds the weights that the bias `parameter` belongs to; empty if it is no bias.
static std::string getWeights(StringRef parameter) {
  constexpr std::pair<StringRef, StringRef> ends[] = {
      {"_bias", ""}, {".beta", ".gamma"}, {".b1", ".w1"}, {".b2", ".w2"}};
  for (auto [bias, weights] : ends)
    if (parameter.consume_back(bias))
      return (parameter + weights).str();
  return "";
}

DictionaryAttr mlir::moe::getSource(Builder &builder, const CheckpointNames &names, const ModelSpec &model,
                                    StringRef parameter, RankedTensorType type) {
  auto blocksOfEncoder = static_cast<int64_t>(model.blocks.size());
  auto [rule, prefix] = findRule(names, blocksOfEncoder, parameter);
  const bool isBias = !rule;
  if (isBias)
    std::tie(rule, prefix) = findRule(names, blocksOfEncoder, getWeights(parameter));
  if (!rule)
    return {};
  SmallVector<Attribute> tensors;
  for (StringRef tensor : {rule->tensor, rule->second})
    if (!tensor.empty())
      tensors.push_back(
          builder.getStringAttr(prefix + (isBias ? tensor.drop_back(StringRef("weight").size()) + "bias" : tensor)));
  SmallVector<NamedAttribute> source = {builder.getNamedAttr("tensors", builder.getArrayAttr(tensors))};
  auto add = [&](bool present, StringRef key, Attribute value) {
    if (present)
      source.push_back(builder.getNamedAttr(key, value));
  };
  auto getSize = [&](int64_t (*size)(const AttentionSpec &)) { return size ? size(model.attention) : 0; };
  int64_t blocks = rule->ofHeads ? model.attention.heads : 1, columns = type.getShape().back() / blocks;
  int64_t begin = rule->part * columns + getSize(rule->before);
  int64_t of = rule->parts * columns + getSize(rule->before) + getSize(rule->after);
  bool isInside = !names.prefix.empty() && StringRef(prefix + rule->tensor.str()).starts_with(names.prefix);
  add(isInside, "prefix", builder.getStringAttr(names.prefix));
  add(rule->transpose && !isBias, "transpose", builder.getUnitAttr());
  add(rule->tensor.contains("{e}") || rule->stacked > 0, "experts", builder.getI64IntegerAttr(type.getDimSize(0)));
  add(of > columns, "begin", builder.getI64IntegerAttr(begin));
  add(of > columns, "of", builder.getI64IntegerAttr(of));
  add(blocks > 1, "blocks", builder.getI64IntegerAttr(blocks));
  add(rule->stacked > 0, "stacked", builder.getI64IntegerAttr(rule->stacked));
  add(rule->halves, "halves", builder.getUnitAttr());
  add(rule->isRow, "row", builder.getUnitAttr());
  return builder.getDictionaryAttr(source);
}
