//===- OutputFile.h - a file to write, of which no error is lost ----------===//
#ifndef MOERT_CORE_OUTPUTFILE_H
#define MOERT_CORE_OUTPUTFILE_H

#include "core/View.h"

#include <ostream>
#include <streambuf>
#include <vector>

namespace moert {

/// A std::ostream to a file descriptor. It keeps the system's reason for the first error, which std::ofstream does not.
class OutputFile : public std::ostream {
public:
  OutputFile();
  /// Writes to standard output, which has the name "standard output".
  static OutputFile &standardOutput();

  /// Makes or empties the file `path`.
  Status open(const std::string &path);
  bool isOpen() const { return buffer.file >= 0; }
  /// Gives the written bytes to the system. Returns the first error since open(), if any: MOERT_ERROR_INVALID_ARGUMENT,
  /// "'path': cannot be written: No space left on device".
  Status writeOut();
  /// Does the same, and writes the bytes to the disk.
  Status sync();
  /// Does the same as writeOut(), and closes the file.
  Status close();

private:
  struct Buffer : std::streambuf {
    Buffer();
    ~Buffer() override;
    int overflow(int character) override;
    int sync() override;
    std::streamsize xsputn(const char *bytes, std::streamsize count) override;
    bool write(const char *bytes, size_t count);
    void keep(int error) { firstError = firstError ? firstError : error; }

    int file = -1;
    int firstError = 0; ///< an errno, 0: none
    std::vector<char> pending;
  };

  Status status() const;

  Buffer buffer;
  std::string name; ///< in messages, with quotes
};

/// Makes sure that the descriptors 0, 1 and 2 are open. Otherwise the next opened file would get the number of a closed
/// standard output, and printed text would go into it. Writing to a closed one stays an error.
void keepStandardFiles();

} // namespace moert

#endif // MOERT_CORE_OUTPUTFILE_H
