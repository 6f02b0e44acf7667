//===- ConfigReader.h - typed reads of a JSON object, with places ---------===//
//
// Reads the keys of one JSON object, and says of each that does not fit where it stands, what was expected and what is
// there. The first error is kept and later reads return defaults, so that readers need no checks between reads.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_IMPORT_CONFIGREADER_H
#define MOE_LIB_IMPORT_CONFIGREADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace mlir::moe {

class ConfigReader {
public:
  /// Where something stands in the file, one-based.
  struct Place {
    unsigned line = 1;
    unsigned column = 1;
  };

  static llvm::Expected<ConfigReader> parse(llvm::StringRef text, llvm::StringRef fileName);

  /// The value of `key`; null where it is missing or JSON null, which Hugging Face writes for an unset key.
  const llvm::json::Value *find(llvm::StringRef key) const;

  /// An integer in [min, max]; required without a default.
  int64_t getInteger(llvm::StringRef key, int64_t min, int64_t max, std::optional<int64_t> defaultValue = std::nullopt);
  /// A finite number > 0.
  double getPositive(llvm::StringRef key, double defaultValue);
  bool getBool(llvm::StringRef key, bool defaultValue);
  /// One of the strings `accepted`, by its index there.
  size_t getChoice(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> accepted, size_t defaultIndex);

  /// Keeps the first error: `'key': expected <expected> but got <the value>`, at the key's place.
  void fail(llvm::StringRef key, const llvm::Twine &expected);
  bool hasFailed() const { return !error.empty(); }
  llvm::Error takeError();

  /// The place of `key`, or that of the object where the key is missing.
  Place getPlace(llvm::StringRef key) const;

private:
  ConfigReader(llvm::StringRef fileName) : fileName(fileName) {}
  /// Finds the places of the top-level keys in `text`, valid JSON or not. Returns how deep its brackets nest.
  unsigned locateKeys(llvm::StringRef text);
  llvm::Error makeError(Place place, const llvm::Twine &message) const;

  std::string fileName;
  llvm::json::Object object;
  llvm::StringMap<Place> places;
  Place objectPlace;
  std::string error;
};

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CONFIGREADER_H
