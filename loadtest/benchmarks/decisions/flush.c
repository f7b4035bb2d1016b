/* Makes each flush of a file take so much longer, in microseconds: the disk of a machine that this one is not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slowly(const char *name, int fd) {
    const char *delay = getenv("FLUSH_DELAY_US");
    usleep(delay ? (useconds_t)atoi(delay) : 0);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
