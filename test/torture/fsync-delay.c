/*
 * Preloaded, makes every fsync(2) and fdatasync(2) of a process as slow as a disk: FSYNC_DELAY_US microseconds each, after
 * the real one. Counts them in the first eight bytes of the file that FSYNC_COUNT_FILE names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static struct timespec delay;
static uint64_t *count;

__attribute__((constructor)) static void prepare(void) {
  real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const char *micros = getenv("FSYNC_DELAY_US");
  long us = micros ? atol(micros) : 0;
  delay.tv_sec = us / 1000000;
  delay.tv_nsec = us % 1000000 * 1000;
  const char *file = getenv("FSYNC_COUNT_FILE");
  int fd = file ? open(file, O_RDWR | O_CREAT, 0600) : -1;
  if (fd < 0 || ftruncate(fd, sizeof *count) != 0) return;
  void *map = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map != MAP_FAILED) count = map;
}

static int slowly(int result) {
  if (count) __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
  nanosleep(&delay, NULL);
  return result;
}

int fsync(int fd) {
  return slowly(real_fsync(fd));
}

int fdatasync(int fd) {
  return slowly(real_fdatasync(fd));
}
