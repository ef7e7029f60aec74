/*
 * interpose.c
 *	  Other modules that call a function of the server directly.
 *
 * autoinc of contrib calls nextval() as a C function, past the server's table of built-in
 * functions; and only one such call in 32 writes WAL, from which walwitness.c would detect
 * it.  The calls of a module go through pointers in its own memory, which the
 * dynamic linker sets when it loads the module.  Pointers to a replaced function are
 * changed to point to the replacement.
 *
 * Modules are examined when the server starts, because background workers may belong to them,
 * and when the first C function is called after a module was loaded (cfunctions.c).  The server
 * binds all symbols of a module when it loads it, so the pointers are set by then.  On
 * platforms other than those below nothing is replaced, and walwitness.c is the only
 * protection.
 */
#include "postgres.h"

#include <elf.h>
#include <link.h>

#include "miscadmin.h"

#include "interpose.h"
#include "patch.h"

#define MAX_FUNCTIONS 8
#define MAX_SLOTS 256

#if defined(__x86_64__)
#define IS_POINTER(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_POINTER(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#define IS_POINTER(type) false
#endif

/* The systems above have no others. */
typedef Elf64_Addr ElfAddress;
typedef Elf64_Rela ElfRelocation;
typedef Elf64_Dyn ElfDynamic;
typedef Elf64_Phdr ElfSegment;

typedef struct Replaced
{
	void	   *original;
	void	   *instead;
	const char *name;
} Replaced;

typedef struct Slot
{
	void	  **at;
	const Replaced *function;
} Slot;

typedef struct Found
{
	int			nslots;
	bool		more;
	Slot		slots[MAX_SLOTS];
} Found;

static Replaced functions[MAX_FUNCTIONS];
static int	nfunctions = 0;
static unsigned long long seen_loads = 0;

void
interpose_replace(void *original, void *instead, const char *name)
{
	Assert(nfunctions < MAX_FUNCTIONS);
	functions[nfunctions++] = (Replaced) {original, instead, name};
}

static void
look_at_slot(void **at, Found *found)
{
	for (int i = 0; i < nfunctions; i++)
	{
		if (*at != functions[i].original)
			continue;
		found->more = found->nslots == MAX_SLOTS;
		if (!found->more)
			found->slots[found->nslots++] = (Slot) {at, &functions[i]};
	}
}

static void
look_at_relocations(ElfAddress base, const ElfRelocation *relocations, size_t size, Found *found)
{
	for (size_t i = 0; relocations != NULL && i < size / sizeof(*relocations); i++)
	{
		if (IS_POINTER(relocations[i].r_info & 0xffffffff))
			look_at_slot((void **) (base + relocations[i].r_offset), found);
	}
}

/* The dynamic linker has made addresses of them, but not in the kernel's module. */
static const void *
address_of(ElfAddress base, ElfAddress value)
{
	return (const void *) (value < base ? base + value : value);
}

static void
look_at_module(ElfAddress base, const ElfDynamic *dynamic, Found *found)
{
	const ElfRelocation *rela = NULL;
	const ElfRelocation *plt = NULL;
	size_t		rela_size = 0;
	size_t		plt_size = 0;
	bool		plt_is_rela = false;

	for (; dynamic->d_tag != DT_NULL; dynamic++)
	{
		if (dynamic->d_tag == DT_RELA)
			rela = address_of(base, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_RELASZ)
			rela_size = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_JMPREL)
			plt = address_of(base, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_PLTRELSZ)
			plt_size = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_PLTREL)
			plt_is_rela = dynamic->d_un.d_val == DT_RELA;
	}
	look_at_relocations(base, rela, rela_size, found);
	if (plt_is_rela)
		look_at_relocations(base, plt, plt_size, found);
}

/* We call the server's functions ourselves; so does the server. */
static bool
is_spared(const struct dl_phdr_info *info)
{
	const void *ours[] = {&seen_loads, &DataDir};

	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const ElfSegment *segment = &info->dlpi_phdr[i];

		for (int j = 0; j < lengthof(ours); j++)
		{
			if (segment->p_type == PT_LOAD && (ElfAddress) ours[j] - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
				return true;
		}
	}
	return false;
}

static int
visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	if (!is_spared(info))
	{
		for (int i = 0; i < info->dlpi_phnum; i++)
		{
			if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
				look_at_module(info->dlpi_addr,
							   (const ElfDynamic *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), arg);
		}
	}
	return 0;
}

/* The first module knows how many have been loaded. */
static int
count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	*(unsigned long long *) arg = info->dlpi_adds;
	return 1;
}

void
interpose_new_modules(void)
{
	unsigned long long loads = 0;
	Found		found;

	(void) dl_iterate_phdr(count_loads, &loads);
	if (likely(loads == seen_loads))
		return;
	do
	{
		found.nslots = 0;
		found.more = false;
		(void) dl_iterate_phdr(visit, &found);
		for (int i = 0; i < found.nslots; i++)
			ls_patch_pointer(found.slots[i].at, found.slots[i].function->instead,
							 found.slots[i].function->name);
	} while (found.more);
	seen_loads = loads;
}
