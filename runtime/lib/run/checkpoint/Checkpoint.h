//===- Checkpoint.h - safetensors files as models are published in them ---===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINT_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINT_H

#include "run/checkpoint/CheckpointLayout.h"
#include "run/checkpoint/Pieces.h"
#include "run/checkpoint/Quantised.h"
#include "run/checkpoint/ShardedCheckpoint.h"

#include <ostream>
#include <set>

namespace moert::run {

/// One file of tensors, or several and an index that says which file has which. Of the files only headers are kept.
class Checkpoint {
public:
  struct File {
    std::string name; ///< in its folder
    SafetensorsFile tensors;
  };

  /// `path` names a file, an index ("*.index.json"), a folder that has "model.safetensors.index.json" or
  /// "model.safetensors", or a folder of checkpoints of training (run/checkpoint/CheckpointFolder.h) or one of these.
  Status open(const std::string &path);

  /// From here on names that begin with `prefix` are those without it, if no tensor has a name with it and one of
  /// `tensors`, names with it, is there without it.
  void leaveOut(const std::string &prefix, const std::set<std::string> &tensors);
  /// What the checkpoint calls `tensor`.
  std::string nameOf(const std::string &tensor) const;

  /// Null where there is no such tensor.
  const SafetensorsFile::Entry *find(const std::string &tensor) const;
  /// Whether the tensor is there, as it is or quantised.
  bool has(const std::string &tensor) const { return find(tensor) || isQuantised(tensor); }
  bool isQuantised(const std::string &tensor) const;
  /// An error unless there is the piece's tensor in its shape, or [experts, R, C] as [experts, C, R], and of a type
  /// that can be converted or a kind of quantisation that is known.
  Status check(const Piece &piece, const std::string &argument);
  /// A piece that was checked, where the file has it: itself, or pieces of the exchanged stack.
  std::vector<Piece> stored(const Piece &piece) const;
  /// Reads the tensor of a piece that was checked, some rows at a time.
  Status read(const Piece &piece, const Tensor &argument);
  Status readWhole(const Value &value, Tensor &tensor);

  const std::string &path() const { return where; }
  bool isOneFile() const { return index.empty() && !isFolder; }
  std::vector<File> &files() { return shards; }
  /// The index's name in its folder and its text; empty where there is none.
  const std::string &indexName() const { return index; }
  const std::string &indexText() const { return text; }
  /// Names of all tensors.
  const std::map<std::string, size_t> &tensors() const { return places; }

private:
  Status openIndex(const std::string &folder);
  Status openSharded(const std::string &folder);
  Status openFile(const std::string &folder, const std::string &name);
  bool isExchanged(const Piece &piece) const;
  Status checkSquare(const Piece &piece);
  Status addPlaces(const std::map<std::string, std::string> &weightMap);
  Status describe(const Piece &piece, Quantised &quantised) const;
  Status readRows(const Quantised &quantised, const RowBlock &block);
  Status readBytes(const std::string &tensor, int64_t first, int64_t count, char *bytes);
  SafetensorsFile &fileOf(const std::string &tensor) { return shards[places.at(nameOf(tensor))].tensors; }

  std::string where, index, text;
  std::string exchanged, square; ///< stacks of experts that were checked, one each
  std::string leftOut;           ///< what names that plans know begin with, but no name of the checkpoint
  bool isFolder = false;
  QuantisationConfig quantisation;
  std::vector<File> shards;
  std::map<std::string, size_t> places; ///< by tensor: which of the files has it
  std::optional<ShardedCheckpoint> sharded;
  std::map<std::string, SafetensorsFile::Entry> ofSharded; ///< its tensors, as if one file had them
};

/// The first of `names` in quotes, for a message.
std::string firstNames(const std::vector<std::string> &names);

/// At most so many bytes of a tensor are in memory, but at least a row.
int64_t rowsOfBlock(int64_t rowBytes);

/// What the options --load name: files of arguments by their own names, and checkpoints.
class Loads {
public:
  /// A checkpoint is what has a tensor that some argument's source names; everything in any other file must be an
  /// argument.
  Status open(const std::vector<std::string> &paths, const std::vector<Value> &arguments);

  /// By its own name from the first file that has it, else through its source from the first checkpoint; `found` says
  /// whether there was any.
  Status read(const Value &value, Tensor &tensor, bool &found);
  /// Whether any file has the value, or some of the tensors that it is made of.
  bool has(const Value &value) { return fileOf(value.name) || checkpointOf(value); }
  /// The first checkpoint that has a tensor of the value; null where there is none.
  Checkpoint *checkpointOf(const Value &value);

  /// Says how many tensors of the checkpoints `arguments` have no use for, and the first of them.
  void reportUnused(std::ostream &log) const;
  bool empty() const { return all.empty(); }
  /// "'a', 'b'".
  std::string paths() const;
  std::vector<Checkpoint *> checkpoints();
  /// Whether the value was read through its source.
  bool isFromCheckpoint(const std::string &name) const { return throughSource.count(name) > 0; }

private:
  /// The first file that has an argument by its own name.
  Checkpoint *fileOf(const std::string &name);
  Status checkNames(const Checkpoint &file, const std::vector<Value> &arguments) const;

  std::vector<Checkpoint> all;
  std::vector<bool> isCheckpoint; ///< by file
  std::set<std::string> wanted;   ///< arguments' names, and tensors of their sources
  std::set<std::string> throughSource;
};

/// The parameter of which `value` is the f32 copy that an optimizer changes in its place; null where it is none.
const Value *masterOf(const Value &value, const std::vector<Value> &arguments);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINT_H
