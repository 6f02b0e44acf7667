//===- PipelineLayout.cpp - Megatron's layouts of pipelines ---------------===//
//
// The grammar is that of megatron/core/transformer/pipeline_parallel_layer_layout.py, core_v0.15: X*N repeats a letter,
// (..)*N repeats the part in brackets, '|' begins a stage, and commas are ignored.
//
//===----------------------------------------------------------------------===//
#include "moe/Frameworks/MegatronJob.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;

/// Exceeds the number of blocks of any model.
static constexpr size_t longest = 100000;

/// Takes letters up to `end` out of `text`, and writes repeated ones out. Returns false if the text is no layout.
static bool expand(StringRef &text, char end, int depth, std::string &result) {
  constexpr int deepest = 20;
  while (!text.empty() && text.front() != end) {
    char letter = text.front();
    text = text.drop_front();
    std::string once(1, letter);
    if (letter == '(') {
      once.clear();
      if (depth == deepest || !expand(text, ')', depth + 1, once) || !text.consume_front(")"))
        return false;
    } else if (!StringRef("EtmL|, ").contains(letter)) {
      return false;
    }
    uint64_t times = 1;
    if (text.consume_front("*") && (text.consumeInteger(10, times) || times > longest))
      return false;
    for (uint64_t i = 0; i < times; ++i)
      if ((result += once).size() > longest)
        return false;
  }
  return true;
}

std::optional<SmallVector<int64_t>> mlir::moe::parsePipelineLayout(StringRef text) {
  std::string letters;
  if (!expand(text, '\0', 0, letters) || !text.empty())
    return std::nullopt;
  SmallVector<int64_t> blocks;
  for (StringRef stage : llvm::split(letters, '|'))
    blocks.push_back(static_cast<int64_t>(stage.count('t')));
  return blocks;
}

static std::string writeBlocks(int64_t count) {
  return count == 0 ? "" : count == 1 ? "t" : "t*" + std::to_string(count);
}

std::string mlir::moe::writePipelineLayout(ArrayRef<int64_t> blocks) {
  std::string text = "E" + writeBlocks(blocks.front());
  ArrayRef<int64_t> rest = blocks.drop_front();
  while (rest.size() > 1) {
    size_t alike = 1;
    while (alike + 1 < rest.size() && rest[alike] == rest.front())
      ++alike;
    text += "|";
    std::string stage = writeBlocks(rest.front());
    // The last of the equal stages needs no '|' behind it, since the next stage brings its own.
    if (alike > 1)
      text += "(" + stage + "|)*" + std::to_string(alike - 1);
    text += stage;
    rest = rest.drop_front(alike);
  }
  if (!rest.empty())
    text += "|" + writeBlocks(rest.front());
  return text + "L";
}
