// FS: a mounted export, and the reading operations on its paths.

package nfsclient

import (
	"context"
	"io/fs"
	"path"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An FS is a mounted export, or a directory below one (Sub). It is safe for
// concurrent use and holds nothing that needs closing.
//
// Its methods take paths, which are resolved as POSIX has it, with the errors of
// the Linux system call of the same name: ".." leads to the parent of the
// directory that was reached, through symbolic links too; each component before
// a slash, the last one too, has to be a directory; a symbolic link's content is
// resolved from the directory that it is in; more than 40 links are ELOOP. A
// path's leading slash, and that of a link, means the root of the FS, and ".."
// stops there. "" is the root too.
//
// Modes are taken as they are given: a process's umask does not count.
type FS struct {
	c    *Client
	root nfs3.FH
	path string // of the root on the server, for messages
	size *sizes

	// above is the directories that lead from the mounted root to this one, which
	// ".." and links can reach; empty where the FS stops at its own root.
	above []nfs3.FH
}

// sizes is what FSINFO said, brought to what the transports carry.
type sizes struct {
	rtmax, wtmax int    // bytes of one READ, of one WRITE
	file         uint64 // most bytes of a file; 0: unknown
}

// maxTransfer is the most bytes of one READ or WRITE that are asked of any server.
const maxTransfer = 1 << 20

// newFS asks for the sizes of a mounted root.
func (c *Client) newFS(ctx context.Context, root nfs3.FH, dir string) (*FS, error) {
	info, err := c.Fsinfo(ctx, root)
	if err != nil {
		return nil, pathError("mount", dir, err)
	}
	clamp := func(n uint32, wanted int) int {
		size := min(n, maxTransfer)
		if n == 0 {
			size = 8192 // no answer: what every server takes
		}
		if wanted > 0 {
			return min(int(size), wanted)
		}
		return int(size)
	}
	return &FS{c: c, root: root, path: dir, size: &sizes{rtmax: clamp(info.Rtmax, c.opt.ReadSize), wtmax: clamp(info.Wtmax, c.opt.WriteSize), file: info.Maxfilesize}}, nil
}

// Client is the connection that the FS is used over.
func (f *FS) Client() *Client { return f.c }

// Root is the handle of the root.
func (f *FS) Root() nfs3.FH { return f.root }

// Path is the path of the root on the server.
func (f *FS) Path() string { return f.path }

// MaxRead and MaxWrite are the most bytes that travel in one READ and one WRITE.
func (f *FS) MaxRead() int { return f.size.rtmax }

// MaxWrite is the most bytes of one WRITE.
func (f *FS) MaxWrite() int { return f.size.wtmax }

// MaxFileSize is the server's largest file size in bytes; 0: unknown.
func (f *FS) MaxFileSize() uint64 { return f.size.file }

// At returns the FS whose root is the directory of a handle; name is for messages.
func (f *FS) At(dir nfs3.FH, name string) *FS {
	return &FS{c: f.c, root: dir, path: name, size: f.size}
}

// Sub returns the FS whose root is the directory name: paths below it then
// need fewer calls. Links and ".." do not lead out of it.
func (f *FS) Sub(ctx context.Context, name string) (*FS, error) {
	n, err := f.walk(ctx, name, true)
	if err == nil && n.Attr.Type != nfs3.TypeDir {
		err = &StatusError{Proc: nfs3.ProcLookup, Status: nfs3.ErrNotDir}
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f.At(n.FH, path.Join(f.path, name)), nil
}

// Stat describes what name leads to, through symbolic links.
func (f *FS) Stat(ctx context.Context, name string) (*FileInfo, error) {
	return f.stat(ctx, "stat", name, true)
}

// Lstat describes name itself, which may be a symbolic link.
func (f *FS) Lstat(ctx context.Context, name string) (*FileInfo, error) {
	return f.stat(ctx, "lstat", name, false)
}

func (f *FS) stat(ctx context.Context, op, name string, follow bool) (*FileInfo, error) {
	n, err := f.walk(ctx, name, follow)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return &FileInfo{name: baseName(name), Node: n}, nil
}

// baseName is the last component of a path, "/" for the root.
func baseName(name string) string { return path.Base("/" + name) }

// ReadLink returns the content of a symbolic link.
func (f *FS) ReadLink(ctx context.Context, name string) (string, error) {
	n, err := f.walk(ctx, name, false)
	if err == nil && n.Attr.Type != nfs3.TypeLnk {
		err = fs.ErrInvalid
	}
	var target string
	if err == nil {
		target, err = f.c.Readlink(ctx, n.FH)
	}
	return target, pathError("readlink", name, err)
}

// Access says which of the nfs3.Access bits the server allows on what name leads to.
func (f *FS) Access(ctx context.Context, name string, bits uint32) (uint32, error) {
	n, err := f.walk(ctx, name, true)
	if err != nil {
		return 0, pathError("access", name, err)
	}
	got, err := f.c.Access(ctx, n.FH, bits)
	return got, pathError("access", name, err)
}

// StatFS returns the space of the file system that the export is on.
func (f *FS) StatFS(ctx context.Context) (nfs3.FsstatRes, error) {
	res, err := f.c.Fsstat(ctx, f.root)
	return res, pathError("statfs", f.path, err)
}

// StatFSOf returns the space of the file system that name is on, which is another
// than the export's where the server lets clients cross mount points.
func (f *FS) StatFSOf(ctx context.Context, name string) (nfs3.FsstatRes, error) {
	n, err := f.walk(ctx, name, true)
	if err != nil {
		return nfs3.FsstatRes{}, pathError("statfs", name, err)
	}
	res, err := f.c.Fsstat(ctx, n.FH)
	return res, pathError("statfs", name, err)
}
