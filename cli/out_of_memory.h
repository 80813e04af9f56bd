// An error message for a library that runs out of memory and would end the program without one.
//
// oneDNN allocates like C++: without memory it throws an exception, which a caller in C cannot catch, and the program
// is aborted. A program can install a handler that runs before that. The handler of `weir` prints its sentence and
// exits with 3.
#ifndef CLI_OUT_OF_MEMORY_H
#define CLI_OUT_OF_MEMORY_H

// Installs the handler, for all threads. Does nothing if no library of the program is C++.
void out_of_memory_say(void);

#endif
