// The optional interfaces an FS can have besides FS, and the place that collects them.

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// optional holds the optional interfaces of one FS; a missing one is nil. A new interface gets a
// field here, a line in optionalOf and a row in docs/library.md.
type optional struct {
	now   NonBlocker
	later LaterReader
	acls  ACLer
	locks Locker
	tally MechanismCounter
}

// optionalOf collects the optional interfaces of an FS, once for each export (export.served). No
// other code asserts an FS's type.
func optionalOf(fs FS) (o optional) {
	o.now, _ = fs.(NonBlocker)
	o.later, _ = fs.(LaterReader)
	o.acls, _ = fs.(ACLer)
	o.locks, _ = fs.(Locker)
	o.tally, _ = fs.(MechanismCounter)
	return o
}

// A NonBlocker is an FS that serves some calls from memory, and knows beforehand which. Later calls
// of the same connection wait for such a call, so no other goroutine has to wake up. These calls
// are GETATTR, ACCESS, and small UNSTABLE WRITEs of files in use; LOOKUP by LookupInUse; and READ
// of at most 16 KiB by ReadInUse. During all other calls another goroutine receives. The server
// asks only if Info.Quick is set.
//
// Without it, the server expects GETATTR and ACCESS of an FS with Info.Quick not to wait, for all
// files, and every LOOKUP and READ to wait.
//
// Concurrency: all methods may be called at once, also beside those of FS. None of them waits for a
// disk, a service, or a method of FS that does. They do not allocate in the steady state. An FS
// that cannot do one of these returns false from its method.
type NonBlocker interface {
	// InUse reports whether Getattr, Access and a short WriteAt of r wait for no disk.
	InUse(r Ref) bool
	// LookupInUse is Lookup by a recently permitted caller, where the directory and the file are in
	// use. ok is false where Lookup could wait or would fail: the server then calls Lookup. It
	// keeps no reference to name.
	LookupInUse(c Cred, dir Ref, name string) (r Ref, a Attr, ok bool)
	// ReadsInUse reports whether ReadInUse is worth a try: the file is in use, and its last reads
	// were in memory.
	ReadsInUse(r Ref) bool
	// ReadInUse is ReadAt of a file in use, by a recently permitted caller; n is in bytes. ok is
	// false where ReadAt could wait, would fail, or would not fill p. The content of p is then
	// arbitrary, and the server calls ReadAt. ReadInUse keeps no reference to p.
	ReadInUse(c Cred, r Ref, p []byte, off uint64) (n int, ok bool)
}

// A LaterReader is an FS that can leave a file's bytes in place until a reply is sent. The server
// then sends a READ of at least 32 KiB over RDMA without a buffer for all of it: the transport
// reads the file in pieces as it sends them.
//
// Without it, or over TCP, ReadAt reads the data into memory before the reply is sent.
type LaterReader interface {
	// ReadLater is ReadAt of the n bytes at off, without the bytes. The sender reads them from the
	// result, including bytes written to the file until then. It reads on another goroutine and
	// possibly after later methods of the FS. It calls mem.DeferredRead.Done after its last read.
	// errors.ErrUnsupported: the server calls ReadAt for this file now. ReadLater may block.
	ReadLater(c Cred, r Ref, n int, off uint64) (mem.DeferredRead, error)
}

// An ACLType selects one of an object's ACLs.
type ACLType uint8

// An object's ACLs.
const (
	AccessACL  ACLType = iota // controls access to the object
	DefaultACL                // of a directory: the initial ACL of new objects in it
)

// An ACLer is an FS with POSIX ACLs, which its methods enforce. It lets the server answer GETACL
// and SETACL of the NFSACL program. A new object in a directory with a default ACL gets it as its
// ACL, and the requested mode bounds it in place of a umask.
//
// Without it, GETACL and SETACL of the export fail with NFS3ERR_NOTSUPP, and clients show modes.
type ACLer interface {
	// ACL returns an ACL; an empty one means none: the object has only its mode. Every caller may
	// read it. EOPNOTSUPP: the object's file system has no ACLs, so clients need not ask.
	// Concurrency: as Getattr. Durability: changes nothing.
	ACL(r Ref, t ACLType) (posixacl.ACL, error)
	// SetACL sets a valid ACL as c, which must be the owner or root (EPERM). An empty ACL removes
	// the present one. The mode follows an access ACL, as the ACL follows a mode set by Setattr.
	// EOPNOTSUPP: the object's file system has no ACLs. Concurrency: others see the old ACL and
	// mode, or the new. Durability: Sync of r with dataOnly false.
	SetACL(c Cred, r Ref, t ACLType, a posixacl.ACL) error
}

// A Locker is an FS with files lockable by other programs, with fcntl(2) or at another server of
// the same FS. The lock manager (package nlm) holds its clients' locks there too, as one owner, so
// these programs and its clients exclude each other.
//
// Without it, clients of this server exclude each other, and other programs do not see their locks.
type Locker interface {
	// OpenLocks returns the server's locks on a regular file: none at first, except those that the
	// FS keeps for an earlier process (EndGrace). It may block on a disk. Until Close the file
	// stays in use, even if its last name is removed. The lock manager opens a file once, for all
	// its clients.
	OpenLocks(r Ref) (FileLocks, error)
	// EndGrace ends the time in which clients reclaim an earlier process's locks. An FS that kept
	// such locks from other programs soon releases those not reclaimed; any other FS does nothing.
	// It waits for no disk and no service. The lock manager calls it repeatedly, from any
	// goroutine.
	EndGrace()
}

// A MechanismCounter is an FS that counts the decisions of its speed mechanisms. The server's
// figures have the sum over its exports. Only FSs of this module can implement it, because the
// table's type is internal.
//
// Without it, the figures have no mechanisms of the FS.
type MechanismCounter interface {
	// Mechanisms returns the decisions since the FS was opened, by mechanism. The caller owns the
	// table. It may be called at any time, also after Close, and does not block.
	Mechanisms() rnic.DecisionTable
}

// A LockType is a kind of byte lock. The kinds are in order of strength.
type LockType uint8

// The types of locks.
const (
	Unlocked LockType = iota
	Shared
	Exclusive
)

// FileLocks are the server's locks on a file against other programs, held as one owner. Methods are
// called one at a time. Offsets are in bytes, at most math.MaxInt64, which means the end of the
// file however long it becomes. Both ends are included.
type FileLocks interface {
	// Set changes the server's lock on the bytes from start to end. EAGAIN: another program's lock
	// conflicts, and nothing has changed; Set does not wait for it. EROFS: the file cannot be
	// locked exclusively, because it cannot be written.
	Set(start, end uint64, t LockType) error
	// Test returns another program's lock that would make Set fail; other is Unlocked if there is
	// none.
	Test(start, end uint64, t LockType) (at, last uint64, other LockType, err error)
	// Close releases all locks.
	Close() error
}

// LocalLocks are FileLocks on a file of this machine. The inode lets the lock manager find
// deadlocks between its clients and local programs, and the path is listed with its locks.
//
// FileLocks without it take no part in the search for deadlocks, and are listed without a path.
type LocalLocks interface {
	FileLocks
	// Inode returns the file's device and inode number in the kernel's list of locks
	// (proc_locks(5)). It waits for no disk.
	Inode() (major, minor uint32, number uint64, err error)
	// Path returns the file's path on this machine, or "". It waits for no disk.
	Path() string
}
