/*
 * Preloaded, lets the disk and the clock of a process misbehave, as the file says that MACHINE_FILE names. Three numbers of
 * 64 bits, which another process changes at any time: the errno of every write and sync to a regular file (0: none fails),
 * microseconds that every sync takes, seconds that the wall clock is ahead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const int64_t none[3];
static const volatile int64_t *machine = none;

__attribute__((constructor)) static void prepare(void) {
  const char *file = getenv("MACHINE_FILE");
  int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *map = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (map != MAP_FAILED) machine = map;
}

/* Sets errno where the disk takes nothing. */
static int fails(int fd) {
  int error = (int)machine[0];
  struct stat status;
  if (error == 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  errno = error;
  return 1;
}

static void wait_for_disk(void) {
  int64_t micros = machine[1];
  struct timespec delay = {micros / 1000000, micros % 1000000 * 1000};
  if (micros > 0) nanosleep(&delay, NULL);
}

#define REAL(name) (real ? real : (real = (__typeof__(real))dlsym(RTLD_NEXT, name)))

#define SYNC(name) \
  int name(int fd) { \
    static int (*real)(int); \
    if (fails(fd)) return -1; \
    wait_for_disk(); \
    return REAL(#name)(fd); \
  }

SYNC(fsync)
SYNC(fdatasync)

ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  return fails(fd) ? -1 : REAL("write")(fd, bytes, count);
}

#define PWRITE(name, offset) \
  ssize_t name(int fd, const void *bytes, size_t count, offset at) { \
    static ssize_t (*real)(int, const void *, size_t, offset); \
    return fails(fd) ? -1 : REAL(#name)(fd, bytes, count, at); \
  }

PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset) \
  int name(int fd, offset length) { \
    static int (*real)(int, offset); \
    return fails(fd) ? -1 : REAL(#name)(fd, length); \
  }

TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  int result = REAL("clock_gettime")(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += machine[2];
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  int result = REAL("gettimeofday")(now, zone);
  if (result == 0) now->tv_sec += machine[2];
  return result;
}
