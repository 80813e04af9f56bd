// What is said where a library below has no memory and would end the program without a sentence.
//
// oneDNN allocates as C++ does: where there is no memory an exception is thrown, which no caller in C can catch, and the
// program is aborted. A program may say first what C++ does then, and `weir` says its sentence and exits with 3.
#ifndef CLI_OUT_OF_MEMORY_H
#define CLI_OUT_OF_MEMORY_H

// From now on, in all threads. Does nothing where no library below is C++.
void out_of_memory_say(void);

#endif
