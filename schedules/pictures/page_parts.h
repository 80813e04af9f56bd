// The files of page/ as strings: page_parts.c is made of them by the build.
#ifndef SCHEDULES_PAGE_PARTS_H
#define SCHEDULES_PAGE_PARTS_H

extern const char page_html[];
extern const char page_css[];
extern const char panel_js[];
extern const char page_js[];

#endif
