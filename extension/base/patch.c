/*
 * patch.c
 *	  Replacing pointers in the server's read-only tables.
 *
 * The heap's TableAmRoutine and fmgr_builtins[] are const, and the linker puts them into
 * pages that become read-only when the server is loaded.  To replace a pointer, its page is
 * made writable and then gets back the protection that it had (which is looked up, as it
 * is not read-only on every platform).  This happens in the postmaster while it preloads
 * libraries, so every backend inherits the result.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "storage/fd.h"
#include "utils/fmgrtab.h"

#include "patch.h"

#define MAX_REPLACED 64

/* What ls_replace_function() has replaced. */
static const FmgrBuiltin *replaced[MAX_REPLACED];
static int	nreplaced = 0;

/* Protection of the page at address, as the kernel has it; -1 if not known. */
static int
page_protection(uintptr_t address)
{
	FILE	   *maps = AllocateFile("/proc/self/maps", "r");
	char		line[MAXPGPATH + 128];
	int			protection = -1;

	if (maps == NULL)
		return -1;
	while (protection < 0 && fgets(line, sizeof(line), maps) != NULL)
	{
		uintptr_t	from;
		uintptr_t	to;
		char		permissions[5];

		if (sscanf(line, "%zx-%zx %4s", &from, &to, permissions) != 3 ||
			address < from || address >= to)
			continue;
		protection = PROT_NONE;
		if (permissions[0] == 'r')
			protection |= PROT_READ;
		if (permissions[1] == 'w')
			protection |= PROT_WRITE;
		if (permissions[2] == 'x')
			protection |= PROT_EXEC;
	}
	FreeFile(maps);
	return protection;
}

void
ls_patch_pointer(void *slot, void *value, const char *what)
{
	uintptr_t	page_size = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	page = (uintptr_t) slot & ~(page_size - 1);
	int			protection = page_protection((uintptr_t) slot);

	if (protection < 0)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("could not find out how the memory of %s is protected", what),
				 errdetail("Its page is not listed in /proc/self/maps.")));

	if ((protection & PROT_WRITE) == 0 &&
		mprotect((void *) page, page_size, protection | PROT_WRITE) != 0)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("could not make %s writable: %m", what),
				 errhint("lockstep has to replace functions in the server's memory; a security policy may forbid it.")));

	*(void *volatile *) slot = value;

	if ((protection & PROT_WRITE) == 0 &&
		mprotect((void *) page, page_size, protection) != 0)
		ereport(FATAL,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not make %s read-only again: %m", what)));
}

void
ls_replace_function(Oid function, PGFunction instead, PGFunction *original, const char *name)
{
	const FmgrBuiltin *builtin = &fmgr_builtins[fmgr_builtin_oid_index[function]];

	Assert(builtin->foid == function);
	if (nreplaced == MAX_REPLACED)
		elog(FATAL, "too many functions to replace");
	*original = builtin->func;
	ls_patch_pointer(unconstify(PGFunction *, &builtin->func), instead,
					 psprintf("the built-in function %s", name));
	replaced[nreplaced++] = builtin;
}

/*
 * Does the catalog name a replaced function by its C symbol?  "source" is prosrc
 * of a function in LANGUAGE internal, which users can declare, too.
 */
bool
ls_is_replaced(const char *source)
{
	for (int i = 0; i < nreplaced; i++)
	{
		if (strcmp(replaced[i]->funcName, source) == 0)
			return true;
	}
	return false;
}

/* The same, of a built-in function. */
bool
ls_is_replaced_builtin(Oid function)
{
	for (int i = 0; i < nreplaced; i++)
	{
		if (replaced[i]->foid == function)
			return true;
	}
	return false;
}
