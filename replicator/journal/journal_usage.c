/*
 * journal_usage.c
 *	  How much room a journal takes, and how much there is: by its directory, so that neither the
 *	  loop's thread nor the journal's has to be asked.
 */
#include "journal_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

bool
journal_usage(const char *dir, uint64_t *bytes, uint64_t *disk_free)
{
	DIR		   *d = opendir(dir);
	struct dirent *entry;
	struct statvfs fs;
	struct stat st;
	bool		known;

	*bytes = *disk_free = 0;
	if (d == NULL)
		return false;
	while ((entry = readdir(d)) != NULL)
	{
		/* one that is gone by now takes no room */
		if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			*bytes += (uint64_t) st.st_size;
	}
	known = fstatvfs(dirfd(d), &fs) == 0;
	if (known)
		*disk_free = (uint64_t) fs.f_bavail * fs.f_frsize;
	closedir(d);
	return known;
}
