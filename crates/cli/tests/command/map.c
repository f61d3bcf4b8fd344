/* map FILE OFFSET BYTE [wait]: an unmodified program that maps a file and stores a byte; with wait it then says
 * "stored" and stays until its standard input ends. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments) {
    struct stat found;
    if (count < 4) return 2;
    int file = open(arguments[1], O_RDWR);
    if (file < 0 || fstat(file, &found) != 0) {
        perror(arguments[1]);
        return 1;
    }
    size_t len = (size_t)found.st_size;
    unsigned char *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    /* A mapping is enough: no descriptor is open while it stores. */
    close(file);
    size_t offset = strtoul(arguments[2], NULL, 0);
    bytes[offset] = (unsigned char)strtoul(arguments[3], NULL, 0);
    if (count > 4) {
        puts("stored");
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }
    return msync(bytes, len, MS_SYNC) == 0 ? 0 : 1;
}
