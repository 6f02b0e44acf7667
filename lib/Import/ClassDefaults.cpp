//===- ClassDefaults.cpp - what holds for keys that a config lacks --------===//

#include "Family.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir::moe;
using llvm::StringRef;

namespace {

/// JSON texts of one configuration class: `aliases` has other names of keys, `values` the defaults.
struct ClassText {
  StringRef modelType, aliases, values;
};

constexpr ClassText kClasses[] = {
#include "ClassDefaults.inc"
};

struct ClassDefaults {
  llvm::json::Object aliases, values;
};

} // namespace

static llvm::json::Object parseObject(StringRef text) {
  return std::move(*llvm::cantFail(llvm::json::parse(text)).getAsObject());
}

/// Returns the parsed texts of all classes, which stay alive, since readers keep pointers to them.
static const llvm::StringMap<ClassDefaults> &getClasses() {
  static const llvm::StringMap<ClassDefaults> classes = [] {
    llvm::StringMap<ClassDefaults> parsed;
    for (const ClassText &text : kClasses)
      parsed[text.modelType] = {parseObject(text.aliases), parseObject(text.values)};
    return parsed;
  }();
  return classes;
}

void mlir::moe::addClassDefaults(JsonReader &reader, StringRef modelType) {
  auto found = getClasses().find(modelType);
  if (found == getClasses().end())
    return;
  reader.setDefaults(found->second.values);
  for (const auto &[alias, key] : found->second.aliases)
    reader.addAlias(alias, *key.getAsString());
}

/// Keys that do not affect what transformers' models compute, for all families; several on a line.
static constexpr StringRef kHarmless[] = {
    // Names, versions and the place of the code.
    "_name_or_path name_or_path architectures model_type auto_map transformers_version _commit_hash tokenizer_class",
    // The type of stored weights; --dtype gives the graph's.
    "dtype torch_dtype torchscript use_bfloat16",
    // Results of a call, caches, and choices between equal implementations.
    "is_encoder_decoder use_cache return_dict output_hidden_states output_attentions return_legacy_cache",
    "cache_implementation",
    "attn_implementation _attn_implementation _attn_implementation_autoset experts_implementation",
    "_experts_implementation chunk_size_feed_forward gradient_checkpointing pretraining_tp ep_size",
    // Initial weights, which moe-run chooses.
    "initializer_range initializer_factor",
    // Ids of tokens that only generation and tokenizers use. They exclude pad_token_id.
    "bos_token_id eos_token_id sep_token_id decoder_start_token_id forced_bos_token_id forced_eos_token_id",
    "bad_words_ids suppress_tokens begin_suppress_tokens",
    // Generation.
    "max_length min_length max_new_tokens min_new_tokens do_sample early_stopping temperature top_k top_p min_p",
    "typical_p epsilon_cutoff eta_cutoff num_beams num_beam_groups diversity_penalty repetition_penalty",
    "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores",
    "return_dict_in_generate remove_invalid_values exponential_decay_length_penalty prefix task_specific_params",
    // Heads for other tasks.
    "id2label label2id num_labels problem_type finetuning_task classifier_dropout",
    // The longest sequence of training. Learned positions read it, and so do rotary ones that depend on it.
    "max_position_embeddings model_max_length"};

bool mlir::moe::isHarmlessKey(StringRef key) {
  static const llvm::StringSet<> known = [] {
    llvm::StringSet<> set;
    for (StringRef line : kHarmless)
      for (StringRef name : llvm::split(line, ' '))
        set.insert(name);
    return set;
  }();
  return known.contains(key);
}
