// File: opening, closing, and the position for Read and Write.

package nfsclient

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A File is an open file. Many goroutines may call ReadAt and WriteAt at once, and their calls are
// in flight together. Read, Write and Seek share one position.
//
// Written data is on its way to stable storage. It is stable only after Sync or Close returned nil.
type File struct {
	// set once
	fs   *FS
	ctx  context.Context // bounds every call of the File
	name string
	fh   nfs3.FH
	flag int

	// posMu is taken before every other lock of the client. ReadAt and WriteAt do not take it.
	posMu sync.Mutex // guards pos during Read and Write
	pos   int64

	dirty  dirty
	closed closedFlag
}

// Open opens a file for reading. ctx bounds all use of the File.
func (f *FS) Open(ctx context.Context, name string) (*File, error) {
	return f.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create makes or empties a file and opens it for reading and writing.
func (f *FS) Create(ctx context.Context, name string, perm fs.FileMode) (*File, error) {
	return f.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, perm)
}

// OpenFile opens a file with the flags of os.OpenFile. O_EXCL excludes all other clients (RFC 1813
// §3.3.8). O_APPEND is correct only with one writer, because NFSv3 has no append. O_SYNC makes
// every write stable before it returns. perm is used unchanged: apply a umask first.
func (f *FS) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	n, err := f.openNode(ctx, name, flag, perm)
	if err == nil && flag&(os.O_WRONLY|os.O_CREATE) == 0 && n.Attr.Type == nfs3.TypeReg && n.Attr.Mode&0o444 != 0o444 {
		err = f.mayRead(ctx, n.FH)
	}
	if err == nil && n.Attr.Type == nfs3.TypeDir && flag&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC|os.O_CREATE) != 0 {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f.OpenNode(ctx, n.FH, name, flag), nil
}

// mayRead checks the right to read, like open(2). READ is not enough as a check: servers let a
// file's owner read regardless of the mode (RFC 1813 §4.4).
func (f *FS) mayRead(ctx context.Context, fh nfs3.FH) error {
	got, err := f.c.Access(ctx, fh, nfs3.AccessRead)
	if err == nil && got&nfs3.AccessRead == 0 {
		err = ErrNoAccess
	}
	return err
}

// OpenNode opens a file by its handle, without a call. It ignores flags that create or truncate.
func (f *FS) OpenNode(ctx context.Context, fh nfs3.FH, name string, flag int) *File {
	return &File{fs: f, ctx: ctx, name: name, fh: fh, flag: flag}
}

// openNode finds or makes the file for OpenFile, and truncates it if requested.
func (f *FS) openNode(ctx context.Context, name string, flag int, perm fs.FileMode) (Node, error) {
	var n Node
	var err error
	switch flag & (os.O_CREATE | os.O_EXCL) {
	case os.O_CREATE | os.O_EXCL:
		return f.createNew(ctx, name, perm)
	case os.O_CREATE:
		n, err = f.create(ctx, name, nfs3.Sattr{SetMode: true, Mode: WireMode(perm), SetSize: flag&os.O_TRUNC != 0})
	default:
		n, err = f.walk(ctx, name, true)
	}
	if err == nil && flag&os.O_TRUNC != 0 && flag&(os.O_WRONLY|os.O_RDWR) != 0 && n.Attr.Type == nfs3.TypeReg && n.Attr.Size > 0 {
		err = f.c.Setattr(ctx, n.FH, nfs3.Sattr{SetSize: true})
		n.Attr.Size = 0
	}
	return n, err
}

// create finds or makes a file. It follows a symbolic link at the end of the path, even to a
// missing file. attr is for a new file. attr's size also applies if another client has made the
// file meanwhile (RFC 1813 §3.3.8).
func (f *FS) create(ctx context.Context, name string, attr nfs3.Sattr) (Node, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return Node{}, fs.ErrInvalid
	}
	w := f.walker(ctx)
	base, slash, err := w.advance(name)
	for err == nil {
		p := parentName{dir: w.top().FH, base: base, slash: slash}
		if slash || !p.isName() {
			return Node{}, syscall.EISDIR
		}
		n, e := w.lookup(base)
		switch {
		case errors.Is(e, fs.ErrNotExist):
			return f.c.Create(ctx, p.dir, base, nfs3.Unchecked, attr, nfs3.Verf{})
		case n.Attr.Type != nfs3.TypeLnk: // after an error the type is 0
			return n, e
		}
		base, slash, err = w.follow(n)
	}
	return Node{}, err
}

// createNew makes a file; an existing name is an error. By the verifier the server recognizes a
// retransmission of our own call. Attributes follow in another call.
func (f *FS) createNew(ctx context.Context, name string, perm fs.FileMode) (Node, error) {
	p, err := f.resolveParent(ctx, name)
	if err == nil && !p.isName() {
		err = syscall.EEXIST
	}
	if err == nil && p.slash {
		err = syscall.EISDIR
	}
	if err != nil {
		return Node{}, err
	}
	dir, base := p.dir, p.base
	attr := nfs3.Sattr{SetMode: true, Mode: WireMode(perm)}
	var verf nfs3.Verf
	_, _ = rand.Read(verf[:]) // never fails
	// EXCLUSIVE, not GUARDED: after a lost reply the call may be sent again to a restarted server
	// with an empty duplicate request cache. The file keeps the verifier, so the server
	// distinguishes our first attempt's file from another client's.
	n, err := f.c.Create(ctx, dir, base, nfs3.Exclusive, nfs3.Sattr{}, verf)
	if errors.Is(err, nfs3.ErrNotSupp) {
		return f.c.Create(ctx, dir, base, nfs3.Guarded, attr, nfs3.Verf{})
	}
	if err != nil {
		return Node{}, err
	}
	// Servers keep the verifier in the times (RFC 1813 §3.3.8), so set the times as well.
	attr.AtimeHow, attr.MtimeHow = nfs3.SetToServerTime, nfs3.SetToServerTime
	if err := f.c.Setattr(ctx, n.FH, attr); err != nil {
		return Node{}, err
	}
	n.Attr, err = f.c.Getattr(ctx, n.FH)
	return n, err
}

// Name returns the path given to Open.
func (f *File) Name() string { return f.name }

// FH returns the file's handle.
func (f *File) FH() nfs3.FH { return f.fh }

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) {
	a, err := f.fs.c.Getattr(f.ctx, f.fh)
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return &FileInfo{name: baseName(f.name), Node: Node{FH: f.fh, Attr: a}}, nil
}

// Truncate sets the length in bytes.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	return f.setattr("truncate", nfs3.Sattr{SetSize: true, Size: uint64(size)})
}

// Chmod sets permission bits.
func (f *File) Chmod(mode fs.FileMode) error {
	return f.setattr("chmod", nfs3.Sattr{SetMode: true, Mode: WireMode(mode)})
}

func (f *File) setattr(op string, attr nfs3.Sattr) error {
	return pathError(op, f.name, f.fs.c.Setattr(f.ctx, f.fh, attr))
}

// Read reads from the position on.
func (f *File) Read(p []byte) (int, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && isEnd(err) {
		err = nil
	}
	return n, err
}

// Write writes at the position, or at the end with O_APPEND.
func (f *File) Write(p []byte) (int, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	if f.flag&os.O_APPEND != 0 {
		a, err := f.fs.c.Getattr(f.ctx, f.fh)
		if err != nil {
			return 0, pathError("write", f.name, err)
		}
		f.pos = int64(a.Size)
	}
	n, err := f.writeAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// Seek moves the position for Read and Write.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		a, err := f.fs.c.Getattr(f.ctx, f.fh)
		if err != nil {
			return 0, pathError("seek", f.name, err)
		}
		offset += int64(a.Size)
	default:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	f.pos = offset
	return offset, nil
}

// Close commits unstable data and returns an error if that fails.
func (f *File) Close() error {
	if !f.closed.set() {
		return pathError("close", f.name, fs.ErrClosed)
	}
	// As in the kernel's client, data is stable when close returns, or the program gets an error.
	return f.sync("close")
}

// Client returns the Client used by the file.
func (f *File) Client() *Client { return f.fs.c }
