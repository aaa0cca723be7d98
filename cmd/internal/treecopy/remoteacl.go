// ACLs of objects on a server, through NFSACL if the server has NFSACL.

package treecopy

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// dirACLs caches the ACLs of a target directory. In a directory without a default ACL, new objects
// have no ACLs, so no call is needed to remove them.
type dirACLs struct {
	in *remoteDir // set once: the parent, if this run made the directory; otherwise nil

	// mu guards the next fields, also during calls to the server; lock order: a directory before
	// its parent
	mu    sync.Mutex
	known bool
	now   nfsclient.ACLs // an empty Access stands for the mode
}

// current returns the directory's ACLs. It queries the server until there has been one answer. It
// never does so if this run made the directory in a parent without a default ACL.
func (d *remoteDir) current(ctx context.Context) (nfsclient.ACLs, error) {
	d.acls.mu.Lock()
	defer d.acls.mu.Unlock()
	if d.acls.known {
		return d.acls.now, nil
	}
	if d.acls.in != nil {
		if up, err := d.acls.in.current(ctx); err == nil && len(up.Default) == 0 {
			d.acls.known = true
			return nfsclient.ACLs{}, nil
		}
	}
	now, _, err := d.c.GetACL(ctx, d.fh)
	if errors.Is(err, errors.ErrUnsupported) {
		now, err = nfsclient.ACLs{}, nil
	}
	d.acls.known, d.acls.now = err == nil, now
	return now, err
}

// ACLs reads the ACLs of m.
func (d *remoteDir) ACLs(ctx context.Context, m Meta) (nfsclient.ACLs, error) {
	acls, _, err := d.c.GetACL(ctx, d.handle(&m))
	return acls, err
}

// ACLs reads the file's ACLs.
func (f *remoteFile) ACLs(ctx context.Context) (nfsclient.ACLs, error) {
	acls, _, err := f.Client().GetACL(ctx, f.FH())
	return acls, err
}

// setSelf sets the directory's ACLs.
func (d *remoteDir) setSelf(ctx context.Context, acls *nfsclient.ACLs) error {
	if now, err := d.current(ctx); err == nil && plain(&now) && plain(acls) {
		return nil
	}
	err := d.send(ctx, &d.self, acls)
	if err == nil {
		d.acls.mu.Lock()
		d.acls.known, d.acls.now = true, *acls
		d.acls.mu.Unlock()
	}
	return err
}

// setNew sets the ACLs of m, which was created in the directory without explicit ACLs.
func (d *remoteDir) setNew(ctx context.Context, m *Meta, acls *nfsclient.ACLs) error {
	if plain(acls) {
		if now, err := d.current(ctx); err == nil && len(now.Default) == 0 {
			return nil
		}
	}
	return d.send(ctx, m, acls)
}

// send sends SETACL. On a server without ACLs there is nothing to remove.
func (d *remoteDir) send(ctx context.Context, m *Meta, acls *nfsclient.ACLs) error {
	_, err := d.c.SetACL(ctx, m.FH, *acls, m.Mode.IsDir())
	if plain(acls) && errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// adoptACLs gives a new file the access ACL of the file it will replace, or only the mode.
func (f *remoteFile) adoptACLs(ctx context.Context, old *Meta) error {
	acls, _, err := f.Client().GetACL(ctx, old.FH)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	if acls.Default = nil; plain(&acls) {
		acls.Access = posixacl.FromMode(uint32(old.Mode.Perm()))
	}
	return f.dir.setNew(ctx, &f.meta, &acls)
}
