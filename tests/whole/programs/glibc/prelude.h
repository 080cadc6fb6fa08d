/* SPDX-License-Identifier: MIT
 *
 * prelude.h: what the sources of glibc's tests take from glibc's own build: included before each of them. */
#include <errno.h>
#include <limits.h>

#define libc_hidden_proto(name)
#define libc_hidden_def(name)
#define __set_errno(value) (errno = (value))
#define TIMEOUTFACTOR 1 /* the variable of that name has it */

/* Folders of a built and an installed glibc, which none of the programs looks into. */
#define SRCDIR_PATH "."
#define OBJDIR_PATH "."
#define OBJDIR_ELF_LDSO_PATH ""
#define INSTDIR_PATH ""
#define LIBDIR_PATH ""
#define BINDIR_PATH ""
#define SBINDIR_PATH ""
#define ROOTSBINDIR_PATH ""
#define COMPLOCALEDIR_PATH ""
#define SYSCONFDIR_PATH ""
#define SLIBDIR_PATH ""
#define ROOTDIR_PATH ""
