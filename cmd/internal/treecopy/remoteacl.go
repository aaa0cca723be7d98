// ACLs of objects on a server, by NFSACL where it has that.

package treecopy

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// dirACLs is what is known of the ACLs of a target directory. It spares the calls for what is
// made in one without a default ACL: that has no ACL to be taken away.
type dirACLs struct {
	in *remoteDir // set once: where this run made the directory; nil: it was there before

	mu    sync.Mutex // guards the rest, also while the server is asked; that of a directory is taken before that of the one it is in
	known bool
	now   nfsclient.ACLs // Access is not more than a mode where it is empty
}

// current is the ACLs of the directory. It asks once, and not at all where the run made the
// directory in one that gives its default ACL to nothing.
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

// ACLs reads those of the file.
func (f *remoteFile) ACLs(ctx context.Context) (nfsclient.ACLs, error) {
	acls, _, err := f.Client().GetACL(ctx, f.FH())
	return acls, err
}

// setSelf sets the ACLs of the directory itself.
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

// setNew sets the ACLs of m, which was made in the directory without any of its own.
func (d *remoteDir) setNew(ctx context.Context, m *Meta, acls *nfsclient.ACLs) error {
	if plain(acls) {
		if now, err := d.current(ctx); err == nil && len(now.Default) == 0 {
			return nil
		}
	}
	return d.send(ctx, m, acls)
}

// send is SETACL. A server without ACLs has none to be taken away.
func (d *remoteDir) send(ctx context.Context, m *Meta, acls *nfsclient.ACLs) error {
	_, err := d.c.SetACL(ctx, m.FH, *acls, m.Mode.IsDir())
	if plain(acls) && errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// adoptACLs gives a new file the access ACL of the one that it will replace, or the mode alone.
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
