// The files of page/ as strings. The build makes page_parts.c from them.
#ifndef SCHEDULES_PAGE_PARTS_H
#define SCHEDULES_PAGE_PARTS_H

extern const char page_html[];
extern const char page_css[];
extern const char panel_js[];
extern const char page_js[];

#endif
