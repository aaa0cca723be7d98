// The protocol's numbers: program, procedures, access bits, limits.

package nfs3

// Program and Version name NFS version 3 in an RPC call (RFC 1813 §2.3).
const (
	Program = 100003
	Version = 3
)

// Procedure numbers (RFC 1813 §3.3).
const (
	ProcNull uint32 = iota
	ProcGetattr
	ProcSetattr
	ProcLookup
	ProcAccess
	ProcReadlink
	ProcRead
	ProcWrite
	ProcCreate
	ProcMkdir
	ProcSymlink
	ProcMknod
	ProcRemove
	ProcRmdir
	ProcRename
	ProcLink
	ProcReaddir
	ProcReaddirplus
	ProcFsstat
	ProcFsinfo
	ProcPathconf
	ProcCommit
	NumProcs
)

// ACCESS bits (RFC 1813 §3.3.4).
const (
	AccessRead    uint32 = 0x01 // read file data or list a directory
	AccessLookup  uint32 = 0x02 // look a name up in a directory
	AccessModify  uint32 = 0x04 // rewrite existing data or entries
	AccessExtend  uint32 = 0x08 // write new data or add entries
	AccessDelete  uint32 = 0x10 // delete a directory entry
	AccessExecute uint32 = 0x20 // execute a file
	AccessAll     uint32 = 0x3f
)

// FsinfoRes.Properties bits (RFC 1813 §3.3.19).
const (
	FSFLink        uint32 = 0x01 // hard links
	FSFSymlink     uint32 = 0x02 // symbolic links
	FSFHomogeneous uint32 = 0x08 // PATHCONF is the same for every object
	FSFCanSetTime  uint32 = 0x10 // SETATTR can set times
)

// Sizes in bytes (RFC 1813 §2.4), and this package's limits for filename3 and nfspath3, which the
// RFC does not bound.
const (
	FHSize   = 64   // longest file handle
	verfSize = 8    // every verifier: cookie, create, write
	MaxName  = 4096 // longest decoded file name
	MaxPath  = 4096 // longest decoded symbolic link content
	// maxData limits the data decoded for a READ or WRITE. It is only a sanity bound, far above any
	// server's rtmax and wtmax, since the data is never copied.
	maxData = 1 << 30
)

// A Verf is a verifier: eight opaque bytes.
type Verf [verfSize]byte

// StableHow is the requested durability of WRITE data when the reply leaves (RFC 1813 §3.3.7).
type StableHow uint32

// The durability levels, each stronger than the previous one.
const (
	Unstable StableHow = iota
	DataSync
	FileSync
)

func (s StableHow) String() string { return nameOf(stableNames[:], uint32(s), "stable_how") }

var stableNames = [...]string{"UNSTABLE", "DATA_SYNC", "FILE_SYNC"}

// CreateMode is CREATE's behavior for an existing name (RFC 1813 §3.3.8).
type CreateMode uint32

// The create modes.
const (
	Unchecked CreateMode = iota
	Guarded
	Exclusive
)

func (m CreateMode) String() string { return nameOf(createNames[:], uint32(m), "createmode") }

var createNames = [...]string{"UNCHECKED", "GUARDED", "EXCLUSIVE"}
