// Replies after a failover: interpreting calls that went to two servers.
//
// A server keeps the replies of non-idempotent calls for retransmissions (duplicate request cache).
// Another server does not have these replies. If a server runs a call and fails before the reply,
// the call runs again on the next server and finds its own work: REMOVE finds nothing, MKDIR finds
// a directory. So after such a reply the client looks up the name.

package nfsclient

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// marked returns args with a mark for the new object: an access time at a random nanosecond of the
// previous second. It distinguishes our own directory from another client's of the same name. Two
// clients that make a lock directory never both succeed.
func marked(args xdr.Marshaler) xdr.Marshaler {
	switch a := args.(type) {
	case *nfs3.MkdirArgs:
		b := *a
		b.Attr = withMark(b.Attr)
		return &b
	case *nfs3.SymlinkArgs:
		b := *a
		b.Attr = withMark(b.Attr)
		return &b
	case *nfs3.MknodArgs:
		b := *a
		b.Attr = withMark(b.Attr)
		return &b
	case *nfs3.CreateArgs:
		if a.Mode != nfs3.Guarded {
			break
		}
		b := *a
		b.Attr = withMark(b.Attr)
		return &b
	}
	return args
}

// withMark sets the access time unless it is set.
func withMark(attr nfs3.Sattr) nfs3.Sattr {
	if attr.AtimeHow == nfs3.DontChange {
		attr.AtimeHow, attr.Atime = nfs3.SetToClientTime, nfs3.MakeTime(time.Now().Add(-rand.N(time.Second)))
	}
	return attr
}

// fromServer corrects a reply if there is, or may be, more than one server.
func (c *Client) fromServer(ctx context.Context, from transport.Answer, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status) error {
	switch *status {
	case nfs3.OK:
		ofServer(from.Addr, res)
	case nfs3.ErrNoEnt, nfs3.ErrExist:
		if !from.Elsewhere {
			break
		}
		done, err := c.doneBefore(ctx, proc, args, *status)
		if err != nil {
			return err
		}
		if done {
			*status = nfs3.OK
		}
	}
	return nil
}

// ofServer makes the write verifiers of two servers differ. The servers' own verifiers could be
// equal by chance, or because servers count their starts. But a COMMIT at one server does not cover
// data written to another.
func ofServer(addr string, res xdr.Unmarshaler) {
	var verf *nfs3.Verf
	switch r := res.(type) {
	case *nfs3.WriteRes:
		verf = &r.Verf
	case *nfs3.CommitRes:
		verf = &r.Verf
	default:
		return
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(addr)) // never fails
	binary.BigEndian.PutUint64(verf[:], binary.BigEndian.Uint64(verf[:])^h.Sum64())
}

// doneBefore reports whether an earlier server has run a call refused with st. A missing name does
// not show which call removed it, so REMOVE and RMDIR count as done. RENAME counts as done if the
// new name exists.
func (c *Client) doneBefore(ctx context.Context, proc uint32, args xdr.Marshaler, st nfs3.Status) (bool, error) {
	gone := st == nfs3.ErrNoEnt
	switch proc {
	case nfs3.ProcRemove, nfs3.ProcRmdir:
		return gone, nil
	case nfs3.ProcRename:
		if a, ok := args.(*nfs3.RenameArgs); ok && gone {
			n, err := c.lookUpName(ctx, &a.To)
			return n != nil, err
		}
	case nfs3.ProcLink:
		if a, ok := args.(*nfs3.LinkArgs); ok && !gone {
			return c.isLink(ctx, a)
		}
	}
	if gone {
		return false, nil
	}
	switch a := args.(type) {
	case *nfs3.MkdirArgs:
		return c.isOurs(ctx, &a.Where, &a.Attr, nfs3.TypeDir)
	case *nfs3.SymlinkArgs:
		return c.isOurs(ctx, &a.Where, &a.Attr, nfs3.TypeLnk)
	case *nfs3.MknodArgs:
		return c.isOurs(ctx, &a.Where, &a.Attr, a.Type)
	case *nfs3.CreateArgs:
		return c.isOurs(ctx, &a.Where, &a.Attr, nfs3.TypeReg)
	}
	return false, nil
}

// isLink reports whether a LINK's new name already leads to its file.
func (c *Client) isLink(ctx context.Context, a *nfs3.LinkArgs) (bool, error) {
	n, err := c.lookUpName(ctx, &a.Link)
	if n == nil || err != nil {
		return false, err
	}
	of, err := c.Getattr(ctx, a.FH)
	return err == nil && of.Fsid == n.Attr.Fsid && of.Fileid == n.Attr.Fileid, transportErr(ctx, err)
}

// isOurs reports whether the object under a name has the call's mark.
func (c *Client) isOurs(ctx context.Context, at *nfs3.DirOpArgs, attr *nfs3.Sattr, t nfs3.FileType) (bool, error) {
	n, err := c.lookUpName(ctx, at)
	return n != nil && n.Attr.Type == t && attr.AtimeHow == nfs3.SetToClientTime && n.Attr.Atime == attr.Atime, err
}

// lookUpName looks up a name. It returns a nil Node if the server refuses.
func (c *Client) lookUpName(ctx context.Context, at *nfs3.DirOpArgs) (*Node, error) {
	n, err := c.Lookup(ctx, at.Dir, string(at.Name))
	if err != nil {
		return nil, transportErr(ctx, err)
	}
	return &n, nil
}

// transportErr returns err, or nil if err is a server's refusal.
func transportErr(ctx context.Context, err error) error {
	var refused *StatusError
	if errors.As(err, &refused) && ctx.Err() == nil {
		return nil
	}
	return err
}
