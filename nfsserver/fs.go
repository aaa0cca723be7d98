// The seam to what is exported: the FS interface and the promises of its methods.

package nfsserver

import "errors"

// Errors that an FS returns next to those of io/fs and the syscall.Errno values.
var (
	// ErrStale: the Ref names a file that is gone, or never was.
	ErrStale = errors.New("file handle is stale")
	// ErrBadType: the kind of object cannot be made here.
	ErrBadType = errors.New("object type is not supported")
	// ErrBadCookie: the position in a directory is not valid any more.
	ErrBadCookie = errors.New("directory cookie is not valid")
	// ErrBusy: it would take too long now; the client shall ask again (JUKEBOX).
	ErrBusy = errors.New("try again later")
)

// An FS is one file tree. A Ref names a file in it, not a path: it survives
// renames and hard links, and, where the FS is persistent, restarts.
//
// Concurrency: all methods may be called at once from many goroutines. Each
// method is atomic to the others on names and attributes. ReadAt against
// WriteAt on overlapping octets gives, for each octet, the old or the new one.
// Any method may block on a disk; Getattr of a file in use does not.
//
// Durability: a change is seen by all later calls as soon as its method has
// returned, but it is on stable storage only once Sync of each object that was
// changed has returned nil. The NFS programs make UNSTABLE, DATA_SYNC,
// FILE_SYNC and COMMIT (RFC 1813 §3.3.7, §3.3.21) from these two facts.
//
// Permissions: methods with a Cred do what that user may do and refuse the rest,
// EACCES and EPERM as system calls give them. A method that finds or changes a
// name needs what a local process needs on the directory. Names are single components, neither empty nor with a slash or
// NUL; "." and ".." come only to Lookup.
//
// Errors are syscall.Errno values, those of io/fs, or those above; status.go
// maps them. A Ref that names nothing gives ErrStale.
type FS interface {
	// Root is the Ref of the top directory. It never changes.
	Root() Ref
	// Info tells the limits and habits of the FS. They never change.
	Info() Info

	// Getattr returns the attributes. It does not allocate in the steady state.
	Getattr(r Ref) (Attr, error)
	// Access returns those of the permissions want (MayRead, MayWrite, MayExec) that c has.
	Access(c Cred, r Ref, want uint32) (uint32, error)
	// Setattr sets what s.Mask names. Symbolic links are not followed. A change of
	// owner or size clears set-id bits, as chown(2) and write(2) do. Who may write
	// may set the present time, others than the owner no other. On an error some of
	// the attributes may have been set, but if s names what only an owner may set
	// nobody else has changed the size.
	Setattr(c Cred, r Ref, s *SetAttr) error
	// ReadAt fills p from offset off and returns how many octets there were;
	// fewer than len(p) means that the file ends there, which is no error.
	// Its owner may read a file whatever the mode, and so may who may execute it
	// (RFC 1813 §4.4); permission is checked even if p is empty.
	// It does not allocate in the steady state, and keeps nothing of p.
	ReadAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// WriteAt writes p at off, which may be behind the end: the gap reads as zeros.
	// The owner may write whatever the mode (RFC 1813 §4.4). With p empty it checks
	// permission and does no more; a program that runs from the file is no obstacle
	// then. Set-id bits are cleared as by write(2).
	// It is unstable until Sync. With n < len(p) err says why, unless n > 0.
	// It does not allocate in the steady state, and keeps nothing of p.
	WriteAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// Sync brings all that was written to r, and with dataOnly false also its
	// attributes or, for a directory, its names, to stable storage. An error that
	// befell earlier writes is reported once, by the first Sync to find it.
	Sync(r Ref, dataOnly bool) error

	// Lookup finds name in dir. ".." of the root is the root.
	Lookup(c Cred, dir Ref, name string) (Ref, Attr, error)
	// Readlink returns the target of a symbolic link, EINVAL for other objects.
	Readlink(c Cred, r Ref) (string, error)
	// Create makes an empty regular file with the attributes of s; an existing
	// name is EEXIST, whatever it names. It belongs to c, and to c's group or, in a
	// directory with the set-group-id bit, to the directory's, unless s says
	// otherwise and c may; its mode is that of s (without: 0600, directories 0700),
	// less what a default ACL of the directory takes away. All this holds from its
	// first moment, but for what s gives to another owner. The same holds for the
	// three below.
	Create(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	Mkdir(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	Symlink(c Cred, dir Ref, name, target string, s *SetAttr) (Ref, Attr, error)
	// Mknod makes a socket, FIFO or device; the device numbers stand in rdev.
	Mknod(c Cred, dir Ref, name string, t FileType, rdev Rdev, s *SetAttr) (Ref, Attr, error)
	// Link gives the file r, not a directory, another name.
	Link(c Cred, r, dir Ref, name string) error
	// Remove takes away the name of anything but a directory (EISDIR); Rmdir that
	// of an empty directory (ENOTDIR, ENOTEMPTY).
	Remove(c Cred, dir Ref, name string) error
	Rmdir(c Cred, dir Ref, name string) error
	// Rename moves a name, over an existing one of the same sort if there is one;
	// two names of one file stay as they are. There is no moment without the target.
	Rename(c Cred, from Ref, fromName string, to Ref, toName string) error

	// ReadDir calls emit for the entries behind the cookie (0: all), "." and ".."
	// too, until it returns false. c must be allowed to read dir. A name that exists
	// during the whole of a listing is emitted once, whatever else comes or goes.
	// With plus, Ref and Attr are filled in where they can be had cheaply and c may
	// search dir. emit must not call the FS; the Dirent is valid only inside it. eof
	// tells that no entry is left.
	ReadDir(c Cred, dir Ref, cookie uint64, plus bool, emit func(*Dirent) bool) (eof bool, err error)
	// Statfs tells the room left.
	Statfs(r Ref) (Statfs, error)
	// Close frees what the FS holds. No call may be running or follow.
	Close() error
}

// Info is what FSINFO and PATHCONF tell of an FS, and how its cookies behave.
type Info struct {
	MaxFileSize     uint64
	NameMax         uint32
	LinkMax         uint32
	TimeDelta       Time   // granularity of the times
	CookieVerf      uint64 // of all its directory cookies
	CaseInsensitive bool
	// Quick: Getattr of any Ref is a matter of microseconds, but for the disk.
	Quick     bool
	HardLinks bool
	Symlinks  bool
}

// A Dirent is one entry of a directory.
type Dirent struct {
	Name   []byte
	Fileid uint64
	Cookie uint64 // position behind this entry
	// HasAttr: Ref and Attr are those of the entry.
	HasAttr bool
	Ref     Ref
	Attr    Attr
}

// Statfs is the room of an FS: octets and files; the last of each triple is
// what a caller without privileges may use.
type Statfs struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}
