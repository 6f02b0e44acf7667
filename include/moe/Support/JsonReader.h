//===- JsonReader.h - typed reads of JSON objects, with places --*- C++ -*-===//
//
// Reads the keys of JSON objects. An error about a key names its place, the expected value and the value that was
// found. The reader keeps the first error, and later reads return defaults. So callers need no checks between reads.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SUPPORT_JSONREADER_H
#define MOE_SUPPORT_JSONREADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir::moe {

/// A range of numbers.
struct NumberRange {
  double min;
  double max;
  bool withMin;
  llvm::StringLiteral text; ///< text for errors, `a number ..`

  bool contains(double number) const {
    return (withMin ? number >= min : number > min) && number <= max; // false for NaN
  }
};
/// Largest finite number. It excludes infinity, which a file may have as 1e999.
inline constexpr double kLargest = std::numeric_limits<double>::max();
inline constexpr NumberRange kPositive{0, kLargest, false, "a number greater than 0"};
inline constexpr NumberRange kNotNegative{0, kLargest, true, "a number of at least 0"};
inline constexpr NumberRange kFraction{0, 1, false, "a number greater than 0 and at most 1"};
inline constexpr NumberRange kAtMostOne{-kLargest, 1, true, "a number of at most 1"};

/// An object of a file. Readers of objects inside it share its file and its error.
class JsonReader {
public:
  /// Place in the file; line and column begin at 1.
  struct Place {
    unsigned line = 1;
    unsigned column = 1;
  };

  /// Makes a reader of the object that is the whole text. The text of an error is a complete diagnostic,
  /// `file:line:column: error: ..`. If the text is no JSON, it says that `format` was expected.
  /// `Infinity` and `NaN` are taken as Python writes them; a NaN is a value that no key may have.
  static llvm::Expected<JsonReader> parse(llvm::StringRef text, llvm::StringRef fileName,
                                          llvm::StringRef format = "JSON");

  /// Sets defaults for later reads: a key that this object lacks has its value in `values`, which must outlive the
  /// reader. A key that the file sets to null stays unset, unless the default is an object.
  void setDefaults(const llvm::json::Object &values) { defaults = &values; }
  /// Makes `alias` and `key` names of one key. It is an error if both have different values.
  void addAlias(llvm::StringRef alias, llvm::StringRef key);

  /// Value of `key`, or its default. Null if both are missing, or if the value is JSON null, which means an unset key.
  const llvm::json::Value *find(llvm::StringRef key) const;
  /// Whether the value, or the default, is JSON null. For keys in which null and missing have different meanings.
  bool isNull(llvm::StringRef key) const;
  /// Whether the file sets a key to null that has another default.
  bool unsetsDefault(llvm::StringRef key) const;

  // All getters require the key unless a default is given.

  /// An integer in [min, max].
  int64_t getInteger(llvm::StringRef key, int64_t min, int64_t max, std::optional<int64_t> defaultValue = std::nullopt);
  double getNumber(llvm::StringRef key, const NumberRange &range, std::optional<double> defaultValue = std::nullopt);
  bool getBool(llvm::StringRef key, std::optional<bool> defaultValue = std::nullopt);
  /// A string that is not empty.
  std::string getString(llvm::StringRef key, std::optional<llvm::StringRef> defaultValue = std::nullopt);
  /// Index in `accepted` of the string at `key`.
  size_t getChoice(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> accepted,
                   std::optional<size_t> defaultIndex = std::nullopt);
  JsonReader getObject(llvm::StringRef key);
  /// Elements of a list; empty if the key is missing.
  std::vector<JsonReader> getObjects(llvm::StringRef key);
  std::vector<double> getNumbers(llvm::StringRef key, const NumberRange &range);
  /// A list of lists of two numbers.
  std::vector<std::pair<double, double>> getPairs(llvm::StringRef key, const NumberRange &first,
                                                  const NumberRange &second);
  std::vector<int64_t> getIntegers(llvm::StringRef key, int64_t min, int64_t max);
  std::vector<std::string> getStrings(llvm::StringRef key);

  /// Marks keys as read if their values have no effect.
  void accept(llvm::ArrayRef<llvm::StringRef> keys) const;
  /// Marks a key as read if `hasNoEffect` holds for its value. Otherwise the key stays one that was not read.
  void acceptIf(llvm::StringRef key, llvm::function_ref<bool(const llvm::json::Value &value)> hasNoEffect) const;
  /// Fails if the object has a key that was not read.
  void refuseOtherKeys();

  /// A key of the file, as `a.b[2].c`, with its place.
  struct Key {
    std::string path;
    Place place;
  };
  /// Keys that were not read, in the order of the file: those of this object, and of objects inside it that have
  /// readers. Leaves out keys whose values mean the same as a missing key (null, an empty object or list, this object's
  /// default), and keys whose last part satisfies `isHarmless`.
  std::vector<Key> getOtherKeys(llvm::function_ref<bool(llvm::StringRef key)> isHarmless) const;

  /// Keeps the first error: `'path.key': expected <expected> but got <the value>`. `key` may be an element, `key[3]`.
  void fail(llvm::StringRef key, const llvm::Twine &expected);
  bool hasFailed() const { return !file->error.empty(); }
  /// Takes the error as a complete diagnostic.
  llvm::Error takeError();
  llvm::StringRef getErrorText() const { return file->error; }
  Place getErrorPlace() const { return file->errorPlace; }

  /// Place of `key`, or of the object if the key is missing.
  Place getPlace(llvm::StringRef key) const;

private:
  struct File {
    std::string name, text;
    llvm::json::Value root = nullptr;
    std::string error; ///< text without its place; empty if there is no error
    Place errorPlace;
    /// Keys that were read, by object with a reader.
    std::map<const llvm::json::Object *, llvm::StringSet<>> asked;
  };

  JsonReader(std::shared_ptr<File> file, const llvm::json::Object *object, std::string path)
      : file(std::move(file)), object(object), path(std::move(path)) {
    this->file->asked.try_emplace(object);
  }
  /// Name of `key` in the file, which may be an alias.
  llvm::StringRef getName(llvm::StringRef key) const;
  const llvm::json::Value *findDefault(llvm::StringRef key) const;
  /// Value or default of `key`, which may be JSON null. A null pointer if both are missing.
  const llvm::json::Value *lookUp(llvm::StringRef key) const;
  std::string getPath(llvm::StringRef key) const;
  /// Keys of the file with these paths, in its order.
  std::vector<Key> findKeys(const llvm::StringSet<> &paths) const;

  std::shared_ptr<File> file;
  const llvm::json::Object *object;
  std::string path; ///< path of the object; empty for the root
  const llvm::json::Object *defaults = nullptr;
  llvm::StringMap<std::string> aliases; ///< other names of keys
};

/// Makes a complete diagnostic, `file:line:column: error: ..`.
llvm::Error makeErrorAt(llvm::StringRef fileName, JsonReader::Place place, const llvm::Twine &message);

} // namespace mlir::moe

#endif // MOE_SUPPORT_JSONREADER_H
