/* Shifts the wall clock of the program it is preloaded into, by the microseconds in a mapped file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *shift_us;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *shift_us, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) shift_us = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || !shift_us || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t us = __atomic_load_n(shift_us, __ATOMIC_RELAXED);
    int64_t ns = now->tv_nsec + us % 1000000 * 1000;
    now->tv_sec += us / 1000000 + (ns >= 1000000000) - (ns < 0);
    now->tv_nsec = ns + (ns < 0) * 1000000000L - (ns >= 1000000000) * 1000000000L;
    return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
