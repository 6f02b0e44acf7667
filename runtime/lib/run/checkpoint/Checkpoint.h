//===- Checkpoint.h - safetensors files as models are published in them ---===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINT_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINT_H

#include "run/checkpoint/Pieces.h"
#include "run/checkpoint/Quantised.h"
#include "run/checkpoint/ShardedCheckpoint.h"

#include <ostream>
#include <set>

namespace moert::run {

/// Names of a folder's checkpoint: one file, or the index of several.
constexpr const char *kOneFileName = "model.safetensors", *kIndexName = "model.safetensors.index.json";

/// A file of tensors, or several files and an index that names the file of each tensor. Only headers of files are kept.
class Checkpoint {
public:
  struct File {
    std::string name; ///< name in its folder
    SafetensorsFile tensors;
  };

  /// Opens a file, an index ("*.index.json"), a folder with "model.safetensors.index.json" or "model.safetensors", a
  /// folder of checkpoints of training (run/checkpoint/CheckpointFolder.h), or one of these.
  Status open(const std::string &path);

  /// Drops `prefix` from names from now on, if no tensor of the checkpoint has a name with it, and one of `tensors`,
  /// whose names have it, is there without it.
  void leaveOut(const std::string &prefix, const std::set<std::string> &tensors);
  /// Name of `tensor` in the checkpoint.
  std::string nameOf(const std::string &tensor) const;

  /// Entry of a tensor; null if there is no such tensor.
  const SafetensorsFile::Entry *find(const std::string &tensor) const;
  /// Whether the checkpoint has the tensor, in plain or quantised form.
  bool has(const std::string &tensor) const { return find(tensor) || isQuantised(tensor); }
  bool isQuantised(const std::string &tensor) const;
  /// Checks that the checkpoint has the piece's tensor in its shape, or [experts, R, C] as [experts, C, R], and in a
  /// type that can be converted or a known kind of quantisation.
  Status check(const Piece &piece, const std::string &argument);
  /// Places of a checked piece in the file: itself, or pieces of the exchanged stack.
  std::vector<Piece> stored(const Piece &piece) const;
  /// Reads the tensor of a checked piece, some rows at a time.
  Status read(const Piece &piece, const Tensor &argument);
  Status readWhole(const Value &value, Tensor &tensor);

  const std::string &path() const { return where; }
  bool isOneFile() const { return index.empty() && !isFolder; }
  std::vector<File> &files() { return shards; }
  /// Name of the index in its folder, and its text; empty if there is none.
  const std::string &indexName() const { return index; }
  const std::string &indexText() const { return text; }
  /// Names of all tensors, with the number of their file.
  const std::map<std::string, size_t> &tensors() const { return places; }

private:
  Status openIndex(const std::string &folder);
  Status openSharded(const std::string &folder);
  bool isExchanged(const Piece &piece) const;
  Status checkSquare(const Piece &piece);
  Status addPlaces(const std::map<std::string, std::string> &weightMap);
  Status describe(const Piece &piece, Quantised &quantised) const;
  Status readRows(const Quantised &quantised, const RowBlock &block);
  Status readBytes(const std::string &tensor, int64_t first, int64_t count, char *bytes);
  SafetensorsFile &fileOf(const std::string &tensor) { return shards[places.at(nameOf(tensor))].tensors; }

  std::string where, index, text;
  std::string exchanged, square; ///< one checked stack of experts of each kind
  std::string leftOut;           ///< prefix of names in plans that names of the checkpoint lack
  bool isFolder = false;
  QuantisationConfig quantisation;
  std::vector<File> shards;
  std::map<std::string, size_t> places; ///< number of each tensor's file
  std::optional<ShardedCheckpoint> sharded;
  std::map<std::string, SafetensorsFile::Entry> ofSharded; ///< tensors of `sharded`, as if one file had them
};

/// First few of `names` in quotes, for a message.
std::string firstNames(const std::vector<std::string> &names);

/// Number of rows to have in memory at a time, at least one.
int64_t rowsOfBlock(int64_t rowBytes);

/// Files that the options --load name: files of arguments by their own names, and checkpoints.
class Loads {
public:
  /// Opens the files. A file is a checkpoint if it has a tensor that the source of an argument names. Everything in
  /// another file must be an argument.
  Status open(const std::vector<std::string> &paths, const std::vector<Value> &arguments);

  /// Reads a value by its own name from the first file that has it, or through its source from the first checkpoint.
  /// Sets `found` if there is any.
  Status read(const Value &value, Tensor &tensor, bool &found);
  /// Whether any file has the value, or some of its tensors.
  bool has(const Value &value) { return fileOf(value.name) || checkpointOf(value); }
  /// First checkpoint that has a tensor of the value; null if there is none.
  Checkpoint *checkpointOf(const Value &value);

  /// Reports how many tensors of the checkpoints `arguments` do not use, and the first of them.
  void reportUnused(std::ostream &log) const;
  bool empty() const { return all.empty(); }
  /// Text of all paths, "'a', 'b'".
  std::string paths() const;
  std::vector<Checkpoint *> checkpoints();
  /// Whether the value was read through its source, from a checkpoint.
  bool isFromCheckpoint(const std::string &name) const { return throughSource.count(name) > 0; }

private:
  /// First file that has an argument by its own name.
  Checkpoint *fileOf(const std::string &name);
  Status checkNames(const Checkpoint &file, const std::vector<Value> &arguments) const;

  std::vector<Checkpoint> all;
  std::vector<bool> isCheckpoint; ///< whether each file is a checkpoint
  std::set<std::string> wanted;   ///< names of arguments and of the tensors of their sources
  std::set<std::string> throughSource;
};

/// Parameter whose f32 master copy is `value`; null if there is none. The optimizer changes the copy instead of the
/// parameter.
const Value *masterOf(const Value &value, const std::vector<Value> &arguments);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINT_H
