// Config and Server: what an Engine is made of.

package datapath

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Cred is in whose name a call is made. It is opaque here, but comparable: data
// written with equal Creds may travel in one WRITE. nil is the Server's own.
type Cred any

// A Server makes the calls of the data path. Its methods are called from many
// goroutines at once. A slice belongs to the Server from the call until it has
// returned, and over RDMA it is the memory region itself.
//
// How long a call waits for a server that does not answer is the Server's to decide:
// a hard mount waits for ever, and a soft one returns an error, which here is a
// write error as any other. A call must return soon after its context has ended.
type Server interface {
	// Read reads up to len(p) bytes, at most Config.ReadSize, by one READ
	// (RFC 1813 §3.3.6), and reports whether the file ends after them.
	Read(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64) (n int, eof bool, err error)

	// Write writes p, at most Config.WriteSize bytes, by one WRITE (RFC 1813 §3.3.7).
	// The server may take only the front of p; it is never less stable than asked for.
	Write(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64, how nfs3.StableHow) (n int, got nfs3.StableHow, verf nfs3.Verf, err error)

	// Commit brings all unstable data of a file to stable storage (RFC 1813 §3.3.21).
	Commit(ctx context.Context, fh nfs3.FH, cred Cred) (nfs3.Verf, error)
}

// A Config is how an Engine behaves. Zero values mean the defaults.
type Config struct {
	ReadSize  int // bytes of one READ, rsize; 0: 1 MiB
	WriteSize int // bytes of one WRITE, wsize; 0: 1 MiB

	// ReadAhead is how far ahead of one sequential reader data is fetched, in bytes;
	// 0: 16 MiB, negative: none.
	ReadAhead int

	// ReadMemory bounds the memory of read-ahead, in bytes; 0: 128 MiB.
	// It is raised to four READs at least.
	ReadMemory int64

	// DirtyFile and DirtyMount bound the memory of written data, from Write until the
	// server has it on stable storage, of one file and of the Engine, in bytes;
	// 0: 64 MiB and 256 MiB. They are raised to two and four WRITEs at least. A
	// file never gets more than what it leaves free for others.
	DirtyFile, DirtyMount int64

	// Sync makes each write stable before it returns.
	Sync bool

	// FlushAfter is the age at which written data is sent that nothing else has
	// caused to be sent, and at which read-ahead that nobody has fetched is dropped;
	// 0: 2 s.
	FlushAfter time.Duration

	// Lost, if set, is told of a write error of a file that nobody has open any more,
	// and that no later Open was told of. It must not block.
	Lost func(fh nfs3.FH, err error)
}
