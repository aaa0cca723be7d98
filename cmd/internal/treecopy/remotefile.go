// Remote files, open for reading or writing.

package treecopy

import (
	"context"
	"io/fs"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// A remoteFile is a Source or a Sink.
type remoteFile struct {
	*nfsclient.File
	meta Meta // attributes at the time of opening
	dir  *remoteDir
	had  bool // the file existed before, possibly with an ACL
}

// Open opens a regular file; NFS carries no data of devices and FIFOs. Links have been followed
// before. A server lets the owner read a file whatever its mode (RFC 1813 §4.4), so if the mode
// leaves a doubt, the client calls ACCESS, to refuse as open(2) would.
func (d *remoteDir) Open(ctx context.Context, m Meta) (Source, error) {
	if m.Mode.IsRegular() && m.Mode&0o444 != 0o444 {
		got, err := d.c.Access(ctx, m.FH, nfs3.AccessRead)
		if err == nil && got&nfs3.AccessRead == 0 {
			err = nfsclient.ErrNoAccess
		}
		if err != nil {
			return nil, err
		}
	}
	f, err := d.file(ctx, m, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *remoteDir) file(ctx context.Context, m Meta, flag int) (*remoteFile, error) {
	if m.Mode.IsDir() {
		return nil, unix.EISDIR
	}
	if !m.Mode.IsRegular() {
		return nil, unix.ENXIO
	}
	return &remoteFile{File: d.at.OpenNode(ctx, m.FH, d.Text(m.Name), flag), meta: m, dir: d}, nil
}

func (d *remoteDir) Overwrite(ctx context.Context, m Meta) (Sink, error) {
	f, err := d.file(ctx, m, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	f.had = true
	if err := d.c.Setattr(ctx, m.FH, nfs3.Sattr{SetSize: true}); err != nil {
		return nil, err
	}
	return f, nil
}

// Create sends a GUARDED CREATE, which also sets the mode. A file that fits one WRITE is written
// FILE_SYNC, which saves the COMMIT.
func (d *remoteDir) Create(ctx context.Context, name string, perm fs.FileMode, whole int) (Sink, error) {
	attr := nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(perm)}
	n, err := d.c.Create(ctx, d.fh, name, nfs3.Guarded, attr, nfs3.Verf{})
	if err != nil {
		return nil, err
	}
	flag := os.O_WRONLY
	if whole >= 0 && whole <= d.at.MaxWrite() {
		flag |= os.O_SYNC
	}
	f, err := d.file(ctx, remoteMeta(d.c, name, n), flag)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *remoteFile) Stream() bool { return false }

// NextData always returns ok false: NFSv3 has no such procedure.
func (f *remoteFile) NextData(int64) (start, end int64, ok bool, err error) {
	return 0, 0, false, nil
}

func (f *remoteFile) Size() (int64, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *remoteFile) Stat() (Meta, error) { return f.meta, nil }

func (f *remoteFile) SetAttr(ctx context.Context, a Attr) error {
	if a.SetACLs {
		set := f.dir.setNew
		if f.had {
			set = f.dir.send
		}
		if err := set(ctx, &f.meta, &a.ACLs); err != nil {
			return err
		}
	}
	return setattr(ctx, f.Client(), f.FH(), a, false)
}

// Adopt sets the ACL first. The file is still empty, so owner and mode cannot expose any content.
func (f *remoteFile) Adopt(ctx context.Context, old *Meta) error {
	if err := f.adoptACLs(ctx, old); err != nil {
		return err
	}
	err := f.SetAttr(ctx, Attr{
		SetMode: true, Mode: old.Mode,
		SetOwner: f.meta.UID != old.UID || f.meta.GID != old.GID, UID: int(old.UID), GID: int(old.GID),
	})
	if err == nil {
		f.meta.UID, f.meta.GID = old.UID, old.GID
	}
	return err
}
