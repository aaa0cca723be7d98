// FS: a mounted export, and reading operations on its paths.

package nfsclient

import (
	"context"
	"io/fs"
	"path"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An FS is a mounted export, or a directory below one (Sub). It is safe for concurrent use and
// holds nothing that needs closing.
//
// Its methods resolve paths like POSIX, with the errors of the Linux system call of the same name.
// ".." leads to the parent of the directory reached, even through symbolic links. Each component
// before a slash, including the last one, has to be a directory. A symbolic link's content is
// resolved from the link's directory; more than 40 links are ELOOP. The leading slash of a path or
// link means the root of the FS, and ".." stops there. "" is the root too.
//
// Modes are used unchanged: the process's umask is not applied.
type FS struct {
	c    *Client
	root nfs3.FH
	path string // the root's path on the server, for messages
	size *sizes

	// above has the directories from the mounted root to this FS's root. Links and ".." can reach
	// them. above is empty if the FS stops at its own root.
	above []nfs3.FH
}

// sizes has the limits of FSINFO, within those of the transports.
type sizes struct {
	rtmax, wtmax int    // bytes of one READ and one WRITE
	file         uint64 // largest file in bytes; 0: unknown
}

// maxTransfer bounds one READ or WRITE to any server, in bytes.
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
			size = 8192 // the server gave no size: every server accepts this size
		}
		if wanted > 0 {
			return min(int(size), wanted)
		}
		return int(size)
	}
	return &FS{c: c, root: root, path: dir, size: &sizes{rtmax: clamp(info.Rtmax, c.opt.ReadSize), wtmax: clamp(info.Wtmax, c.opt.WriteSize), file: info.Maxfilesize}}, nil
}

// Client returns the Client used by the FS.
func (f *FS) Client() *Client { return f.c }

// Root returns the root's handle.
func (f *FS) Root() nfs3.FH { return f.root }

// Path returns the root's path on the server.
func (f *FS) Path() string { return f.path }

// MaxRead returns the largest READ in bytes.
func (f *FS) MaxRead() int { return f.size.rtmax }

// MaxWrite returns the largest WRITE in bytes.
func (f *FS) MaxWrite() int { return f.size.wtmax }

// MaxFileSize returns the server's largest file size in bytes; 0: unknown.
func (f *FS) MaxFileSize() uint64 { return f.size.file }

// At returns an FS with the directory of a handle as root; name is for messages.
func (f *FS) At(dir nfs3.FH, name string) *FS {
	return &FS{c: f.c, root: dir, path: name, size: f.size}
}

// Sub returns an FS with the directory name as root: paths below it then need fewer calls. Links
// and ".." do not lead out of it.
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

// Stat describes the object at name, through symbolic links.
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

// baseName returns the last component of a path, "/" for the root.
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

// Access returns the subset of bits (nfs3.Access…) that the server allows on the object at name.
func (f *FS) Access(ctx context.Context, name string, bits uint32) (uint32, error) {
	n, err := f.walk(ctx, name, true)
	if err != nil {
		return 0, pathError("access", name, err)
	}
	got, err := f.c.Access(ctx, n.FH, bits)
	return got, pathError("access", name, err)
}

// StatFS returns the space of the export's file system.
func (f *FS) StatFS(ctx context.Context) (nfs3.FsstatRes, error) {
	res, err := f.c.Fsstat(ctx, f.root)
	return res, pathError("statfs", f.path, err)
}

// StatFSOf returns the space of the file system at name. This file system may differ from the
// export's if the server lets clients cross mount points.
func (f *FS) StatFSOf(ctx context.Context, name string) (nfs3.FsstatRes, error) {
	n, err := f.walk(ctx, name, true)
	if err != nil {
		return nfs3.FsstatRes{}, pathError("statfs", name, err)
	}
	res, err := f.c.Fsstat(ctx, n.FH)
	return res, pathError("statfs", name, err)
}
