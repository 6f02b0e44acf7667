/* No plan: preloaded, it kills the process in its MOERT_TEST_KILL_AT-th call that changes files, counted from 1. A
   write is cut off in its middle, and other calls are not made. Without the variable it only counts. It skips slow
   flushes to the disk, because a kill loses nothing that was written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int isLast(void) {
  const char *at = getenv("MOERT_TEST_KILL_AT");
  return at && atomic_fetch_add(&calls, 1) + 1 == atol(at);
}

static void end(void) { kill(getpid(), SIGKILL); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t count) {
  if (isLast()) {
    REAL(write)(file, bytes, count / 2);
    end();
  }
  return REAL(write)(file, bytes, count);
}

#define CHANGES(name, parameters, arguments)                                                                           \
  int name parameters {                                                                                                \
    if (isLast())                                                                                                      \
      end();                                                                                                           \
    return REAL(name) arguments;                                                                                       \
  }

CHANGES(rename, (const char *from, const char *to), (from, to))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode))
CHANGES(unlink, (const char *path), (path))
CHANGES(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
CHANGES(rmdir, (const char *path), (path))
CHANGES(remove, (const char *path), (path))

int fsync(int file) {
  (void)file;
  if (isLast())
    end();
  return 0;
}
