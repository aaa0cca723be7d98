// Acting as the caller: a thread takes a user's identity for the length of a system call.

package osfs

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// creds is how calls get to the kernel as their callers.
//
// Credentials belong to threads. A goroutine locks itself to its thread, sets the
// thread's effective user, group and supplementary groups by raw system calls
// (the wrappers of Go's libraries change all threads), does what the caller asked,
// and sets them back. Changing the effective user from 0 also empties the
// effective capabilities, all of them, as it sets the fsuid: so permissions,
// ACLs, quotas, reserved blocks and set-id bits are handled as for a process of
// that user. The real and saved user stay 0, so that nobody else may signal or
// trace the thread, and so that the way back is open.
//
// Between act and end there are only system calls: no lock of Go's is waited for.
type creds struct {
	// Set once.
	switches bool           // threads may take other identities
	self     nfsserver.Cred // of the process
}

// asIs leaves a user or group as it is, in the setres calls; it is nobody's.
const asIs = ^uint32(0)

// errForeign: this process cannot act as that user.
const errForeign = unix.EACCES

// newCreds finds out as whom this process may act.
func newCreds() creds {
	cr := creds{self: nfsserver.Self()}
	if cr.self.UID == 0 {
		cr.switches = true
		cr.switches = cr.probe()
	}
	return cr
}

// ActsAsCallers reports whether this process can make calls as their callers, as
// root can outside of restricted containers. If not, a Server of an FS must have
// all callers act as nfsserver.Self (Squash.All): others are refused.
func ActsAsCallers() bool { return newCreds().switches }

// probe reports whether a thread can become an ordinary user without any
// capability, and root again: in a container or under seccomp it cannot.
func (cr *creds) probe() bool {
	a, err := cr.act(&nfsserver.Cred{UID: nfsserver.Nobody, GID: nfsserver.Nobody})
	if err != nil {
		return false
	}
	defer a.end()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err = unix.Capget(&head, &data[0])
	return err == nil && data[0].Effective|data[1].Effective == 0
}

// acting is a thread that has, where they are set, the user and groups of a caller.
type acting struct {
	creds            *creds
	user, group, aux bool
}

// act makes this thread the caller's until end. The superuser needs no groups.
// A process that cannot act as others does everything as itself, and refuses others.
func (cr *creds) act(c *nfsserver.Cred) (acting, error) {
	if !cr.switches {
		if c.UID != cr.self.UID {
			return acting{}, errForeign
		}
		return acting{}, nil
	}
	if c.UID == asIs || c.GID == asIs {
		return acting{}, errForeign
	}
	a := acting{creds: cr}
	root := c.UID == 0
	if root && c.GID == cr.self.GID {
		return acting{}, nil
	}
	runtime.LockOSThread()
	err := error(nil)
	if !root && !slices.Equal(c.GIDs, cr.self.GIDs) {
		err = setGroups(c.GIDs)
		a.aux = err == nil
	}
	if err == nil && c.GID != cr.self.GID {
		err = setGroup(c.GID)
		a.group = err == nil
	}
	if err == nil && !root {
		err = setUser(c.UID)
		a.user = err == nil
	}
	if err != nil {
		a.end()
		return acting{}, errForeign
	}
	return a, nil
}

// end makes the thread what it was.
func (a acting) end() {
	if a.creds == nil {
		return
	}
	if a.user {
		giveBack(func() error { return setUser(a.creds.self.UID) })
	}
	if a.group {
		giveBack(func() error { return setGroup(a.creds.self.GID) })
	}
	if a.aux {
		giveBack(func() error { return setGroups(a.creds.self.GIDs) })
	}
	runtime.UnlockOSThread()
}

// restoreTries is how often a thread tries to be root again. Only a kernel out of
// memory refuses it, and that passes.
const restoreTries = 1000

// giveBack runs restore until it works. A thread that stays somebody else's must
// never run another goroutine, and its own has a call to answer as the server:
// without a way on, the process ends.
func giveBack(restore func() error) {
	var err error
	for range restoreTries {
		if err = restore(); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	fatal(fmt.Errorf("a thread cannot be given back its own identity: %w", err))
}

// fatal ends the process; nothing recovers it, and deferred calls do not run as
// the wrong user.
func fatal(err error) {
	go panic(err)
	select {}
}

// The raw calls change this thread alone. They do not sleep, so the scheduler
// need not know of them.

func setUser(uid uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(asIs), uintptr(uid), uintptr(asIs))
	return errnoError(errno)
}

func setGroup(gid uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(asIs), uintptr(gid), uintptr(asIs))
	return errnoError(errno)
}

func setGroups(gids []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(unsafe.SliceData(gids))), 0)
	return errnoError(errno)
}

func errnoError(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// umask is the bits that new objects of this process miss. To ask umask(2) is to
// change it, so the kernel's account of the process is read.
func umask() (mask uint32) {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(v), 8, 32)
			mask = uint32(n)
		}
	}
	return mask
}
