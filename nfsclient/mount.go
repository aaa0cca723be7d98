// Mounting: from an export's path to its root handle (RFC 1813 appendix I).

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// The MOUNT procedures used by a client.
var (
	mountMnt    = mountProc(mount3.ProcMnt, "MNT", 4+4+mount3.MaxHandle+4+4*mount3.MaxFlavor)
	mountUmnt   = mountProc(mount3.ProcUmnt, "UMNT", 0)
	mountExport = mountProc(mount3.ProcExport, "EXPORT", mount3.MaxList)
)

// mountProc describes a MOUNT procedure; most bounds its reply in bytes.
func mountProc(n uint32, name string, most int) transport.Proc {
	return transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: n, Name: name, MaxReply: most}
}

// mountCall runs one MOUNT procedure: at MountPort if set, else on the NFS connection, else at the
// port from rpcbind; on MountHost if set.
func (c *Client) mountCall(ctx context.Context, p *transport.Proc, args xdr.Marshaler, res xdr.Unmarshaler) error {
	host, port := c.opt.MountHost, c.opt.MountPort
	if port == 0 && host == "" {
		err := c.conns[0].Call(ctx, p, args, res, nil, 0)
		if !errors.Is(err, transport.ErrProgUnavail) {
			return err
		}
	}
	if host == "" {
		host = c.server.address()
	}
	if port == 0 {
		var err error
		if port, err = c.getPortAt(ctx, host, mount3.Program, mount3.Version); err != nil {
			return fmt.Errorf("no MOUNT service on the NFS port, and rpcbind of %s has none: %w", host, err)
		}
	}
	conn, err := c.dialServiceBy(ctx, host, port, c.cfg)
	if err != nil {
		return fmt.Errorf("connect to the MOUNT service: %w", err)
	}
	defer conn.Close()
	return conn.Call(ctx, p, args, res, nil, 0)
}

// MountHandle returns the handle of an exported directory.
func (c *Client) MountHandle(ctx context.Context, dir string) (nfs3.FH, error) {
	fh, _, err := c.mountFlavors(ctx, dir)
	return fh, err
}

// mountFlavors also returns the server's list of flavors for the directory. MOUNT calls always use
// AUTH_SYS, like those of Linux's mount: its server's MOUNT has no Kerberos.
func (c *Client) mountFlavors(ctx context.Context, dir string) (nfs3.FH, []uint32, error) {
	var res mount3.MntRes
	if len(dir) > mount3.MaxPath {
		return nfs3.FH{}, nil, &MountError{Path: dir, Status: mount3.ErrNameTooLong}
	}
	if err := c.mountCall(ctx, &mountMnt, &mount3.PathArgs{Path: dir}, &res); err != nil {
		return nfs3.FH{}, nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	if res.Status != mount3.OK {
		return nfs3.FH{}, nil, &MountError{Path: dir, Status: res.Status}
	}
	fh, err := nfs3.MakeFH(res.Handle)
	return fh, res.Flavors, err
}

// Unmount notifies the server of the end of a mount. The call is advisory.
func (c *Client) Unmount(ctx context.Context, dir string) error {
	return c.mountCall(ctx, &mountUmnt, &mount3.PathArgs{Path: dir}, void{})
}

// Exports lists the server's exports and their clients.
func (c *Client) Exports(ctx context.Context) ([]mount3.Export, error) {
	var res mount3.ExportRes
	if err := c.mountCall(ctx, &mountExport, void{}, &res); err != nil {
		return nil, fmt.Errorf("list exports: %w", err)
	}
	return res.Exports, nil
}

// Mount mounts an exported directory.
func (c *Client) Mount(ctx context.Context, dir string) (*FS, error) {
	dir = path.Clean("/" + dir)
	fh, flavors, err := c.mountFlavors(ctx, dir)
	if err != nil {
		return nil, err
	}
	if c, err = c.WithFlavors(dir, flavors); err != nil {
		return nil, err
	}
	if err := c.followRoot(ctx, fh); err != nil {
		return nil, pathError("mount", dir, err)
	}
	return c.newFS(ctx, fh, dir)
}

// MountPath mounts the longest export at or above p. rest is the unchanged remainder of p below the
// export's root ("" for the root itself). MountPath reads the list of exports. If no export in it
// fits, MountPath tries p and its parents in turn.
func (c *Client) MountPath(ctx context.Context, p string) (f *FS, rest string, err error) {
	list, _ := c.Exports(ctx) // some servers do not disclose it
	dirs := make([]string, len(list))
	for i, x := range list {
		dirs[i] = path.Clean("/" + x.Dir)
	}
	if best, below, ok := splitExport(p, dirs); ok {
		if f, err = c.Mount(ctx, best); err == nil {
			return f, below, nil
		}
	}
	return c.mountAny(ctx, p)
}

// mountAny mounts a directory on the way to p without the list of exports.
func (c *Client) mountAny(ctx context.Context, p string) (f *FS, rest string, err error) {
	var deepest *MountError
	for _, t := range mountTries(p) {
		if f, err = c.Mount(ctx, t.dir); err == nil {
			return f, t.rest, nil
		}
		var refused *MountError
		if !errors.As(err, &refused) {
			return nil, "", err
		}
		if deepest == nil || len(t.dir) > len(deepest.Path) {
			deepest = refused
		}
	}
	return nil, "", deepest
}

// Open connects to a target's server and mounts its export; rest is the path below the root. The
// caller closes the FS's Client.
func Open(ctx context.Context, t Target, opt Options) (f *FS, rest string, err error) {
	opt.Transport = t.Transport
	c, err := Dial(ctx, t.Addr(), opt)
	if err != nil {
		return nil, "", err
	}
	if f, rest, err = c.MountPath(ctx, t.Path); err != nil {
		c.Close()
		return nil, "", err
	}
	return f, rest, nil
}
