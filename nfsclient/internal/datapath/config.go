// Config and Server: an Engine's parts.

package datapath

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Cred selects a call's credentials. It is opaque here but comparable: data written with equal
// Creds may travel in one WRITE. nil means the Server's own credentials.
type Cred any

// A Server sends the calls of the data path. Many goroutines call its methods at once. The Server
// owns a slice during the call; over RDMA the slice is the memory region itself.
//
// The Server decides how long a call waits for a silent server: a hard mount waits forever. A soft
// mount returns an error, handled here like any other WRITE or COMMIT error. A call must return
// soon after its context has ended.
type Server interface {
	// Read reads up to len(p) bytes, at most Config.ReadSize, by one READ (RFC 1813 §3.3.6). eof
	// reports whether the file ends after these bytes.
	Read(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64) (n int, eof bool, err error)

	// Write writes p, at most Config.WriteSize bytes, by one WRITE (RFC 1813 §3.3.7). The server
	// may accept only the front of p. got is never less stable than how.
	Write(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64, how nfs3.StableHow) (n int, got nfs3.StableHow, verf nfs3.Verf, err error)

	// Commit commits a file's unstable data to stable storage (RFC 1813 §3.3.21).
	Commit(ctx context.Context, fh nfs3.FH, cred Cred) (nfs3.Verf, error)
}

// A Config configures an Engine. Zero values mean the defaults.
type Config struct {
	ReadSize  int // rsize: bytes of one READ; 0: 1 MiB
	WriteSize int // wsize: bytes of one WRITE; 0: 1 MiB

	// ReadAhead is the read-ahead for one sequential reader, in bytes; 0: 16 MiB, negative: none.
	ReadAhead int

	// ReadMemory bounds the memory for read-ahead, in bytes; 0: 128 MiB. The minimum is four READs.
	ReadMemory int64

	// DirtyFile and DirtyMount bound the memory for written data, in bytes, from Write until it is
	// on the server's stable storage. DirtyFile applies to one file, DirtyMount to the Engine; 0:
	// 64 MiB and 256 MiB. The minimums are two and four WRITEs. A file never gets more than it
	// leaves free for other files.
	DirtyFile, DirtyMount int64

	// Sync makes each write stable before it returns.
	Sync bool

	// FlushAfter is the age at which written data is sent if nothing else sent it before. Unread
	// read-ahead of this age is dropped. 0: 2 s.
	FlushAfter time.Duration

	// Lost, if set, is called with a closed file's write error, unless a later Open received it. It
	// must not block.
	Lost func(fh nfs3.FH, err error)
}
