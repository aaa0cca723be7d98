// The optional interfaces that an FS can have, and the function that finds them.

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

// optionalOf finds the optional interfaces of an FS, once for each export (export.served). No other
// code asserts an FS's type.
func optionalOf(fs FS) (o optional) {
	o.now, _ = fs.(NonBlocker)
	o.later, _ = fs.(LaterReader)
	o.acls, _ = fs.(ACLer)
	o.locks, _ = fs.(Locker)
	o.tally, _ = fs.(MechanismCounter)
	return o
}

// A NonBlocker is an FS that serves some calls from memory, and knows beforehand which. The server
// runs such a call on the receiving goroutine, which saves a wake-up; later calls of the connection
// wait. The calls are GETATTR, ACCESS, and small UNSTABLE WRITEs of files in use; LOOKUP by
// LookupInUse; and READ of at most 16 KiB by ReadInUse. During all other calls another goroutine
// receives. The server uses a NonBlocker only if Info.Quick is set.
//
// Without a NonBlocker, the server expects GETATTR and ACCESS of an FS with Info.Quick not to wait,
// for all files, and every LOOKUP and READ to wait.
//
// Concurrency: all methods may be called at once, also during methods of FS. No method waits for a
// disk, a service, or a blocking method of FS. The methods do not allocate in the steady state. If
// an FS cannot serve a kind of call this way, its method returns false.
type NonBlocker interface {
	// InUse reports whether Getattr, Access and a short WriteAt of r wait for no disk.
	InUse(r Ref) bool
	// LookupInUse is Lookup by a recently permitted caller, where the directory and the file are in
	// use. ok is false where Lookup could wait or would fail: the server then calls Lookup.
	// LookupInUse keeps no reference to name.
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
// then sends a READ of at least 32 KiB over RDMA without a buffer for the whole READ: the transport
// reads the file in pieces while sending.
//
// Without a LaterReader, or over TCP, ReadAt reads the data into memory before the reply is sent.
type LaterReader interface {
	// ReadLater is ReadAt of the n bytes at off, but returns a source for the bytes. The sender
	// reads from the source, and gets bytes written to the file until that moment. It reads on
	// another goroutine and possibly after later methods of the FS. After its last read it calls
	// mem.DeferredRead.Done. errors.ErrUnsupported: the server now calls ReadAt for this file.
	// ReadLater may block.
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
// and SETACL of the NFSACL program. A directory's default ACL becomes the ACL of each new object in
// the directory, bounded by the requested mode instead of a umask.
//
// Without an ACLer, GETACL and SETACL of the export fail with NFS3ERR_NOTSUPP, and clients show
// modes.
type ACLer interface {
	// ACL returns an ACL. An empty ACL means that the object has only its mode. Every caller may
	// read the ACL. EOPNOTSUPP: the object's file system has no ACLs, so clients need not ask.
	// Concurrency: as Getattr. Durability: changes nothing.
	ACL(r Ref, t ACLType) (posixacl.ACL, error)
	// SetACL sets a valid ACL as c, which must be the owner or root (EPERM). An empty ACL removes
	// the present ACL. A new access ACL changes the mode to match, as a mode set by Setattr changes
	// the ACL. EOPNOTSUPP: the object's file system has no ACLs. Concurrency: others see the old
	// ACL and mode, or the new. Durability: Sync of r with dataOnly false.
	SetACL(c Cred, r Ref, t ACLType, a posixacl.ACL) error
}

// A Locker is an FS with files that other programs can lock, with fcntl(2) or at another server of
// the same FS. The lock manager (package nlm) locks its clients' byte ranges in the FS too, as one
// owner. So other programs and the lock manager's clients exclude each other.
//
// Without a Locker, clients of this server exclude each other, and other programs do not see their
// locks.
type Locker interface {
	// OpenLocks returns the server's locks on a regular file: none at first, except those that the
	// FS keeps for an earlier process (EndGrace). It may block on a disk. Until Close the file
	// stays in use, even if its last name is removed. The lock manager opens a file once for all
	// its clients.
	OpenLocks(r Ref) (FileLocks, error)
	// EndGrace ends the time in which clients reclaim an earlier process's locks. An FS that kept
	// such locks soon releases the unreclaimed ones to other programs; any other FS does nothing.
	// EndGrace waits for no disk and no service. The lock manager calls it repeatedly, from any
	// goroutine.
	EndGrace()
}

// A MechanismCounter is an FS that counts the decisions of its speed mechanisms. The server's
// figures are the sums over its exports. Only FSs in this module can implement the interface,
// because the table's type is internal.
//
// Without a MechanismCounter, the figures have no mechanisms of the FS.
type MechanismCounter interface {
	// Mechanisms returns the decisions since the FS was opened, by mechanism. The caller owns the
	// table. Mechanisms may be called at any time, also after Close, and does not block.
	Mechanisms() rnic.DecisionTable
}

// A LockType is a kind of byte lock. A stronger kind has a larger number.
type LockType uint8

// The types of locks.
const (
	Unlocked LockType = iota
	Shared
	Exclusive
)

// FileLocks are the server's locks on a file against other programs, held as one owner. Methods are
// called one at a time. Offsets are in bytes. The largest, math.MaxInt64, means the end of the file
// however long the file becomes. A range includes both ends.
type FileLocks interface {
	// Set changes the server's lock on the bytes from start to end. It never waits for another
	// program's lock. EAGAIN: such a lock conflicts, and nothing has changed. EROFS: the file
	// cannot be locked exclusively, because it cannot be written.
	Set(start, end uint64, t LockType) error
	// Test returns another program's lock that would make Set fail; other is Unlocked if there is
	// no such lock.
	Test(start, end uint64, t LockType) (at, last uint64, other LockType, err error)
	// Close releases all locks.
	Close() error
}

// LocalLocks are FileLocks on a file of this machine. The inode lets the lock manager find
// deadlocks between its clients and local programs. The path appears in lists of locks.
//
// FileLocks without LocalLocks take no part in the search for deadlocks, and are listed without a
// path.
type LocalLocks interface {
	FileLocks
	// Inode returns the file's device and inode number in the kernel's list of locks
	// (proc_locks(5)). It waits for no disk.
	Inode() (major, minor uint32, number uint64, err error)
	// Path returns the file's path on this machine, or "". It waits for no disk.
	Path() string
}
