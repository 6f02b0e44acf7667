//===- JsonReader.h - typed reads of JSON objects, with places --*- C++ -*-===//
//
// Reads the keys of JSON objects, and says of each that does not fit where it stands, what was expected and what is
// there. The first error is kept and later reads return defaults, so that readers need no checks between reads.
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

/// Which numbers fit.
struct NumberRange {
  double min;
  double max;
  bool withMin;
  llvm::StringLiteral text; ///< `a number ..`

  bool contains(double number) const {
    return (withMin ? number >= min : number > min) && number <= max; // false for NaN
  }
};
/// Infinity, which JSON writes as 1e999, is never a number that fits.
inline constexpr double kLargest = std::numeric_limits<double>::max();
inline constexpr NumberRange kPositive{0, kLargest, false, "a number greater than 0"};
inline constexpr NumberRange kNotNegative{0, kLargest, true, "a number of at least 0"};
inline constexpr NumberRange kFraction{0, 1, false, "a number greater than 0 and at most 1"};
inline constexpr NumberRange kAtMostOne{-kLargest, 1, true, "a number of at most 1"};

/// One object of a file. Readers of the objects inside it share its file and its error.
class JsonReader {
public:
  /// Where something stands in the file, one-based.
  struct Place {
    unsigned line = 1;
    unsigned column = 1;
  };

  /// A reader of the text's one object. The error is a complete diagnostic, `file:line:column: error: ..`; of text that
  /// is no JSON it says that `format` was expected.
  static llvm::Expected<JsonReader> parse(llvm::StringRef text, llvm::StringRef fileName,
                                          llvm::StringRef format = "JSON");

  /// From here on a key that this object lacks has its value in `values`, which must outlive the reader. A key that the
  /// file sets to null stays unset, unless the default is an object.
  void setDefaults(const llvm::json::Object &values) { defaults = &values; }
  /// From here on `alias` and `key` are names of one key. Both with different values are an error.
  void addAlias(llvm::StringRef alias, llvm::StringRef key);

  /// The value of `key`, or its default; null where both are missing, or where the value is JSON null, which Hugging
  /// Face writes for an unset key.
  const llvm::json::Value *find(llvm::StringRef key) const;
  /// Whether the value, or else the default, is null, where that means something else than a missing key.
  bool isNull(llvm::StringRef key) const;

  // Each getter requires the key unless a default is given.

  /// An integer in [min, max].
  int64_t getInteger(llvm::StringRef key, int64_t min, int64_t max, std::optional<int64_t> defaultValue = std::nullopt);
  double getNumber(llvm::StringRef key, const NumberRange &range, std::optional<double> defaultValue = std::nullopt);
  bool getBool(llvm::StringRef key, std::optional<bool> defaultValue = std::nullopt);
  /// Not empty.
  std::string getString(llvm::StringRef key, std::optional<llvm::StringRef> defaultValue = std::nullopt);
  /// One of the strings `accepted`, by its index there.
  size_t getChoice(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> accepted,
                   std::optional<size_t> defaultIndex = std::nullopt);
  JsonReader getObject(llvm::StringRef key);
  /// The elements of a list; none where the key is missing.
  std::vector<JsonReader> getObjects(llvm::StringRef key);
  std::vector<double> getNumbers(llvm::StringRef key, const NumberRange &range);
  /// A list of lists of two numbers.
  std::vector<std::pair<double, double>> getPairs(llvm::StringRef key, const NumberRange &first,
                                                  const NumberRange &second);
  std::vector<int64_t> getIntegers(llvm::StringRef key, int64_t min, int64_t max);
  std::vector<std::string> getStrings(llvm::StringRef key);

  /// Marks keys as asked for, whose values make no difference.
  void accept(llvm::ArrayRef<llvm::StringRef> keys) const;
  /// Fails where the object has a key that nobody asked for.
  void refuseOtherKeys();

  /// A key of the file, `a.b[2].c`, and where it stands.
  struct Key {
    std::string path;
    Place place;
  };
  /// The keys that nobody asked for, in the order of the file: those of this object, and of the objects inside it that
  /// readers were made for. Without those whose values say nothing (null, an empty object, an empty list, this
  /// object's default), and without those whose last part `isHarmless` accepts.
  std::vector<Key> getOtherKeys(llvm::function_ref<bool(llvm::StringRef key)> isHarmless) const;

  /// Keeps the first error: `'path.key': expected <expected> but got <the value>`, at the key's place. `key` may be an
  /// element of a list, `key[3]`.
  void fail(llvm::StringRef key, const llvm::Twine &expected);
  bool hasFailed() const { return !file->error.empty(); }
  /// The error as a complete diagnostic, and its parts.
  llvm::Error takeError();
  llvm::StringRef getErrorText() const { return file->error; }
  Place getErrorPlace() const { return file->errorPlace; }

  /// The place of `key`, or that of the object where the key is missing.
  Place getPlace(llvm::StringRef key) const;

private:
  struct File {
    std::string name, text;
    llvm::json::Value root = nullptr;
    std::string error; ///< without its place; empty: there is none
    Place errorPlace;
    /// Of each object that a reader was made for, the keys that were asked for.
    std::map<const llvm::json::Object *, llvm::StringSet<>> asked;
  };

  JsonReader(std::shared_ptr<File> file, const llvm::json::Object *object, std::string path)
      : file(std::move(file)), object(object), path(std::move(path)) {
    this->file->asked.try_emplace(object);
  }
  /// The name under which the file gives `key`, which may be an alias.
  llvm::StringRef getName(llvm::StringRef key) const;
  const llvm::json::Value *findDefault(llvm::StringRef key) const;
  /// The value or the default of `key`, which may be JSON null; a null pointer where both are missing.
  const llvm::json::Value *lookUp(llvm::StringRef key) const;
  std::string getPath(llvm::StringRef key) const;
  /// The list at `key`; null and an error where it is none, null alone where it is missing.
  const llvm::json::Array *getArray(llvm::StringRef key, llvm::StringRef expected);
  void failAt(llvm::StringRef key, const llvm::json::Value *value, const llvm::Twine &expected);

  std::shared_ptr<File> file;
  const llvm::json::Object *object;
  std::string path; ///< of the object; empty for the root
  const llvm::json::Object *defaults = nullptr;
  llvm::StringMap<std::string> aliases; ///< of keys
};

} // namespace mlir::moe

#endif // MOE_SUPPORT_JSONREADER_H
