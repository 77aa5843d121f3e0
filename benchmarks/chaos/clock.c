/* A library that is loaded before all others: wall clocks differ from the machine's by the seconds that a file holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile long long *offset(void) {
    static const volatile long long *place;
    if (!place) {
        const char *path = getenv("ATTENDANT_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
        static const long long none = 0;
        place = mapped == MAP_FAILED ? &none : mapped;
    }
    return place;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, time);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *offset();
    return status;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

/* Who waits until a time of the wall clock reckons with the clock above, and the kernel with the machine's. Other clocks
   count from the machine's start, which was less than eight months ago. */
static struct timespec machine_time(const struct timespec *until) {
    struct timespec time = *until;
    if (time.tv_sec > 20000000) time.tv_sec -= *offset();
    return time;
}

static void *real(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait) wait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))real("pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec time = machine_time(until);
    return wait(condition, mutex, &time);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*lock)(pthread_mutex_t *, const struct timespec *);
    if (!lock) lock = (int (*)(pthread_mutex_t *, const struct timespec *))real("pthread_mutex_timedlock", "GLIBC_2.34");
    struct timespec time = machine_time(until);
    return lock(mutex, &time);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static int (*wait)(sem_t *, const struct timespec *);
    if (!wait) wait = (int (*)(sem_t *, const struct timespec *))real("sem_timedwait", "GLIBC_2.34");
    struct timespec time = machine_time(until);
    return wait(semaphore, &time);
}
