/* Answers CPUID as a processor with AVX2 and no more would, to libraries in which UD2 stands in its place. */

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))
/* Of leaf 7: AVX-512 in all its parts, AMX; of its part 1: AVX-VNNI, AVX-512 BF16, AMX FP16, AVX IFMA.
   Source: Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2A, CPUID. */
enum {
    HIDDEN_B = (int)(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)),
    HIDDEN_C = BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14),
    HIDDEN_D = BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25),
    HIDDEN_A_1 = BIT(4) | BIT(5) | BIT(21) | BIT(23),
};

static void answer(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    if (at[0] != 0x0F || at[1] != 0x0B) {
        signal(number, SIG_DFL);
        return;
    }
    const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
    unsigned a, b, c, d;
    __cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 7 && part == 0) {
        b &= ~(unsigned)HIDDEN_B;
        c &= ~(unsigned)HIDDEN_C;
        d &= ~(unsigned)HIDDEN_D;
    }
    if (leaf == 7 && part == 1) a &= ~(unsigned)HIDDEN_A_1;
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction how = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &how, 0);
}
